-- +goose Up
-- Records and blobs that the operator has taken down, kept by DID beyond the
-- repo's end. (Of accounts: accounts.takendown_at.)
CREATE TABLE takedowns (
    did      TEXT COLLATE "C" NOT NULL,
    subject  TEXT COLLATE "C" NOT NULL, -- a record's path or a blob's CID
    cid      TEXT COLLATE "C" NOT NULL, -- as it was when the operator looked at it
    ref      TEXT COLLATE "C" NOT NULL, -- the operator's own reference
    taken_at TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (did, subject)
);

-- +goose Down
DROP TABLE takedowns;
