-- +goose Up
-- What was purged: removed for good, by the operator. All of these tables are
-- only added to. None ever holds content.
CREATE TABLE purges (
    id     TEXT COLLATE "C" PRIMARY KEY, -- a TID: the order of time
    at     TEXT COLLATE "C" NOT NULL,
    actor  TEXT COLLATE "C" NOT NULL,    -- admin
    reason TEXT COLLATE "C" NOT NULL     -- the operator's words; '' for none
);

-- The records and blobs of a purge. Nothing with one of these CIDs is taken in again.
CREATE TABLE purged (
    cid      BYTEA NOT NULL,
    purge_id TEXT COLLATE "C" NOT NULL,
    kind     TEXT COLLATE "C" NOT NULL,    -- record | blob
    uri      TEXT COLLATE "C" NOT NULL,    -- AT URI of a record; '' of a blob
    size     BIGINT NOT NULL, -- bytes; 0 when it was gone already
    PRIMARY KEY (cid, purge_id, uri)
);
CREATE INDEX purged_by_purge ON purged (purge_id);

-- The steps that were done, and what each removed. A purge that was cut off goes
-- on behind the last of them.
CREATE TABLE purge_steps (
    purge_id TEXT COLLATE "C" NOT NULL,
    step     TEXT COLLATE "C" NOT NULL,
    at       TEXT COLLATE "C" NOT NULL,
    removed  TEXT COLLATE "C" NOT NULL, -- JSON: numbers by what they count
    PRIMARY KEY (purge_id, step)
);

-- A purge with a receipt is complete.
CREATE TABLE purge_receipts (
    purge_id TEXT COLLATE "C" PRIMARY KEY,
    at       TEXT COLLATE "C" NOT NULL,
    receipt  TEXT COLLATE "C" NOT NULL -- JWS in its compact form, by the host key
);

-- +goose Down
DROP TABLE purge_receipts;
DROP TABLE purge_steps;
DROP TABLE purged;
DROP TABLE purges;
