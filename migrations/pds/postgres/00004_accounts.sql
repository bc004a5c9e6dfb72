-- +goose Up
-- Rows are never removed: a deleted account keeps its DID, its public key and
-- the times, so that what it signed can still be verified.
CREATE TABLE accounts (
    did             TEXT COLLATE "C" PRIMARY KEY,
    handle          TEXT COLLATE "C" UNIQUE,   -- lower case; NULL once deleted
    identity        TEXT NOT NULL, -- web | plc (issued here), own (brought along)
    email           TEXT COLLATE "C" UNIQUE,   -- lower case; optional
    email_confirmed TEXT,          -- when
    password        TEXT,          -- PHC string; NULL: no password login
    password_set_at TEXT,          -- not moved when a hash is renewed
    created_at      TEXT COLLATE "C" NOT NULL,
    changed_at      TEXT COLLATE "C" NOT NULL, -- replicas drop what they cached when this moves
    deactivated_at  TEXT,
    delete_after    TEXT,
    suspended_at    TEXT,
    takendown_at    TEXT,
    takedown_ref    TEXT,
    deleted_at      TEXT
);
CREATE INDEX accounts_created ON accounts (created_at, did);
CREATE INDEX accounts_changed ON accounts (changed_at);

-- Every did:web label this host ever issued. Never deleted from.
CREATE TABLE issued_labels (
    label        TEXT COLLATE "C" PRIMARY KEY, -- the handle the DID was issued for
    did          TEXT COLLATE "C" NOT NULL UNIQUE,
    issued_at    TEXT NOT NULL,
    pds_endpoint TEXT,             -- when the account lives elsewhere now
    public_key   TEXT              -- its key there, as did:key
);

CREATE TABLE keys (
    subject    TEXT COLLATE "C" NOT NULL, -- a DID, or host
    purpose    TEXT COLLATE "C" NOT NULL, -- signing | rotation | host
    public_key TEXT NOT NULL, -- did:key
    wrapped    BYTEA,          -- envelope by the master key; NULL once destroyed
    created_at TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (subject, purpose)
);

CREATE TABLE sessions (
    sid          TEXT COLLATE "C" PRIMARY KEY,
    did          TEXT COLLATE "C" NOT NULL,
    scope        TEXT NOT NULL,
    app_password TEXT,          -- its name, when that is what logged in
    created_at   TEXT COLLATE "C" NOT NULL,
    expires_at   TEXT COLLATE "C" NOT NULL, -- no refresh token of the session outlives this
    ended_at     TEXT COLLATE "C"           -- revoked; access tokens are refused from then on
);
CREATE INDEX sessions_did ON sessions (did, created_at, sid);
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX sessions_expires ON sessions (expires_at);

CREATE TABLE refresh_tokens (
    jti         TEXT COLLATE "C" PRIMARY KEY,
    sid         TEXT COLLATE "C" NOT NULL,
    created_at  TEXT COLLATE "C" NOT NULL,
    expires_at  TEXT COLLATE "C" NOT NULL,
    next_jti    TEXT,           -- the one successor, once rotated
    grace_until TEXT COLLATE "C" -- the successor is handed out until then
);
CREATE INDEX refresh_tokens_sid ON refresh_tokens (sid);
CREATE INDEX refresh_tokens_expires ON refresh_tokens (expires_at);
CREATE INDEX refresh_tokens_grace ON refresh_tokens (grace_until) WHERE grace_until IS NOT NULL;

CREATE TABLE app_passwords (
    did        TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    hash       BYTEA NOT NULL,    -- SHA-256 over DID and password (80 random bits)
    privileged BIGINT NOT NULL, -- 0 | 1
    created_at TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (did, name)
);

CREATE TABLE invites (
    code        TEXT COLLATE "C" PRIMARY KEY,
    for_account TEXT COLLATE "C" NOT NULL,    -- a DID, or admin
    created_by  TEXT NOT NULL,
    created_at  TEXT COLLATE "C" NOT NULL,
    uses        BIGINT NOT NULL, -- as created
    uses_left   BIGINT NOT NULL CHECK (uses_left >= 0),
    disabled_at TEXT
);
CREATE INDEX invites_created ON invites (created_at, code);
CREATE INDEX invites_account ON invites (for_account, created_at, code);

CREATE TABLE invite_uses (
    code    TEXT COLLATE "C" NOT NULL,
    did     TEXT COLLATE "C" NOT NULL,
    used_at TEXT NOT NULL,
    PRIMARY KEY (code, did)
);
