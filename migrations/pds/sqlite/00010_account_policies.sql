-- +goose Up
-- What an account may write, set by the operator. NULL is the host's default.
CREATE TABLE account_policies (
    did             TEXT PRIMARY KEY,
    collections     TEXT,    -- JSON array of NSIDs: those that it may write; NULL: all
    create_only     TEXT,    -- JSON array of NSIDs: no record is updated or deleted there
    max_records     INTEGER,
    max_blob_bytes  INTEGER,
    writes_per_hour INTEGER, -- in points of the rate limits
    writes_per_day  INTEGER,
    changed_at      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What a repo holds, kept by the transactions that change it: quotas are exact
-- and cost no counting.
ALTER TABLE repos ADD COLUMN record_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN blob_count INTEGER NOT NULL DEFAULT 0; -- rows of blobs, referenced or temporary
ALTER TABLE repos ADD COLUMN blob_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE repos SET
    record_count = (SELECT count(*) FROM records WHERE repo_id = repos.id),
    blob_count = (SELECT count(*) FROM blobs WHERE repo_id = repos.id),
    blob_bytes = (SELECT COALESCE(sum(size), 0) FROM blobs WHERE repo_id = repos.id);

-- +goose Down
ALTER TABLE repos DROP COLUMN blob_bytes;
ALTER TABLE repos DROP COLUMN blob_count;
ALTER TABLE repos DROP COLUMN record_count;
DROP TABLE account_policies;
