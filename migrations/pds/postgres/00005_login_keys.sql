-- +goose Up
-- Public keys that sign an account in without a password. A removed one stays,
-- so that it cannot be registered again: it may be in the wrong hands.
CREATE TABLE login_keys (
    did          TEXT COLLATE "C" NOT NULL,
    public_key   TEXT COLLATE "C" NOT NULL, -- did:key
    name         TEXT COLLATE "C" NOT NULL,
    scope        TEXT NOT NULL, -- of the sessions that it opens
    created_at   TEXT COLLATE "C" NOT NULL,
    last_used_at TEXT,          -- last sign-in
    revoked_at   TEXT,
    PRIMARY KEY (did, public_key)
);
CREATE UNIQUE INDEX login_keys_name ON login_keys (did, name) WHERE revoked_at IS NULL;

ALTER TABLE sessions ADD COLUMN login_key TEXT; -- did:key, when that is what logged in

-- Assertions that signed somebody in: none does so twice, on no replica and not
-- after a restart either.
CREATE TABLE used_assertions (
    id         TEXT COLLATE "C" PRIMARY KEY, -- SHA-256 over DID and jti
    expires_at TEXT COLLATE "C" NOT NULL     -- the assertion is no good from then on
);
CREATE INDEX used_assertions_expires ON used_assertions (expires_at);
