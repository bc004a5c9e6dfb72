-- +goose Up

-- Derived, as the rest of what follows from the journal.

-- A row for each citation of a record, found by its structure. Of what is cited
-- it holds where, never the words.
CREATE TABLE citations (
    from_uri          TEXT NOT NULL,
    path              TEXT NOT NULL, -- RFC 6901 pointer to the citation in from_uri
    from_did          TEXT NOT NULL,
    relation          TEXT NOT NULL,
    target_uri        TEXT NOT NULL,
    target_cid        TEXT NOT NULL,
    target_collection TEXT NOT NULL,
    verdict           TEXT NOT NULL, -- of its selector on the pinned version, as far as that is held
    reason            TEXT NOT NULL, -- of verdict unknown
    haystack          TEXT NOT NULL,
    at_start          INTEGER NOT NULL, -- bytes of the haystack; -1 for no place
    at_end            INTEGER NOT NULL,
    freshness         TEXT NOT NULL, -- '' when nothing superseded the target
    head_uri          TEXT NOT NULL, -- of the target's chain, when it was compared; '' for none
    PRIMARY KEY (from_uri, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX citations_target ON citations (target_uri, relation, from_uri, path);
CREATE INDEX citations_head ON citations (head_uri, from_uri);

-- What is to be looked at again outside of Apply: the citations that were
-- compared with a head that moved, and the citing records that wait for bytes.
CREATE TABLE citation_queue (
    kind   TEXT NOT NULL, -- head, record
    uri    TEXT NOT NULL,
    due_at TEXT NOT NULL,
    tries  INTEGER NOT NULL,
    PRIMARY KEY (kind, uri)
) STRICT, WITHOUT ROWID;
CREATE INDEX citation_queue_due ON citation_queue (due_at, kind, uri);
-- What cites something was indexed before there were verdicts.
INSERT INTO citation_queue (kind, uri, due_at, tries) SELECT DISTINCT 'record', from_uri, '', 0 FROM refs WHERE kind = 'citation';

-- A mark for each commit that was witnessed: the start of a digest of DID and
-- CID. Eight bytes for each keep the random keys in memory.
CREATE TABLE commit_marks (
    mark INTEGER PRIMARY KEY
) STRICT;

-- Not derived: a replay does not read blobs again.

-- What came of looking for a citation in the bytes of a blob. The test is named
-- by a digest of the selector.
CREATE TABLE content_tests (
    did      TEXT NOT NULL,
    cid      TEXT NOT NULL,
    test     TEXT NOT NULL,
    verdict  TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at_start INTEGER NOT NULL,
    at_end   INTEGER NOT NULL,
    selected TEXT NOT NULL, -- digest of what a range or a pointer selects
    PRIMARY KEY (did, cid, test)
) STRICT, WITHOUT ROWID;

CREATE INDEX purged_uri ON purged (uri);

-- '' while its host and its DID answer, else what they failed with.
ALTER TABLE repos ADD COLUMN unreachable TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE repos DROP COLUMN unreachable;
DROP INDEX purged_uri;
DROP TABLE content_tests;
DROP TABLE commit_marks;
DROP TABLE citation_queue;
DROP TABLE citations;
