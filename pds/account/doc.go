// Package account owns who lives on this host: accounts and their status,
// handles, passwords, app passwords and login keys, sessions and their tokens,
// invites, the keys that sign for an account, what the operator lets it write
// and says of those that are agents, DID documents and did:plc operations.
//
// Hides: the tables of 00004_accounts.sql, 00005_login_keys.sql,
// 00008_credentials.sql, 00009_agents.sql and 00010_account_policies.sql,
// argon2id and its queue, the form of session tokens, the envelope that keys
// are wrapped in, the caches that let a request be authenticated without a
// database read, and which DIDs are answered from the database instead of the
// network.
//
// Invariants: a did:web DID is issued once, ever, and its document is served
// for ever; one handle has one account; a private key is in the database only
// wrapped by the master key, and is destroyed with its account; a password is
// never compared in less time for an account that does not exist; what ends a
// session (sign-out, password change, revoked or rotated app password, removed
// login key) is obeyed by every replica within PollEvery; no token outlives the
// credential that opened its session; an assertion opens one session; an
// agent that is disabled or past its expiry is out at that moment, and what
// that closed, and nothing else, is open again when it ends; a secret has no
// printable form.
//
// Does not: speak XRPC (pds maps the errors of errors.go to names), keep
// repos, emit events, send mail, enforce a policy (pds and repostore do).
// Creating or changing an account together with its repo and its events is one
// transaction of the caller: the methods that take a tx are made for that.
package account
