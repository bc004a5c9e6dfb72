-- +goose Up
-- Repos. A path is "collection/rkey"; paths sort by byte, as the MST does. CIDs are kept in binary.

CREATE TABLE repos (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: the order of creation
    did          TEXT NOT NULL UNIQUE,
    head         BLOB NOT NULL, -- CID of commit_block
    rev          TEXT NOT NULL,
    data         BLOB NOT NULL, -- CID of the MST's root
    commit_block BLOB NOT NULL
) STRICT;

-- The live MST nodes, each at its position: lower_key is the last path before
-- the node's range, '' at the left edge. A position holds one node at most.
CREATE TABLE nodes (
    repo_id   INTEGER NOT NULL,
    lower_key TEXT NOT NULL,
    height    INTEGER NOT NULL, -- 0 at the bottom
    cid       BLOB NOT NULL,
    rev       TEXT NOT NULL, -- of the commit that wrote the block
    block     BLOB NOT NULL,
    PRIMARY KEY (repo_id, lower_key, height)
) STRICT, WITHOUT ROWID;

-- The live records. Each path holds its own bytes: two paths with one CID are two rows.
CREATE TABLE records (
    repo_id INTEGER NOT NULL,
    path    TEXT NOT NULL,
    cid     BLOB NOT NULL,
    rev     TEXT NOT NULL, -- of the commit that wrote it
    block   BLOB NOT NULL, -- the signed DAG-CBOR, served as it is
    PRIMARY KEY (repo_id, path)
) STRICT, WITHOUT ROWID;

-- Uploaded blobs. One without a row in blob_refs is temporary.
CREATE TABLE blobs (
    repo_id     INTEGER NOT NULL,
    cid         BLOB NOT NULL,
    mime_type   TEXT NOT NULL,
    size        INTEGER NOT NULL,
    uploaded_at TEXT NOT NULL, -- of the last upload: a temporary blob's grace counts from here
    PRIMARY KEY (repo_id, cid)
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_by_upload ON blobs (uploaded_at);

-- Which record references which blob. The foreign key is what keeps a sweep
-- from collecting a blob that is being referenced.
CREATE TABLE blob_refs (
    repo_id INTEGER NOT NULL,
    cid     BLOB NOT NULL,
    path    TEXT NOT NULL,
    rev     TEXT NOT NULL, -- of the commit that wrote the reference
    PRIMARY KEY (repo_id, cid, path),
    FOREIGN KEY (repo_id, cid) REFERENCES blobs (repo_id, cid)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_by_path ON blob_refs (repo_id, path);

-- Deleted records of protected collections, kept by DID beyond the repo's end.
CREATE TABLE tombstones (
    did        TEXT NOT NULL,
    path       TEXT NOT NULL,
    cid        BLOB NOT NULL,
    deleted_at TEXT NOT NULL,
    PRIMARY KEY (did, path)
) STRICT, WITHOUT ROWID;

-- What each observation supersedes. An edge stays when its successor is
-- deleted, so that the tombstone still bridges the chain.
CREATE TABLE supersedes (
    did        TEXT NOT NULL,
    successor  TEXT NOT NULL, -- path of the later observation
    target     TEXT NOT NULL, -- AT URI of the earlier one
    target_cid BLOB NOT NULL,
    PRIMARY KEY (did, successor)
) STRICT, WITHOUT ROWID;
CREATE INDEX supersedes_by_target ON supersedes (did, target);

-- +goose Down
DROP TABLE supersedes;
DROP TABLE tombstones;
DROP TABLE blob_refs;
DROP TABLE blobs;
DROP TABLE records;
DROP TABLE nodes;
DROP TABLE repos;
