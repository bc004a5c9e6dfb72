-- +goose Up
-- Records that the operator of their host has taken down: they stay, and are
-- shown to nobody but the operator. The host's own list is the truth; it is
-- compared with this one at each start.
CREATE TABLE takedowns (
    uri      TEXT PRIMARY KEY,
    taken_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE takedowns;
