-- +goose Up

-- What was witnessed: not rebuilt from anything.

CREATE TABLE index_state (
    id         BIGINT PRIMARY KEY CHECK (id = 1), -- the row that Apply locks: one at a time
    next_label BIGINT NOT NULL,                   -- next number for a chain or a branch
    applied    BIGINT NOT NULL                    -- transactions so far
);
INSERT INTO index_state (id, next_label, applied) VALUES (1, 1, 0);

CREATE TABLE sources (
    name       TEXT COLLATE "C" PRIMARY KEY,
    cursor     BIGINT NOT NULL, -- everything up to here is applied
    updated_at TEXT COLLATE "C" NOT NULL
);

CREATE TABLE repos (
    did        TEXT COLLATE "C" PRIMARY KEY,
    handle     TEXT COLLATE "C" NOT NULL,    -- '' when unknown
    active     BOOLEAN NOT NULL, -- false hides all its records
    status     TEXT COLLATE "C" NOT NULL,    -- account status when not active
    rev        TEXT COLLATE "C" NOT NULL,    -- '' before the first commit, as the next two
    commit_cid TEXT COLLATE "C" NOT NULL,
    data_cid   TEXT COLLATE "C" NOT NULL,
    sync       TEXT COLLATE "C" NOT NULL,    -- pending, synced, desynchronized
    sync_error TEXT COLLATE "C" NOT NULL,
    first_seen TEXT COLLATE "C" NOT NULL,
    updated_at TEXT COLLATE "C" NOT NULL
);
CREATE INDEX repos_handle ON repos (handle);
CREATE INDEX repos_sync ON repos (sync, did);

CREATE TABLE journal (
    seq          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source       TEXT COLLATE "C" NOT NULL,
    did          TEXT COLLATE "C" NOT NULL,
    rev          TEXT COLLATE "C" NOT NULL,
    commit_cid   TEXT COLLATE "C" NOT NULL,
    uri          TEXT COLLATE "C" NOT NULL,
    collection   TEXT COLLATE "C" NOT NULL,
    rkey         TEXT COLLATE "C" NOT NULL,
    action       TEXT COLLATE "C" NOT NULL,    -- create, update, delete
    cid          TEXT COLLATE "C" NOT NULL,    -- '' on delete
    prev         TEXT COLLATE "C" NOT NULL,    -- '' on create
    baseline     BOOLEAN NOT NULL, -- seen in a whole repo, not in the commit that wrote it
    witnessed_at TEXT COLLATE "C" NOT NULL,
    facts        TEXT COLLATE "C" NOT NULL,    -- JSON: what must outlive the content; '' for none
    record       BYTEA              -- NULL on delete, and once the content was deleted or taken away
);
CREATE INDEX journal_uri ON journal (uri, seq);

CREATE TABLE proofs (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    did        TEXT COLLATE "C" NOT NULL,
    rev        TEXT COLLATE "C" NOT NULL,
    commit_cid TEXT COLLATE "C" NOT NULL,
    blocks     BYTEA NOT NULL -- zstd of a CAR: the commit block and the MST nodes that came with it, each once
);
CREATE UNIQUE INDEX proofs_commit ON proofs (did, rev, commit_cid);

CREATE TABLE trust_members (
    did    TEXT COLLATE "C" PRIMARY KEY,
    circle TEXT COLLATE "C" NOT NULL -- DIDs of one circle are a trust group
);

-- What follows from it: Reindex builds all of this again.

CREATE TABLE records (
    uri        TEXT COLLATE "C" PRIMARY KEY,
    did        TEXT COLLATE "C" NOT NULL,
    collection TEXT COLLATE "C" NOT NULL,
    rkey       TEXT COLLATE "C" NOT NULL,
    cid        TEXT COLLATE "C" NOT NULL,    -- of what is shown; of an observation the version first seen
    repo_cid   TEXT COLLATE "C" NOT NULL,    -- of what the repo holds; '' when deleted
    seq        BIGINT NOT NULL, -- journal row of what is shown
    state      TEXT COLLATE "C" NOT NULL,    -- ok, violated, quarantined, deleted
    violated   BOOLEAN NOT NULL, -- edited, or its key used again
    baseline   BOOLEAN NOT NULL,
    versions   BIGINT NOT NULL, -- witnessed since it was created last
    indexed_at TEXT COLLATE "C" NOT NULL,
    updated_at TEXT COLLATE "C" NOT NULL,
    deleted_at TEXT COLLATE "C" NOT NULL     -- '' unless deleted
);
CREATE INDEX records_repo ON records (did, collection, rkey);
CREATE INDEX records_collection ON records (collection, state);

