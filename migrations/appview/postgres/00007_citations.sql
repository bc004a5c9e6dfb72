-- +goose Up

-- Derived, as the rest of what follows from the journal.

-- A row for each citation of a record, found by its structure. Of what is cited
-- it holds where, never the words.
CREATE TABLE citations (
    from_uri          TEXT COLLATE "C" NOT NULL,
    path              TEXT COLLATE "C" NOT NULL, -- RFC 6901 pointer to the citation in from_uri
    from_did          TEXT COLLATE "C" NOT NULL,
    relation          TEXT COLLATE "C" NOT NULL,
    target_uri        TEXT COLLATE "C" NOT NULL,
    target_cid        TEXT COLLATE "C" NOT NULL,
    target_collection TEXT COLLATE "C" NOT NULL,
    verdict           TEXT COLLATE "C" NOT NULL, -- of its selector on the pinned version, as far as that is held
    reason            TEXT COLLATE "C" NOT NULL, -- of verdict unknown
    haystack          TEXT COLLATE "C" NOT NULL,
    at_start          BIGINT NOT NULL, -- bytes of the haystack; -1 for no place
    at_end            BIGINT NOT NULL,
    freshness         TEXT COLLATE "C" NOT NULL, -- '' when nothing superseded the target
    head_uri          TEXT COLLATE "C" NOT NULL, -- of the target's chain, when it was compared; '' for none
    PRIMARY KEY (from_uri, path)
);
CREATE INDEX citations_target ON citations (target_uri, relation, from_uri, path);
CREATE INDEX citations_head ON citations (head_uri, from_uri);

-- What is to be looked at again outside of Apply: the citations that were
-- compared with a head that moved, and the citing records that wait for bytes.
CREATE TABLE citation_queue (
    kind   TEXT COLLATE "C" NOT NULL, -- head, record
    uri    TEXT COLLATE "C" NOT NULL,
    due_at TEXT COLLATE "C" NOT NULL,
    tries  BIGINT NOT NULL,
    PRIMARY KEY (kind, uri)
);
CREATE INDEX citation_queue_due ON citation_queue (due_at, kind, uri);
-- What cites something was indexed before there were verdicts.
INSERT INTO citation_queue (kind, uri, due_at, tries) SELECT DISTINCT 'record', from_uri, '', 0 FROM refs WHERE kind = 'citation';

-- A mark for each commit that was witnessed: the start of a digest of DID and
-- CID. Eight bytes for each keep the random keys in memory.
CREATE TABLE commit_marks (
    mark BIGINT PRIMARY KEY
);

-- Not derived: a replay does not read blobs again.

-- What came of looking for a citation in the bytes of a blob. The test is named
-- by a digest of the selector.
CREATE TABLE content_tests (
    did      TEXT COLLATE "C" NOT NULL,
    cid      TEXT COLLATE "C" NOT NULL,
    test     TEXT COLLATE "C" NOT NULL,
    verdict  TEXT COLLATE "C" NOT NULL,
    reason   TEXT COLLATE "C" NOT NULL,
    at_start BIGINT NOT NULL,
    at_end   BIGINT NOT NULL,
    selected TEXT COLLATE "C" NOT NULL, -- digest of what a range or a pointer selects
    PRIMARY KEY (did, cid, test)
);

CREATE INDEX purged_uri ON purged (uri);

-- '' while its host and its DID answer, else what they failed with.
ALTER TABLE repos ADD COLUMN unreachable TEXT COLLATE "C" NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE repos DROP COLUMN unreachable;
DROP INDEX purged_uri;
DROP TABLE content_tests;
DROP TABLE commit_marks;
DROP TABLE citation_queue;
DROP TABLE citations;
