-- +goose Up
-- The words of what can be searched. id begins with the time by which it is
-- sorted, in milliseconds, so that the newest is found first.
CREATE TABLE search_docs (
    id    BIGINT PRIMARY KEY,
    uri   TEXT COLLATE "C" NOT NULL UNIQUE,
    words TEXT COLLATE "C" NOT NULL -- each once, separated by spaces
);
CREATE INDEX search_docs_fts ON search_docs USING gin (array_to_tsvector(string_to_array(words, ' ')));

-- +goose Down
DROP TABLE search_docs;