CREATE TABLE refs (
    from_uri   TEXT COLLATE "C" NOT NULL,
    path       TEXT COLLATE "C" NOT NULL, -- RFC 6901 pointer into the record
    kind       TEXT COLLATE "C" NOT NULL,
    from_did   TEXT COLLATE "C" NOT NULL,
    target_uri TEXT COLLATE "C" NOT NULL,
    target_cid TEXT COLLATE "C" NOT NULL, -- '' for a plain at-uri
    PRIMARY KEY (from_uri, path)
);
CREATE INDEX refs_target ON refs (target_uri, kind, from_uri);

CREATE TABLE blob_refs (
    uri  TEXT COLLATE "C" NOT NULL,
    cid  TEXT COLLATE "C" NOT NULL,
    did  TEXT COLLATE "C" NOT NULL,
    mime TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    PRIMARY KEY (uri, cid)
);
CREATE INDEX blob_refs_blob ON blob_refs (did, cid);

CREATE TABLE findings (
    uri        TEXT COLLATE "C" NOT NULL,
    code       TEXT COLLATE "C" NOT NULL,
    path       TEXT COLLATE "C" NOT NULL,
    cid        TEXT COLLATE "C" NOT NULL,
    did        TEXT COLLATE "C" NOT NULL,
    collection TEXT COLLATE "C" NOT NULL,
    severity   TEXT COLLATE "C" NOT NULL,
    message    TEXT COLLATE "C" NOT NULL,
    repair     TEXT COLLATE "C" NOT NULL,
    at         TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (uri, code, path, cid)
);
CREATE INDEX findings_at ON findings (at, uri, code, path, cid);
CREATE INDEX findings_code ON findings (code, at, uri);
CREATE INDEX findings_severity ON findings (severity, at, uri);
CREATE INDEX findings_did ON findings (did, at, uri);

CREATE TABLE observations (
    uri          TEXT COLLATE "C" PRIMARY KEY,
    did          TEXT COLLATE "C" NOT NULL,
    source_kind  TEXT COLLATE "C" NOT NULL,
    source_value TEXT COLLATE "C" NOT NULL,
    source_key   TEXT COLLATE "C" NOT NULL, -- source_value, or its digest when it is long: an index entry has a limit
    method       TEXT COLLATE "C" NOT NULL,
    run          TEXT COLLATE "C" NOT NULL,
    device       TEXT COLLATE "C" NOT NULL,
    harness      TEXT COLLATE "C" NOT NULL,
    model        TEXT COLLATE "C" NOT NULL,
    observed_at  TEXT COLLATE "C" NOT NULL,
    created_at   TEXT COLLATE "C" NOT NULL,
    head         BOOLEAN NOT NULL, -- nothing alive supersedes it on its branch
    sort_at      TEXT COLLATE "C" NOT NULL,    -- min(observed_at, indexed_at)
    text         TEXT COLLATE "C" NOT NULL
);
CREATE INDEX observations_all ON observations (sort_at, uri);
CREATE INDEX observations_did ON observations (did, sort_at, uri);
CREATE INDEX observations_source ON observations (source_key, sort_at, uri);
CREATE INDEX observations_method ON observations (method, sort_at, uri);
CREATE INDEX observations_run ON observations (run, sort_at, uri);
CREATE INDEX observations_device ON observations (device, sort_at, uri);
CREATE INDEX observations_model ON observations (model, sort_at, uri);
-- Heads are what is asked for, and may be few among many. After the others:
-- SQLite without statistics takes the last of two indexes that look alike.
CREATE INDEX observations_heads ON observations (sort_at, uri) WHERE head;
CREATE INDEX observations_heads_did ON observations (did, sort_at, uri) WHERE head;
CREATE INDEX observations_heads_source ON observations (source_key, sort_at, uri) WHERE head;
CREATE INDEX observations_heads_method ON observations (method, sort_at, uri) WHERE head;

-- A node for every observation ever witnessed, tombstones included; an edge
-- to what it supersedes. Chains are the trees of the counted edges, branches
-- their paths: at a fork the branch goes on into the child that is chosen.
CREATE TABLE chain_nodes (
    uri         TEXT COLLATE "C" PRIMARY KEY,
    did         TEXT COLLATE "C" NOT NULL,
    rkey        TEXT COLLATE "C" NOT NULL,
    cid         TEXT COLLATE "C" NOT NULL,
    live        BOOLEAN NOT NULL,
    future      BOOLEAN NOT NULL, -- its TID was more than a day ahead when it was witnessed
    target_uri  TEXT COLLATE "C" NOT NULL,
    target_cid  TEXT COLLATE "C" NOT NULL,
    edge        TEXT COLLATE "C" NOT NULL,
    chain       BIGINT NOT NULL,
    branch      BIGINT NOT NULL,
    position    BIGINT NOT NULL, -- grows by one along the chain, from any start
    forked      BOOLEAN NOT NULL, -- a sibling lives too
    bereft      BOOLEAN NOT NULL, -- it is a head because its successors were deleted
    observed_at TEXT COLLATE "C" NOT NULL,
    indexed_at  TEXT COLLATE "C" NOT NULL
);
CREATE INDEX chain_nodes_target ON chain_nodes (target_uri, edge);
CREATE INDEX chain_nodes_chain ON chain_nodes (chain, position, uri);

