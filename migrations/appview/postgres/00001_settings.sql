-- +goose Up
CREATE TABLE settings (
    name  TEXT COLLATE "C" PRIMARY KEY, -- such as the key that the host witnesses with
    value BYTEA NOT NULL
);
