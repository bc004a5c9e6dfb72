-- +goose Up
-- What an account may write, set by the operator. NULL is the host's default.
CREATE TABLE account_policies (
    did             TEXT COLLATE "C" PRIMARY KEY,
    collections     TEXT,    -- JSON array of NSIDs: those that it may write; NULL: all
    create_only     TEXT,    -- JSON array of NSIDs: no record is updated or deleted there
    max_records     BIGINT,
    max_blob_bytes  BIGINT,
    writes_per_hour BIGINT, -- in points of the rate limits
    writes_per_day  BIGINT,
    changed_at      TEXT COLLATE "C" NOT NULL
);

-- What a repo holds, kept by the transactions that change it: quotas are exact
-- and cost no counting.
ALTER TABLE repos ADD COLUMN record_count BIGINT NOT NULL DEFAULT 0;
ALTER TABLE repos ADD COLUMN blob_count BIGINT NOT NULL DEFAULT 0; -- rows of blobs, referenced or temporary
ALTER TABLE repos ADD COLUMN blob_bytes BIGINT NOT NULL DEFAULT 0;
UPDATE repos SET
    record_count = (SELECT count(*) FROM records WHERE repo_id = repos.id),
    blob_count = (SELECT count(*) FROM blobs WHERE repo_id = repos.id),
    blob_bytes = (SELECT COALESCE(sum(size), 0) FROM blobs WHERE repo_id = repos.id);

-- +goose Down
ALTER TABLE repos DROP COLUMN blob_bytes;
ALTER TABLE repos DROP COLUMN blob_count;
ALTER TABLE repos DROP COLUMN record_count;
DROP TABLE account_policies;
