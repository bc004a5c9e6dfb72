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

-- +goose Down
DROP TABLE lexicon_state;
DROP TABLE lexicons;
