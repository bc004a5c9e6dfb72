-- +goose Up

-- Every change of a trust group. What the groups are follows from it: the last
-- row of a name is what holds, and trust_members is derived from those.
CREATE TABLE trust_journal (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    members    TEXT NOT NULL, -- DIDs in order, separated by spaces; '' when the group was deleted
    source     TEXT NOT NULL, -- config, admin
    changed_at TEXT NOT NULL
) STRICT;
CREATE INDEX trust_journal_name ON trust_journal (name, seq);
DELETE FROM trust_members;

-- The links to observations of others, and those that count for nothing: few,
-- and what a change of trust concerns.
CREATE INDEX chain_nodes_foreign ON chain_nodes (did)
    WHERE target_uri <> '' AND substr(target_uri, 6, length(did) + 1) <> did || '/';
CREATE INDEX chain_nodes_ignored ON chain_nodes (did) WHERE edge = 'ignored';

-- +goose Down
DROP INDEX chain_nodes_ignored;
DROP INDEX chain_nodes_foreign;
DROP TABLE trust_journal;
