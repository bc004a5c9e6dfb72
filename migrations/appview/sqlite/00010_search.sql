-- +goose Up
-- The words of what can be searched. id begins with the time by which it is
-- sorted, in milliseconds, so that the newest is found first.
CREATE TABLE search_docs (
    id    INTEGER PRIMARY KEY,
    uri   TEXT NOT NULL UNIQUE,
    words TEXT NOT NULL -- each once, separated by spaces
) STRICT;
CREATE VIRTUAL TABLE words_fts USING fts5 (words, content = 'search_docs', content_rowid = 'id', detail = 'none', columnsize = 0, tokenize = 'ascii');
-- What is deleted leaves its pages too.
INSERT INTO words_fts (words_fts, rank) VALUES ('secure-delete', 1);
-- +goose StatementBegin
CREATE TRIGGER search_docs_added AFTER INSERT ON search_docs BEGIN
    INSERT INTO words_fts (rowid, words) VALUES (new.id, new.words);
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER search_docs_removed AFTER DELETE ON search_docs BEGIN
    INSERT INTO words_fts (words_fts, rowid, words) VALUES ('delete', old.id, old.words);
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER search_docs_removed;
DROP TRIGGER search_docs_added;
DROP TABLE words_fts;
DROP TABLE search_docs;
