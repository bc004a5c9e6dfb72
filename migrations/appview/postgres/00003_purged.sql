-- +goose Up
-- What the operator of the host had removed for good: a record with one of these
-- CIDs is not taken in again, wherever it comes from.
CREATE TABLE purged (
    cid       TEXT COLLATE "C" NOT NULL,
    uri       TEXT COLLATE "C" NOT NULL,
    purged_at TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (cid, uri)
);

-- +goose Down
DROP TABLE purged;
