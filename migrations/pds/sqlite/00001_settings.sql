-- +goose Up
CREATE TABLE settings (
    name  TEXT PRIMARY KEY, -- such as the key that the host witnesses with
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
