-- +goose Up
-- Stored bytes are searched for credentials, each object once, and again when
-- the rules know more.
ALTER TABLE blob_objects ADD COLUMN secrets_edition INTEGER NOT NULL DEFAULT 0; -- of the rules that it was searched by; 0: never
CREATE INDEX blob_objects_unsearched ON blob_objects (state, secrets_edition, cid);

-- What was found: which rule and where, never the credential itself.
CREATE TABLE blob_secrets (
    cid      BLOB NOT NULL REFERENCES blob_objects (cid) ON DELETE CASCADE,
    rule     TEXT NOT NULL, -- the name of the rule
    sure     INTEGER NOT NULL, -- 1: a credential by its form; 0: perhaps one
    position INTEGER NOT NULL, -- bytes before the first that the rule found
    found_at TEXT NOT NULL,
    PRIMARY KEY (cid, rule)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_secrets_found ON blob_secrets (found_at, cid, rule);

-- +goose Down
DROP TABLE blob_secrets;
DROP INDEX blob_objects_unsearched;
ALTER TABLE blob_objects DROP COLUMN secrets_edition;
