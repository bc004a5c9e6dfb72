-- +goose Up
-- References of imported records to blobs that have not been uploaded. The
-- upload of the blob turns them into rows of blob_refs.
CREATE TABLE awaited_blobs (
    repo_id BIGINT NOT NULL,
    cid     BYTEA NOT NULL,
    path    TEXT COLLATE "C" NOT NULL,
    rev     TEXT COLLATE "C" NOT NULL, -- of the commit that wrote the reference
    PRIMARY KEY (repo_id, cid, path)
);
CREATE INDEX awaited_blobs_by_path ON awaited_blobs (repo_id, path);

-- +goose Down
DROP TABLE awaited_blobs;
