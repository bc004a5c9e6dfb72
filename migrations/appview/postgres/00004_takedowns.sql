-- +goose Up
-- Records that the operator of their host has taken down: they stay, and are
-- shown to nobody but the operator. The host's own list is the truth; it is
-- compared with this one at each start.
CREATE TABLE takedowns (
    uri      TEXT COLLATE "C" PRIMARY KEY,
    taken_at TEXT COLLATE "C" NOT NULL
);

-- +goose Down
DROP TABLE takedowns;
