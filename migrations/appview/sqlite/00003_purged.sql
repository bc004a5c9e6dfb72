-- +goose Up
-- What the operator of the host had removed for good: a record with one of these
-- CIDs is not taken in again, wherever it comes from.
CREATE TABLE purged (
    cid       TEXT NOT NULL,
    uri       TEXT NOT NULL,
    purged_at TEXT NOT NULL,
    PRIMARY KEY (cid, uri)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE purged;
