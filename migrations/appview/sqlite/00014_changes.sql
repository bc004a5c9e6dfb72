-- +goose Up
-- What changed in the views, in the order of commit, for those who follow. Not
-- derived: a replay of the journal tells nothing. It holds names of records,
-- never what they say.
CREATE TABLE changes (
    seq        INTEGER PRIMARY KEY, -- microseconds since 1970 when the transaction began, or one more than the last
    kind       TEXT NOT NULL,
    uri        TEXT NOT NULL, -- of the record whose view changed; at://<did> for a whole repo, '' for the index
    did        TEXT NOT NULL,
    collection TEXT NOT NULL,
    cid        TEXT NOT NULL, -- of the version that is shown then, and the rev of the commit that has it
    rev        TEXT NOT NULL,
    detail     TEXT NOT NULL, -- JSON by kind, '' for none
    needs      TEXT NOT NULL, -- another collection that one must see to be told, * for all, '' for none
    hidden     INTEGER NOT NULL, -- boolean; for the operator alone
    at         TEXT NOT NULL
) STRICT;

ALTER TABLE index_state ADD COLUMN change_seq INTEGER NOT NULL DEFAULT 0; -- of the last change
ALTER TABLE index_state ADD COLUMN changes_pruned INTEGER NOT NULL DEFAULT 0; -- of the last one that retention removed

-- +goose Down
ALTER TABLE index_state DROP COLUMN changes_pruned;
ALTER TABLE index_state DROP COLUMN change_seq;
DROP TABLE changes;
