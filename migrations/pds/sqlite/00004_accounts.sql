-- +goose Up
-- Rows are never removed: a deleted account keeps its DID, its public key and
-- the times, so that what it signed can still be verified.
CREATE TABLE accounts (
    did             TEXT PRIMARY KEY,
    handle          TEXT UNIQUE,   -- lower case; NULL once deleted
    identity        TEXT NOT NULL, -- web | plc (issued here), own (brought along)
    email           TEXT UNIQUE,   -- lower case; optional
    email_confirmed TEXT,          -- when
    password        TEXT,          -- PHC string; NULL: no password login
    password_set_at TEXT,          -- not moved when a hash is renewed
    created_at      TEXT NOT NULL,
    changed_at      TEXT NOT NULL, -- replicas drop what they cached when this moves
    deactivated_at  TEXT,
    delete_after    TEXT,
    suspended_at    TEXT,
    takendown_at    TEXT,
    takedown_ref    TEXT,
    deleted_at      TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX accounts_created ON accounts (created_at, did);
CREATE INDEX accounts_changed ON accounts (changed_at);

-- Every did:web label this host ever issued. Never deleted from.
CREATE TABLE issued_labels (
    label        TEXT PRIMARY KEY, -- the handle the DID was issued for
    did          TEXT NOT NULL UNIQUE,
    issued_at    TEXT NOT NULL,
    pds_endpoint TEXT,             -- when the account lives elsewhere now
    public_key   TEXT              -- its key there, as did:key
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    subject    TEXT NOT NULL, -- a DID, or host
    purpose    TEXT NOT NULL, -- signing | rotation | host
    public_key TEXT NOT NULL, -- did:key
    wrapped    BLOB,          -- envelope by the master key; NULL once destroyed
    created_at TEXT NOT NULL,
    PRIMARY KEY (subject, purpose)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    sid          TEXT PRIMARY KEY,
    did          TEXT NOT NULL,
    scope        TEXT NOT NULL,
    app_password TEXT,          -- its name, when that is what logged in
    created_at   TEXT NOT NULL,
    expires_at   TEXT NOT NULL, -- no refresh token of the session outlives this
    ended_at     TEXT           -- revoked; access tokens are refused from then on
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_did ON sessions (did, created_at, sid);
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX sessions_expires ON sessions (expires_at);

CREATE TABLE refresh_tokens (
    jti         TEXT PRIMARY KEY,
    sid         TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    expires_at  TEXT NOT NULL,
    next_jti    TEXT,           -- the one successor, once rotated
    grace_until TEXT            -- the successor is handed out until then
) STRICT, WITHOUT ROWID;
CREATE INDEX refresh_tokens_sid ON refresh_tokens (sid);
CREATE INDEX refresh_tokens_expires ON refresh_tokens (expires_at);
CREATE INDEX refresh_tokens_grace ON refresh_tokens (grace_until) WHERE grace_until IS NOT NULL;

CREATE TABLE app_passwords (
    did        TEXT NOT NULL,
    name       TEXT NOT NULL,
    hash       BLOB NOT NULL,    -- SHA-256 over DID and password (80 random bits)
    privileged INTEGER NOT NULL, -- 0 | 1
    created_at TEXT NOT NULL,
    PRIMARY KEY (did, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE invites (
    code        TEXT PRIMARY KEY,
    for_account TEXT NOT NULL,    -- a DID, or admin
    created_by  TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    uses        INTEGER NOT NULL, -- as created
    uses_left   INTEGER NOT NULL CHECK (uses_left >= 0),
    disabled_at TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX invites_created ON invites (created_at, code);
CREATE INDEX invites_account ON invites (for_account, created_at, code);

CREATE TABLE invite_uses (
    code    TEXT NOT NULL,
    did     TEXT NOT NULL,
    used_at TEXT NOT NULL,
    PRIMARY KEY (code, did)
) STRICT, WITHOUT ROWID;
