-- +goose Up
-- Lexicons that an operator added to those of the program. generation grows with
-- each change, so that one row tells every process whether it is up to date.
CREATE TABLE lexicons (
    nsid     TEXT COLLATE "C" PRIMARY KEY,
    source   TEXT NOT NULL, -- the file
    added_at TEXT COLLATE "C" NOT NULL
);
CREATE TABLE lexicon_state (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    generation BIGINT NOT NULL
);
INSERT INTO lexicon_state (id, generation) VALUES (1, 0);

-- Whose rules hold: a program of another edition judged otherwise.
ALTER TABLE index_state ADD COLUMN edition TEXT COLLATE "C" NOT NULL DEFAULT ''; -- '' before the first
ALTER TABLE index_state ADD COLUMN mixed BOOLEAN NOT NULL DEFAULT FALSE; -- another edition wrote since

-- Collections whose records are judged again, and how far that has come.
CREATE TABLE revalidations (
    collection   TEXT COLLATE "C" PRIMARY KEY,
    state        TEXT COLLATE "C" NOT NULL, -- state and uri of the last record that was judged
    uri          TEXT COLLATE "C" NOT NULL,
    seen         BIGINT NOT NULL,
    released     BIGINT NOT NULL,
    quarantined  BIGINT NOT NULL,
    requested_at TEXT COLLATE "C" NOT NULL,
    finished_at  TEXT COLLATE "C" NOT NULL -- '' while it runs
);

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
