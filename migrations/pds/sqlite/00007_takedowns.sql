-- +goose Up
-- Records and blobs that the operator has taken down, kept by DID beyond the
-- repo's end. (Of accounts: accounts.takendown_at.)
CREATE TABLE takedowns (
    did      TEXT NOT NULL,
    subject  TEXT NOT NULL, -- a record's path or a blob's CID
    cid      TEXT NOT NULL, -- as it was when the operator looked at it
    ref      TEXT NOT NULL, -- the operator's own reference
    taken_at TEXT NOT NULL,
    PRIMARY KEY (did, subject)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE takedowns;