CREATE TABLE chain_branches (
    branch   BIGINT PRIMARY KEY,
    chain    BIGINT NOT NULL,
    main     BOOLEAN NOT NULL, -- starts at the root
    head_uri TEXT COLLATE "C" NOT NULL     -- last live node; '' when none lives
);
CREATE INDEX chain_branches_chain ON chain_branches (chain);

CREATE TABLE sessions (
    uri        TEXT COLLATE "C" PRIMARY KEY,
    did        TEXT COLLATE "C" NOT NULL,
    rkey       TEXT COLLATE "C" NOT NULL,
    title      TEXT COLLATE "C" NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    harness    TEXT COLLATE "C" NOT NULL,
    machine    TEXT COLLATE "C" NOT NULL,
    cwd        TEXT COLLATE "C" NOT NULL,
    repo       TEXT COLLATE "C" NOT NULL,
    repo_key   TEXT COLLATE "C" NOT NULL, -- normalised
    branch     TEXT COLLATE "C" NOT NULL,
    model      TEXT COLLATE "C" NOT NULL,
    written_at TEXT COLLATE "C" NOT NULL, -- updatedAt as written
    started_at TEXT COLLATE "C" NOT NULL, -- '' when absent
    sort_at    TEXT COLLATE "C" NOT NULL  -- min(updatedAt, when this version was witnessed)
);
CREATE INDEX sessions_all ON sessions (sort_at, uri);
CREATE INDEX sessions_did ON sessions (did, sort_at, uri);
CREATE INDEX sessions_repo ON sessions (repo_key, sort_at, uri);
CREATE INDEX sessions_machine ON sessions (machine, sort_at, uri);
CREATE INDEX sessions_status ON sessions (status, sort_at, uri);
CREATE INDEX sessions_rkey ON sessions (rkey, sort_at, uri);

CREATE TABLE classes (
    uri        TEXT COLLATE "C" PRIMARY KEY,
    did        TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    name_key   TEXT COLLATE "C" NOT NULL, -- as source_key
    parent_uri TEXT COLLATE "C" NOT NULL,
    parent_cid TEXT COLLATE "C" NOT NULL,
    sort_at    TEXT COLLATE "C" NOT NULL
);
CREATE INDEX classes_name ON classes (name_key, uri);
CREATE INDEX classes_did ON classes (did, name_key, uri);

CREATE TABLE skills (
    uri     TEXT COLLATE "C" PRIMARY KEY,
    did     TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    name_key TEXT COLLATE "C" NOT NULL,
    sort_at TEXT COLLATE "C" NOT NULL
);
CREATE INDEX skills_did ON skills (did, name_key, uri);

CREATE TABLE conversations (
    uri           TEXT COLLATE "C" PRIMARY KEY,
    did           TEXT COLLATE "C" NOT NULL,
    title         TEXT COLLATE "C" NOT NULL,
    description   TEXT COLLATE "C" NOT NULL,
    discussion    TEXT COLLATE "C" NOT NULL,
    created_at    TEXT COLLATE "C" NOT NULL,
    started_at    TEXT COLLATE "C" NOT NULL, -- min(created_at, when this version was witnessed)
    turns         BIGINT NOT NULL,
    visible_turns BIGINT NOT NULL,
    last_turn_at  TEXT COLLATE "C" NOT NULL, -- '' when there is none
    sort_at       TEXT COLLATE "C" NOT NULL
);
CREATE INDEX conversations_all ON conversations (sort_at, uri);
CREATE INDEX conversations_did ON conversations (did, sort_at, uri);

CREATE TABLE messages (
    uri         TEXT COLLATE "C" PRIMARY KEY,
    did         TEXT COLLATE "C" NOT NULL,
    session_uri TEXT COLLATE "C" NOT NULL,
    foreigner   BOOLEAN NOT NULL, -- from another repo than the conversation's
    role        TEXT COLLATE "C" NOT NULL,
    model       TEXT COLLATE "C" NOT NULL,
    withheld    BOOLEAN NOT NULL,
    worded      BOOLEAN NOT NULL, -- its text is not empty
    rewrites    TEXT COLLATE "C" NOT NULL,    -- how it was rewritten, sorted, by comma
    sort_at     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX messages_session ON messages (session_uri, foreigner, uri);
CREATE INDEX messages_time ON messages (session_uri, foreigner, sort_at);
