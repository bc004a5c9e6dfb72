-- +goose Up
-- What the operator says of an account that runs by itself. Its identity, its
-- status and its credentials are the account's.
CREATE TABLE agents (
    did          TEXT PRIMARY KEY,
    display_name TEXT NOT NULL, -- '' if none
    owner        TEXT NOT NULL, -- who answers for it, in the operator's words; '' if nobody is named
    class_uri    TEXT,          -- the class record that it was made from
    class_cid    TEXT,
    created_at   TEXT NOT NULL,
    changed_at   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_created ON agents (created_at, did);
CREATE INDEX agents_owner ON agents (owner, created_at, did);

-- An agent is held while it is disabled or past its expiry: it neither signs in
-- nor uses a token. These lie with the account, for every request is judged by
-- them.
ALTER TABLE accounts ADD COLUMN expires_at TEXT;
ALTER TABLE accounts ADD COLUMN disabled_at TEXT;
ALTER TABLE accounts ADD COLUMN held INTEGER NOT NULL DEFAULT 0; -- 1: deactivated by being held, and active again when it ends
CREATE INDEX accounts_due ON accounts (expires_at) WHERE expires_at IS NOT NULL AND deactivated_at IS NULL AND deleted_at IS NULL;

-- +goose Down
DROP INDEX accounts_due;
ALTER TABLE accounts DROP COLUMN held;
ALTER TABLE accounts DROP COLUMN disabled_at;
ALTER TABLE accounts DROP COLUMN expires_at;
DROP TABLE agents;
