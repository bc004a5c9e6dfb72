// Package pds is the face of the repo host.
//
// # Owns
//
// The handlers of the com.atproto.* methods, garden.herbarium.validateRecord,
// key login (loginkey.go) and the host's plain routes (wellknown.go); who a request comes from
// ([Authenticator]); the table that maps the rooms' errors to answers
// (errors.go); the lexicons that the operator adds (lexicons.go); how much may be asked of the process (ratelimit.go, limiter.go); proxying to
// other services in an account's name (proxy.go); asking relays to crawl the
// host ([Crawler]); the steps of a purge through all rooms (purge.go) and its
// [Receipt].
//
// # Hides
//
// That accounts, repos, events and blobs live in four rooms. A handler parses,
// authorises, calls one of them and maps the result.
//
// # Invariants
//
//   - Every route is classified (xrpc.Access); in visibility team only those
//     of DESIGN section 1 answer without a credential. routes_test.go walks
//     them all.
//   - The text of an error that is not in the table of errors.go never leaves
//     the process.
//   - A record is served as JSON of the stored bytes, and those bytes are never
//     encoded again.
//   - What changes an account and the event that tells of it commit together.
//   - A user's token is never sent on. A service gets a token of its own, for
//     one method, for a minute.
//
// # Does not
//
// It keeps no state of its own but bounded memories, against replay and for
// rate limits, starts no goroutine outside Crawler.Run, and never reads the appview's tables.
// Limits are counted per process; what an account may write is judged by
// package repostore (policy.go hands it over). The number of passwords checked
// at once is bounded by package account.
package pds
