-- +goose Up
-- The event log of subscribeRepos. frame is the whole websocket message, built
-- once and sent as stored. Events leave by retention (oldest first) and by the
-- erasure of a DID, so seq may have holes.
CREATE TABLE events (
    seq        BIGINT PRIMARY KEY,
    did        TEXT COLLATE "C" NOT NULL,
    kind       TEXT COLLATE "C" NOT NULL,
    frame      BYTEA NOT NULL,
    created_at TEXT COLLATE "C" NOT NULL
);
-- Frames are mostly signed, compressed-looking bytes: trying to compress them
-- costs time on the write path and gains little.
ALTER TABLE events ALTER COLUMN frame SET STORAGE EXTERNAL;
CREATE INDEX events_by_did ON events (did);

-- One row, locked last in each appending transaction, so that the order of
-- commits is the order of seq. It survives the events: seq never runs back.
CREATE TABLE event_sequence (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    last_seq   BIGINT NOT NULL, -- highest seq ever given out
    pruned_seq BIGINT NOT NULL, -- highest seq that retention has removed
    erasures   BIGINT NOT NULL  -- counts erasures of a DID: other processes drop their cached frames
);
INSERT INTO event_sequence (id, last_seq, pruned_seq, erasures) VALUES (1, 0, 0, 0);

-- +goose Down
DROP TABLE event_sequence;
DROP TABLE events;
