-- +goose Up
-- The event log of subscribeRepos. frame is the whole websocket message, built
-- once and sent as stored. Events leave by retention (oldest first) and by the
-- erasure of a DID, so seq may have holes.
CREATE TABLE events (
    seq        INTEGER PRIMARY KEY,
    did        TEXT NOT NULL,
    kind       TEXT NOT NULL,
    frame      BLOB NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_did ON events (did);

-- One row, locked last in each appending transaction, so that the order of
-- commits is the order of seq. It survives the events: seq never runs back.
CREATE TABLE event_sequence (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    last_seq   INTEGER NOT NULL, -- highest seq ever given out
    pruned_seq INTEGER NOT NULL, -- highest seq that retention has removed
    erasures   INTEGER NOT NULL  -- counts erasures of a DID: other processes drop their cached frames
) STRICT;
INSERT INTO event_sequence (id, last_seq, pruned_seq, erasures) VALUES (1, 0, 0, 0);

-- +goose Down
DROP TABLE event_sequence;
DROP TABLE events;
