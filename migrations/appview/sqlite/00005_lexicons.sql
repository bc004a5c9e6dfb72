-- +goose Up
-- Lexicons that an operator added to those of the program. generation grows with
-- each change, so that one row tells every process whether it is up to date.
CREATE TABLE lexicons (
    nsid     TEXT PRIMARY KEY,
    source   TEXT NOT NULL, -- the file
    added_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE lexicon_state (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL
) STRICT;
INSERT INTO lexicon_state (id, generation) VALUES (1, 0);

-- Whose rules hold: a program of another edition judged otherwise.
ALTER TABLE index_state ADD COLUMN edition TEXT NOT NULL DEFAULT ''; -- '' before the first
ALTER TABLE index_state ADD COLUMN mixed INTEGER NOT NULL DEFAULT 0; -- another edition wrote since; boolean

-- Collections whose records are judged again, and how far that has come.
CREATE TABLE revalidations (
    collection   TEXT PRIMARY KEY,
    state        TEXT NOT NULL, -- state and uri of the last record that was judged
    uri          TEXT NOT NULL,
    seen         INTEGER NOT NULL,
    released     INTEGER NOT NULL,
    quarantined  INTEGER NOT NULL,
    requested_at TEXT NOT NULL,
    finished_at  TEXT NOT NULL -- '' while it runs
) STRICT, WITHOUT ROWID;

-- In the order in which they are walked, and listed.
DROP INDEX records_collection;
CREATE INDEX records_collection ON records (collection, state, uri);
CREATE INDEX records_quarantined ON records (uri) WHERE state = 'quarantined';

-- +goose Down
DROP INDEX records_quarantined;
DROP INDEX records_collection;
CREATE INDEX records_collection ON records (collection, state);
DROP TABLE revalidations;
ALTER TABLE index_state DROP COLUMN mixed;
ALTER TABLE index_state DROP COLUMN edition;
DROP TABLE lexicon_state;
DROP TABLE lexicons;
