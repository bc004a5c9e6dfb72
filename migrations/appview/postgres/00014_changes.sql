-- +goose Up
-- What changed in the views, in the order of commit, for those who follow. Not
-- derived: a replay of the journal tells nothing. It holds names of records,
-- never what they say.
CREATE TABLE changes (
    seq        BIGINT PRIMARY KEY, -- microseconds since 1970 when the transaction began, or one more than the last
    kind       TEXT COLLATE "C" NOT NULL,
    uri        TEXT COLLATE "C" NOT NULL, -- of the record whose view changed; at://<did> for a whole repo, '' for the index
    did        TEXT COLLATE "C" NOT NULL,
    collection TEXT COLLATE "C" NOT NULL,
    cid        TEXT COLLATE "C" NOT NULL, -- of the version that is shown then, and the rev of the commit that has it
    rev        TEXT COLLATE "C" NOT NULL,
    detail     TEXT COLLATE "C" NOT NULL, -- JSON by kind, '' for none
    needs      TEXT COLLATE "C" NOT NULL, -- another collection that one must see to be told, * for all, '' for none
    hidden     BOOLEAN NOT NULL, -- for the operator alone
    at         TEXT COLLATE "C" NOT NULL
);

ALTER TABLE index_state ADD COLUMN change_seq BIGINT NOT NULL DEFAULT 0; -- of the last change
ALTER TABLE index_state ADD COLUMN changes_pruned BIGINT NOT NULL DEFAULT 0; -- of the last one that retention removed

-- +goose Down
ALTER TABLE index_state DROP COLUMN changes_pruned;
ALTER TABLE index_state DROP COLUMN change_seq;
DROP TABLE changes;
