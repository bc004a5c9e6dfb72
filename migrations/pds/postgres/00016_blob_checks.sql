-- +goose Up
-- Stored bytes are read again on a schedule and held against their CID. Two more
-- states: quarantining (damaged bytes are on the way out of service) and
-- quarantined (they are, until the same bytes are uploaded or repaired).
ALTER TABLE blob_objects ADD COLUMN checked_at TEXT COLLATE "C" NOT NULL DEFAULT ''; -- when the bytes were last looked at; '': never
ALTER TABLE blob_objects ADD COLUMN missing_at TEXT COLLATE "C";            -- when a check found no bytes; NULL: they are there
CREATE INDEX blob_objects_checked ON blob_objects (state, checked_at, cid);

-- The accounts that store most.
CREATE INDEX repos_by_blob_bytes ON repos (blob_bytes, id);

-- Work that one process does at a time. A holder that died loses it at the end.
CREATE TABLE leases (
    name   TEXT COLLATE "C" PRIMARY KEY, -- scrub
    holder TEXT NOT NULL,    -- random, one for each process
    until  TEXT COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE leases;
DROP INDEX repos_by_blob_bytes;
DROP INDEX blob_objects_checked;
ALTER TABLE blob_objects DROP COLUMN missing_at;
ALTER TABLE blob_objects DROP COLUMN checked_at;
