-- +goose Up
-- The stored bytes, one row for each CID, whoever's blobs they are. The row is
-- there before the bytes are, so nothing in the bucket lacks one; who moves the
-- bytes changes the row first, under its lock.
CREATE TABLE blob_objects (
    cid         BLOB PRIMARY KEY,
    size        INTEGER NOT NULL,
    state       TEXT NOT NULL, -- live | trashing | trashed | emptying
    touched_at  TEXT NOT NULL, -- last upload, or the end of an account that had it: the grace counts from here
    changed_at  TEXT NOT NULL  -- when state became what it is
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_objects_touched ON blob_objects (state, touched_at, cid);
INSERT INTO blob_objects (cid, size, state, touched_at, changed_at)
    SELECT cid, max(size), 'live', max(uploaded_at), max(uploaded_at) FROM blobs GROUP BY cid;

-- Whether any account has a blob.
CREATE INDEX blobs_by_cid ON blobs (cid);

-- +goose Down
DROP INDEX blobs_by_cid;
DROP TABLE blob_objects;
