-- +goose Up
-- What was purged: removed for good, by the operator. All of these tables are
-- only added to. None ever holds content.
CREATE TABLE purges (
    id     TEXT PRIMARY KEY, -- a TID: the order of time
    at     TEXT NOT NULL,
    actor  TEXT NOT NULL,    -- admin
    reason TEXT NOT NULL     -- the operator's words; '' for none
) STRICT, WITHOUT ROWID;

-- The records and blobs of a purge. Nothing with one of these CIDs is taken in again.
CREATE TABLE purged (
    cid      BLOB NOT NULL,
    purge_id TEXT NOT NULL,
    kind     TEXT NOT NULL,    -- record | blob
    uri      TEXT NOT NULL,    -- AT URI of a record; '' of a blob
    size     INTEGER NOT NULL, -- bytes; 0 when it was gone already
    PRIMARY KEY (cid, purge_id, uri)
) STRICT, WITHOUT ROWID;
CREATE INDEX purged_by_purge ON purged (purge_id);

-- The steps that were done, and what each removed. A purge that was cut off goes
-- on behind the last of them.
CREATE TABLE purge_steps (
    purge_id TEXT NOT NULL,
    step     TEXT NOT NULL,
    at       TEXT NOT NULL,
    removed  TEXT NOT NULL, -- JSON: numbers by what they count
    PRIMARY KEY (purge_id, step)
) STRICT, WITHOUT ROWID;

-- A purge with a receipt is complete.
CREATE TABLE purge_receipts (
    purge_id TEXT PRIMARY KEY,
    at       TEXT NOT NULL,
    receipt  TEXT NOT NULL -- JWS in its compact form, by the host key
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE purge_receipts;
DROP TABLE purge_steps;
DROP TABLE purged;
DROP TABLE purges;
