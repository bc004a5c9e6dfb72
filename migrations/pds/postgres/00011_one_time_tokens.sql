-- +goose Up
-- Tokens that confirm one step with an account, at most one of each purpose: a
-- new one replaces the old. They stay a while after they expired, so that this
-- can be told.
CREATE TABLE one_time_tokens (
    did        TEXT COLLATE "C" NOT NULL,    -- '' stands for nobody, see account.RequestReset
    purpose    TEXT COLLATE "C" NOT NULL,    -- plc_operation | delete_account | reset_password
    hash       BYTEA NOT NULL UNIQUE, -- SHA-256 over purpose and token (80 random bits)
    wrapped    BYTEA NOT NULL,    -- the token in an envelope by the master key, for the operator to hand over
    created_at TEXT COLLATE "C" NOT NULL,
    expires_at TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (did, purpose)
);
CREATE INDEX one_time_tokens_created ON one_time_tokens (created_at, did, purpose);
CREATE INDEX one_time_tokens_expires ON one_time_tokens (expires_at);

-- What the document of a moved did:web names as its handle; NULL: that of the
-- account here.
ALTER TABLE issued_labels ADD COLUMN handle TEXT;

-- For the job that keeps what deactivateAccount announced.
ALTER TABLE accounts ALTER COLUMN delete_after TYPE TEXT COLLATE "C";
CREATE INDEX accounts_delete_after ON accounts (delete_after) WHERE delete_after IS NOT NULL;
