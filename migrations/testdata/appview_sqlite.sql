CREATE TABLE blob_refs (
    uri  TEXT NOT NULL,
    cid  TEXT NOT NULL,
    did  TEXT NOT NULL,
    mime TEXT NOT NULL,
    size INTEGER NOT NULL,
    PRIMARY KEY (uri, cid)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_blob ON blob_refs (did, cid);
CREATE TABLE chain_branches (
    branch   INTEGER PRIMARY KEY,
    chain    INTEGER NOT NULL,
    main     INTEGER NOT NULL, -- boolean; starts at the root
    head_uri TEXT NOT NULL     -- last live node; '' when none lives
) STRICT;
CREATE INDEX chain_branches_chain ON chain_branches (chain);
CREATE TABLE chain_nodes (
    uri         TEXT PRIMARY KEY,
    did         TEXT NOT NULL,
    rkey        TEXT NOT NULL,
    cid         TEXT NOT NULL,
    live        INTEGER NOT NULL, -- boolean
    future      INTEGER NOT NULL, -- boolean; its TID was more than a day ahead when it was witnessed
    target_uri  TEXT NOT NULL,
    target_cid  TEXT NOT NULL,
    edge        TEXT NOT NULL,
    chain       INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    position    INTEGER NOT NULL, -- grows by one along the chain, from any start
    forked      INTEGER NOT NULL, -- boolean; a sibling lives too
    bereft      INTEGER NOT NULL, -- boolean; it is a head because its successors were deleted
    observed_at TEXT NOT NULL,
    indexed_at  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX chain_nodes_branch ON chain_nodes (branch, position);
CREATE INDEX chain_nodes_chain ON chain_nodes (chain, position, uri);
CREATE INDEX chain_nodes_foreign ON chain_nodes (did)
    WHERE target_uri <> '' AND substr(target_uri, 6, length(did) + 1) <> did || '/';
CREATE INDEX chain_nodes_ignored ON chain_nodes (did) WHERE edge = 'ignored';
CREATE INDEX chain_nodes_target ON chain_nodes (target_uri, edge);
CREATE TABLE changes (
    seq        INTEGER PRIMARY KEY, -- microseconds since 1970 when the transaction began, or one more than the last
    kind       TEXT NOT NULL,
    uri        TEXT NOT NULL, -- of the record whose view changed; at://<did> for a whole repo, '' for the index
    did        TEXT NOT NULL,
    collection TEXT NOT NULL,
    cid        TEXT NOT NULL, -- of the version that is shown then, and the rev of the commit that has it
    rev        TEXT NOT NULL,
    detail     TEXT NOT NULL, -- JSON by kind, '' for none
    needs      TEXT NOT NULL, -- another collection that one must see to be told, * for all, '' for none
    hidden     INTEGER NOT NULL, -- boolean; for the operator alone
    at         TEXT NOT NULL
) STRICT;
CREATE TABLE citation_queue (
    kind   TEXT NOT NULL, -- head, record
    uri    TEXT NOT NULL,
    due_at TEXT NOT NULL,
    tries  INTEGER NOT NULL,
    PRIMARY KEY (kind, uri)
) STRICT, WITHOUT ROWID;
CREATE INDEX citation_queue_due ON citation_queue (due_at, kind, uri);
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
CREATE INDEX citations_head ON citations (head_uri, from_uri);
CREATE INDEX citations_target ON citations (target_uri, relation, from_uri, path);
CREATE TABLE classes (
    uri        TEXT PRIMARY KEY,
    did        TEXT NOT NULL,
    name       TEXT NOT NULL,
    name_key   TEXT NOT NULL, -- as source_key
    parent_uri TEXT NOT NULL,
    parent_cid TEXT NOT NULL,
    sort_at    TEXT NOT NULL
) STRICT;
CREATE INDEX classes_did ON classes (did, name_key, uri);
CREATE INDEX classes_name ON classes (name_key, uri);
CREATE TABLE commit_marks (
    mark INTEGER PRIMARY KEY
) STRICT;
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
CREATE TABLE conversations (
    uri           TEXT PRIMARY KEY,
    did           TEXT NOT NULL,
    title         TEXT NOT NULL,
    description   TEXT NOT NULL,
    discussion    TEXT NOT NULL,
    created_at    TEXT NOT NULL,
    started_at    TEXT NOT NULL, -- min(created_at, when this version was witnessed)
    turns         INTEGER NOT NULL,
    visible_turns INTEGER NOT NULL,
    last_turn_at  TEXT NOT NULL, -- '' when there is none
    sort_at       TEXT NOT NULL
) STRICT;
CREATE INDEX conversations_all ON conversations (sort_at, uri);
CREATE INDEX conversations_did ON conversations (did, sort_at, uri);
CREATE TABLE findings (
    uri        TEXT NOT NULL,
    code       TEXT NOT NULL,
    path       TEXT NOT NULL,
    cid        TEXT NOT NULL,
    did        TEXT NOT NULL,
    collection TEXT NOT NULL,
    severity   TEXT NOT NULL,
    message    TEXT NOT NULL,
    repair     TEXT NOT NULL,
    at         TEXT NOT NULL,
    PRIMARY KEY (uri, code, path, cid)
) STRICT, WITHOUT ROWID;
CREATE INDEX findings_at ON findings (at, uri, code, path, cid);
CREATE INDEX findings_code ON findings (code, at, uri);
CREATE INDEX findings_did ON findings (did, at, uri);
CREATE INDEX findings_severity ON findings (severity, at, uri);
CREATE TABLE index_state (
    id         INTEGER PRIMARY KEY CHECK (id = 1), -- the row that Apply locks: one at a time
    next_label INTEGER NOT NULL,                   -- next number for a chain or a branch
    applied    INTEGER NOT NULL                    -- transactions so far
, edition TEXT NOT NULL DEFAULT '', mixed INTEGER NOT NULL DEFAULT 0, change_seq INTEGER NOT NULL DEFAULT 0, changes_pruned INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE journal (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    source       TEXT NOT NULL,
    did          TEXT NOT NULL,
    rev          TEXT NOT NULL,
    commit_cid   TEXT NOT NULL,
    uri          TEXT NOT NULL,
    collection   TEXT NOT NULL,
    rkey         TEXT NOT NULL,
    action       TEXT NOT NULL,    -- create, update, delete
    cid          TEXT NOT NULL,    -- '' on delete
    prev         TEXT NOT NULL,    -- '' on create
    baseline     INTEGER NOT NULL, -- boolean; seen in a whole repo, not in the commit that wrote it
    witnessed_at TEXT NOT NULL,
    facts        TEXT NOT NULL,    -- JSON: what must outlive the content; '' for none
    record       BLOB              -- NULL on delete, and once the content was deleted or taken away
) STRICT;
CREATE INDEX journal_uri ON journal (uri, seq);
CREATE TABLE lexicon_state (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL
) STRICT;
CREATE TABLE lexicons (
    nsid     TEXT PRIMARY KEY,
    source   TEXT NOT NULL, -- the file
    added_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE messages (
    uri         TEXT PRIMARY KEY,
    did         TEXT NOT NULL,
    session_uri TEXT NOT NULL,
    foreigner   INTEGER NOT NULL, -- boolean; from another repo than the conversation's
    role        TEXT NOT NULL,
    model       TEXT NOT NULL,
    withheld    INTEGER NOT NULL, -- boolean
    worded      INTEGER NOT NULL, -- boolean; its text is not empty
    rewrites    TEXT NOT NULL,    -- how it was rewritten, sorted, by comma
    sort_at     TEXT NOT NULL
) STRICT;
CREATE INDEX messages_session ON messages (session_uri, foreigner, uri);
CREATE INDEX messages_time ON messages (session_uri, foreigner, sort_at);
CREATE TABLE observations (
    uri          TEXT PRIMARY KEY,
    did          TEXT NOT NULL,
    source_kind  TEXT NOT NULL,
    source_value TEXT NOT NULL,
    source_key   TEXT NOT NULL, -- source_value, or its digest when it is long: an index entry has a limit
    method       TEXT NOT NULL,
    run          TEXT NOT NULL,
    device       TEXT NOT NULL,
    harness      TEXT NOT NULL,
    model        TEXT NOT NULL,
    observed_at  TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    head         INTEGER NOT NULL, -- boolean; nothing alive supersedes it on its branch
    sort_at      TEXT NOT NULL,    -- min(observed_at, indexed_at)
    text         TEXT NOT NULL
) STRICT;
CREATE INDEX observations_all ON observations (sort_at, uri);
CREATE INDEX observations_device ON observations (device, sort_at, uri);
CREATE INDEX observations_did ON observations (did, sort_at, uri);
CREATE INDEX observations_heads ON observations (sort_at, uri) WHERE head;
CREATE INDEX observations_heads_did ON observations (did, sort_at, uri) WHERE head;
CREATE INDEX observations_heads_method ON observations (method, sort_at, uri) WHERE head;
CREATE INDEX observations_heads_source ON observations (source_key, sort_at, uri) WHERE head;
CREATE INDEX observations_method ON observations (method, sort_at, uri);
CREATE INDEX observations_model ON observations (model, sort_at, uri);
CREATE INDEX observations_run ON observations (run, sort_at, uri);
CREATE INDEX observations_run_did ON observations (run, did, uri);
CREATE INDEX observations_source ON observations (source_key, sort_at, uri);
CREATE TABLE proofs (
    id         INTEGER PRIMARY KEY,
    did        TEXT NOT NULL,
    rev        TEXT NOT NULL,
    commit_cid TEXT NOT NULL,
    blocks     BLOB NOT NULL -- zstd of a CAR: the commit block and the MST nodes that came with it, each once
) STRICT;
CREATE UNIQUE INDEX proofs_commit ON proofs (did, rev, commit_cid);
CREATE TABLE purged (
    cid       TEXT NOT NULL,
    uri       TEXT NOT NULL,
    purged_at TEXT NOT NULL,
    PRIMARY KEY (cid, uri)
) STRICT, WITHOUT ROWID;
CREATE INDEX purged_uri ON purged (uri);
CREATE TABLE records (
    uri        TEXT PRIMARY KEY,
    did        TEXT NOT NULL,
    collection TEXT NOT NULL,
    rkey       TEXT NOT NULL,
    cid        TEXT NOT NULL,    -- of what is shown; of an observation the version first seen
    repo_cid   TEXT NOT NULL,    -- of what the repo holds; '' when deleted
    seq        INTEGER NOT NULL, -- journal row of what is shown
    state      TEXT NOT NULL,    -- ok, violated, quarantined, deleted
    violated   INTEGER NOT NULL, -- boolean; edited, or its key used again
    baseline   INTEGER NOT NULL, -- boolean
    versions   INTEGER NOT NULL, -- witnessed since it was created last
    indexed_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    deleted_at TEXT NOT NULL     -- '' unless deleted
) STRICT, WITHOUT ROWID;
CREATE INDEX records_collection ON records (collection, state, uri);
CREATE INDEX records_quarantined ON records (uri) WHERE state = 'quarantined';
CREATE INDEX records_repo ON records (did, collection, rkey);
CREATE TABLE refs (
    from_uri   TEXT NOT NULL,
    path       TEXT NOT NULL, -- RFC 6901 pointer into the record
    kind       TEXT NOT NULL,
    from_did   TEXT NOT NULL,
    target_uri TEXT NOT NULL,
    target_cid TEXT NOT NULL, -- '' for a plain at-uri
    PRIMARY KEY (from_uri, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX refs_target ON refs (target_uri, kind, from_uri);
CREATE TABLE repos (
    did        TEXT PRIMARY KEY,
    handle     TEXT NOT NULL,    -- '' when unknown
    active     INTEGER NOT NULL, -- boolean; false hides all its records
    status     TEXT NOT NULL,    -- account status when not active
    rev        TEXT NOT NULL,    -- '' before the first commit, as the next two
    commit_cid TEXT NOT NULL,
    data_cid   TEXT NOT NULL,
    sync       TEXT NOT NULL,    -- pending, synced, desynchronized
    sync_error TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    updated_at TEXT NOT NULL
, unreachable TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;
CREATE INDEX repos_handle ON repos (handle);
CREATE INDEX repos_sync ON repos (sync, did);
CREATE TABLE revalidations (
    collection   TEXT PRIMARY KEY,
    state        TEXT NOT NULL, -- state and uri of the last record that was judged
    uri          TEXT NOT NULL,
    seen         INTEGER NOT NULL,
    released     INTEGER NOT NULL,
    quarantined  INTEGER NOT NULL,
    requested_at TEXT NOT NULL,
    finished_at  TEXT NOT NULL -- '' while it runs
) STRICT, WITHOUT ROWID;
CREATE TRIGGER search_docs_added AFTER INSERT ON search_docs BEGIN
    INSERT INTO words_fts (rowid, words) VALUES (new.id, new.words);
END;
CREATE TRIGGER search_docs_removed AFTER DELETE ON search_docs BEGIN
    INSERT INTO words_fts (words_fts, rowid, words) VALUES ('delete', old.id, old.words);
END;
CREATE TABLE search_docs (
    id    INTEGER PRIMARY KEY,
    uri   TEXT NOT NULL UNIQUE,
    words TEXT NOT NULL -- each once, separated by spaces
) STRICT;
CREATE TABLE sessions (
    uri        TEXT PRIMARY KEY,
    did        TEXT NOT NULL,
    rkey       TEXT NOT NULL,
    title      TEXT NOT NULL,
    status     TEXT NOT NULL,
    harness    TEXT NOT NULL,
    machine    TEXT NOT NULL,
    cwd        TEXT NOT NULL,
    repo       TEXT NOT NULL,
    repo_key   TEXT NOT NULL, -- normalised
    branch     TEXT NOT NULL,
    model      TEXT NOT NULL,
    written_at TEXT NOT NULL, -- updatedAt as written
    started_at TEXT NOT NULL, -- '' when absent
    sort_at    TEXT NOT NULL  -- min(updatedAt, when this version was witnessed)
) STRICT;
CREATE INDEX sessions_all ON sessions (sort_at, uri);
CREATE INDEX sessions_did ON sessions (did, sort_at, uri);
CREATE INDEX sessions_machine ON sessions (machine, sort_at, uri);
CREATE INDEX sessions_repo ON sessions (repo_key, sort_at, uri);
CREATE INDEX sessions_rkey ON sessions (rkey, sort_at, uri);
CREATE INDEX sessions_status ON sessions (status, sort_at, uri);
CREATE TABLE settings (
    name  TEXT PRIMARY KEY, -- such as the key that the host witnesses with
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE skills (
    uri     TEXT PRIMARY KEY,
    did     TEXT NOT NULL,
    name    TEXT NOT NULL,
    name_key TEXT NOT NULL,
    sort_at TEXT NOT NULL
) STRICT;
CREATE INDEX skills_did ON skills (did, name_key, uri);
CREATE TABLE sources (
    name       TEXT PRIMARY KEY,
    cursor     INTEGER NOT NULL, -- everything up to here is applied
    updated_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE takedowns (
    uri      TEXT PRIMARY KEY,
    taken_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE trust_journal (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    members    TEXT NOT NULL, -- DIDs in order, separated by spaces; '' when the group was deleted
    source     TEXT NOT NULL, -- config, admin
    changed_at TEXT NOT NULL
) STRICT;
CREATE INDEX trust_journal_name ON trust_journal (name, seq);
CREATE TABLE trust_members (
    did    TEXT PRIMARY KEY,
    circle TEXT NOT NULL -- DIDs of one circle are a trust group
) STRICT, WITHOUT ROWID;
CREATE VIRTUAL TABLE words_fts USING fts5 (words, content = 'search_docs', content_rowid = 'id', detail = 'none', columnsize = 0, tokenize = 'ascii');
CREATE TABLE 'words_fts_config'(k PRIMARY KEY, v) WITHOUT ROWID;
CREATE TABLE 'words_fts_data'(id INTEGER PRIMARY KEY, block BLOB);
CREATE TABLE 'words_fts_idx'(segid, term, pgno, PRIMARY KEY(segid, term)) WITHOUT ROWID;
