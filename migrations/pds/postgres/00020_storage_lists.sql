-- +goose Up
-- The accounts that have the most records.
CREATE INDEX repos_by_records ON repos (record_count, id);

-- What was found to have no bytes: few, if any.
CREATE INDEX blob_objects_missing ON blob_objects (cid) WHERE missing_at IS NOT NULL;

-- +goose Down
DROP INDEX blob_objects_missing;
DROP INDEX repos_by_records;
