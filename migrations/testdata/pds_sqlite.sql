CREATE TABLE account_policies (
    did             TEXT PRIMARY KEY,
    collections     TEXT,    -- JSON array of NSIDs: those that it may write; NULL: all
    create_only     TEXT,    -- JSON array of NSIDs: no record is updated or deleted there
    max_records     INTEGER,
    max_blob_bytes  INTEGER,
    writes_per_hour INTEGER, -- in points of the rate limits
    writes_per_day  INTEGER,
    changed_at      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE accounts (
    did             TEXT PRIMARY KEY,
    handle          TEXT UNIQUE,   -- lower case; NULL once deleted
    identity        TEXT NOT NULL, -- web | plc (issued here), own (brought along)
    email           TEXT UNIQUE,   -- lower case; optional
    email_confirmed TEXT,          -- when
    password        TEXT,          -- PHC string; NULL: no password login
    password_set_at TEXT,          -- not moved when a hash is renewed
    created_at      TEXT NOT NULL,
    changed_at      TEXT NOT NULL, -- replicas drop what they cached when this moves
    deactivated_at  TEXT,
    delete_after    TEXT,
    suspended_at    TEXT,
    takendown_at    TEXT,
    takedown_ref    TEXT,
    deleted_at      TEXT
, expires_at TEXT, disabled_at TEXT, held INTEGER NOT NULL DEFAULT 0, invites_disabled_at TEXT, invite_note TEXT) STRICT, WITHOUT ROWID;
CREATE INDEX accounts_changed ON accounts (changed_at);
CREATE INDEX accounts_created ON accounts (created_at, did);
CREATE INDEX accounts_delete_after ON accounts (delete_after) WHERE delete_after IS NOT NULL;
CREATE INDEX accounts_due ON accounts (expires_at) WHERE expires_at IS NOT NULL AND deactivated_at IS NULL AND deleted_at IS NULL;
CREATE TABLE agents (
    did          TEXT PRIMARY KEY,
    display_name TEXT NOT NULL, -- '' if none
    owner        TEXT NOT NULL, -- who answers for it, in the operator's words; '' if nobody is named
    class_uri    TEXT,          -- the class record that it was made from
    class_cid    TEXT,
    created_at   TEXT NOT NULL,
    changed_at   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX agents_created ON agents (created_at, did);
CREATE INDEX agents_owner ON agents (owner, created_at, did);
CREATE TABLE app_passwords (
    did        TEXT NOT NULL,
    name       TEXT NOT NULL,
    hash       BLOB NOT NULL,    -- SHA-256 over DID and password (80 random bits)
    created_at TEXT NOT NULL, scope TEXT NOT NULL DEFAULT 'com.atproto.appPass', expires_at TEXT, last_used_at TEXT,
    PRIMARY KEY (did, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit_log (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         TEXT NOT NULL,
    actor      TEXT NOT NULL, -- admin
    method     TEXT NOT NULL, -- NSID
    did        TEXT,          -- of the account that it is about
    subject    TEXT,          -- what it is about: a DID, or the AT URI of a record
    input      TEXT NOT NULL, -- JSON, without what is not known to be harmless
    client     TEXT NOT NULL, -- address
    request_id TEXT NOT NULL  -- leads to the process's log
) STRICT;
CREATE INDEX audit_log_at ON audit_log (at);
CREATE INDEX audit_log_did ON audit_log (did, id) WHERE did IS NOT NULL;
CREATE INDEX audit_log_method ON audit_log (method, id);
CREATE TABLE audit_outcomes (
    id      INTEGER PRIMARY KEY, -- of the entry
    at      TEXT NOT NULL,
    outcome TEXT NOT NULL,       -- done | refused | failed
    error   TEXT,                -- name of the XRPC error
    did     TEXT                 -- of the account that it made
) STRICT;
CREATE INDEX audit_outcomes_did ON audit_outcomes (did, id) WHERE did IS NOT NULL;
CREATE TABLE awaited_blobs (
    repo_id INTEGER NOT NULL,
    cid     BLOB NOT NULL,
    path    TEXT NOT NULL,
    rev     TEXT NOT NULL, -- of the commit that wrote the reference
    PRIMARY KEY (repo_id, cid, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX awaited_blobs_by_path ON awaited_blobs (repo_id, path);
CREATE TABLE blob_objects (
    cid         BLOB PRIMARY KEY,
    size        INTEGER NOT NULL,
    state       TEXT NOT NULL, -- live | trashing | trashed | emptying
    touched_at  TEXT NOT NULL, -- last upload, or the end of an account that had it: the grace counts from here
    changed_at  TEXT NOT NULL  -- when state became what it is
, checked_at TEXT NOT NULL DEFAULT '', missing_at TEXT, secrets_edition INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
CREATE INDEX blob_objects_checked ON blob_objects (state, checked_at, cid);
CREATE INDEX blob_objects_missing ON blob_objects (cid) WHERE missing_at IS NOT NULL;
CREATE INDEX blob_objects_touched ON blob_objects (state, touched_at, cid);
CREATE INDEX blob_objects_unsearched ON blob_objects (state, secrets_edition, cid);
CREATE TABLE blob_refs (
    repo_id INTEGER NOT NULL,
    cid     BLOB NOT NULL,
    path    TEXT NOT NULL,
    rev     TEXT NOT NULL, -- of the commit that wrote the reference
    PRIMARY KEY (repo_id, cid, path),
    FOREIGN KEY (repo_id, cid) REFERENCES blobs (repo_id, cid)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_by_path ON blob_refs (repo_id, path);
CREATE TABLE blob_secrets (
    cid      BLOB NOT NULL REFERENCES blob_objects (cid) ON DELETE CASCADE,
    rule     TEXT NOT NULL, -- the name of the rule
    sure     INTEGER NOT NULL, -- 1: a credential by its form; 0: perhaps one
    position INTEGER NOT NULL, -- bytes before the first that the rule found
    found_at TEXT NOT NULL,
    PRIMARY KEY (cid, rule)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_secrets_found ON blob_secrets (found_at, cid, rule);
CREATE TABLE blobs (
    repo_id     INTEGER NOT NULL,
    cid         BLOB NOT NULL,
    mime_type   TEXT NOT NULL,
    size        INTEGER NOT NULL,
    uploaded_at TEXT NOT NULL, -- of the last upload: a temporary blob's grace counts from here
    PRIMARY KEY (repo_id, cid)
) STRICT, WITHOUT ROWID;
CREATE INDEX blobs_by_cid ON blobs (cid);
CREATE INDEX blobs_by_upload ON blobs (uploaded_at);
CREATE TABLE event_sequence (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    last_seq   INTEGER NOT NULL, -- highest seq ever given out
    pruned_seq INTEGER NOT NULL, -- highest seq that retention has removed
    erasures   INTEGER NOT NULL  -- counts erasures of a DID: other processes drop their cached frames
) STRICT;
CREATE TABLE events (
    seq        INTEGER PRIMARY KEY,
    did        TEXT NOT NULL,
    kind       TEXT NOT NULL,
    frame      BLOB NOT NULL,
    created_at TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_did ON events (did);
CREATE TABLE invite_uses (
    code    TEXT NOT NULL,
    did     TEXT NOT NULL,
    used_at TEXT NOT NULL,
    PRIMARY KEY (code, did)
) STRICT, WITHOUT ROWID;
CREATE INDEX invite_uses_did ON invite_uses (did);
CREATE TABLE invites (
    code        TEXT PRIMARY KEY,
    for_account TEXT NOT NULL,    -- a DID, or admin
    created_by  TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    uses        INTEGER NOT NULL, -- as created
    uses_left   INTEGER NOT NULL CHECK (uses_left >= 0),
    disabled_at TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX invites_account ON invites (for_account, created_at, code);
CREATE INDEX invites_created ON invites (created_at, code);
CREATE INDEX invites_used ON invites ((uses - uses_left), code);
CREATE TABLE issued_labels (
    label        TEXT PRIMARY KEY, -- the handle the DID was issued for
    did          TEXT NOT NULL UNIQUE,
    issued_at    TEXT NOT NULL,
    pds_endpoint TEXT,             -- when the account lives elsewhere now
    public_key   TEXT              -- its key there, as did:key
, handle TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE keys (
    subject    TEXT NOT NULL, -- a DID, or host
    purpose    TEXT NOT NULL, -- signing | rotation | host
    public_key TEXT NOT NULL, -- did:key
    wrapped    BLOB,          -- envelope by the master key; NULL once destroyed
    created_at TEXT NOT NULL,
    PRIMARY KEY (subject, purpose)
) STRICT, WITHOUT ROWID;
CREATE TABLE leases (
    name   TEXT PRIMARY KEY, -- scrub
    holder TEXT NOT NULL,    -- random, one for each process
    until  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE lexicon_state (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL
) STRICT;
CREATE TABLE lexicons (
    nsid     TEXT PRIMARY KEY,
    source   TEXT NOT NULL, -- the file
    added_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE login_keys (
    did          TEXT NOT NULL,
    public_key   TEXT NOT NULL, -- did:key
    name         TEXT NOT NULL,
    scope        TEXT NOT NULL, -- of the sessions that it opens
    created_at   TEXT NOT NULL,
    last_used_at TEXT,          -- last sign-in
    revoked_at   TEXT, expires_at TEXT,
    PRIMARY KEY (did, public_key)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX login_keys_name ON login_keys (did, name) WHERE revoked_at IS NULL;
CREATE TABLE nodes (
    repo_id   INTEGER NOT NULL,
    lower_key TEXT NOT NULL,
    height    INTEGER NOT NULL, -- 0 at the bottom
    cid       BLOB NOT NULL,
    rev       TEXT NOT NULL, -- of the commit that wrote the block
    block     BLOB NOT NULL,
    PRIMARY KEY (repo_id, lower_key, height)
) STRICT, WITHOUT ROWID;
CREATE TABLE one_time_tokens (
    did        TEXT NOT NULL,    -- '' stands for nobody, see account.RequestReset
    purpose    TEXT NOT NULL,    -- plc_operation | delete_account | reset_password
    hash       BLOB NOT NULL UNIQUE, -- SHA-256 over purpose and token (80 random bits)
    wrapped    BLOB NOT NULL,    -- the token in an envelope by the master key, for the operator to hand over
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    PRIMARY KEY (did, purpose)
) STRICT, WITHOUT ROWID;
CREATE INDEX one_time_tokens_created ON one_time_tokens (created_at, did, purpose);
CREATE INDEX one_time_tokens_expires ON one_time_tokens (expires_at);
CREATE TABLE preferences (
    did      TEXT NOT NULL,
    position INTEGER NOT NULL, -- in the list that was put
    type     TEXT NOT NULL,    -- $type, such as app.bsky.actor.defs#mutedWordsPref
    value    BLOB NOT NULL,    -- the JSON object
    PRIMARY KEY (did, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE purge_receipts (
    purge_id TEXT PRIMARY KEY,
    at       TEXT NOT NULL,
    receipt  TEXT NOT NULL -- JWS in its compact form, by the host key
) STRICT, WITHOUT ROWID;
CREATE TABLE purge_steps (
    purge_id TEXT NOT NULL,
    step     TEXT NOT NULL,
    at       TEXT NOT NULL,
    removed  TEXT NOT NULL, -- JSON: numbers by what they count
    PRIMARY KEY (purge_id, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE purged (
    cid      BLOB NOT NULL,
    purge_id TEXT NOT NULL,
    kind     TEXT NOT NULL,    -- record | blob
    uri      TEXT NOT NULL,    -- AT URI of a record; '' of a blob
    size     INTEGER NOT NULL, -- bytes; 0 when it was gone already
    PRIMARY KEY (cid, purge_id, uri)
) STRICT, WITHOUT ROWID;
CREATE INDEX purged_by_purge ON purged (purge_id);
CREATE TABLE purges (
    id     TEXT PRIMARY KEY, -- a TID: the order of time
    at     TEXT NOT NULL,
    actor  TEXT NOT NULL,    -- admin
    reason TEXT NOT NULL     -- the operator's words; '' for none
) STRICT, WITHOUT ROWID;
CREATE TABLE records (
    repo_id INTEGER NOT NULL,
    path    TEXT NOT NULL,
    cid     BLOB NOT NULL,
    rev     TEXT NOT NULL, -- of the commit that wrote it
    block   BLOB NOT NULL, -- the signed DAG-CBOR, served as it is
    PRIMARY KEY (repo_id, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE refresh_tokens (
    jti         TEXT PRIMARY KEY,
    sid         TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    expires_at  TEXT NOT NULL,
    next_jti    TEXT,           -- the one successor, once rotated
    grace_until TEXT            -- the successor is handed out until then
) STRICT, WITHOUT ROWID;
CREATE INDEX refresh_tokens_expires ON refresh_tokens (expires_at);
CREATE INDEX refresh_tokens_grace ON refresh_tokens (grace_until) WHERE grace_until IS NOT NULL;
CREATE INDEX refresh_tokens_sid ON refresh_tokens (sid);
CREATE TABLE repos (
    id           INTEGER PRIMARY KEY AUTOINCREMENT, -- never given twice: the order of creation
    did          TEXT NOT NULL UNIQUE,
    head         BLOB NOT NULL, -- CID of commit_block
    rev          TEXT NOT NULL,
    data         BLOB NOT NULL, -- CID of the MST's root
    commit_block BLOB NOT NULL
, record_count INTEGER NOT NULL DEFAULT 0, blob_count INTEGER NOT NULL DEFAULT 0, blob_bytes INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX repos_by_blob_bytes ON repos (blob_bytes, id);
CREATE INDEX repos_by_records ON repos (record_count, id);
CREATE TABLE sessions (
    sid          TEXT PRIMARY KEY,
    did          TEXT NOT NULL,
    scope        TEXT NOT NULL,
    app_password TEXT,          -- its name, when that is what logged in
    created_at   TEXT NOT NULL,
    expires_at   TEXT NOT NULL, -- no refresh token of the session outlives this
    ended_at     TEXT           -- revoked; access tokens are refused from then on
, login_key TEXT, not_after TEXT) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_did ON sessions (did, created_at, sid);
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX sessions_expires ON sessions (expires_at);
CREATE TABLE settings (
    name  TEXT PRIMARY KEY, -- such as the key that the host witnesses with
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE supersedes (
    did        TEXT NOT NULL,
    successor  TEXT NOT NULL, -- path of the later observation
    target     TEXT NOT NULL, -- AT URI of the earlier one
    target_cid BLOB NOT NULL, rev TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (did, successor)
) STRICT, WITHOUT ROWID;
CREATE INDEX supersedes_by_target ON supersedes (did, target, rev);
CREATE TABLE takedowns (
    did      TEXT NOT NULL,
    subject  TEXT NOT NULL, -- a record's path or a blob's CID
    cid      TEXT NOT NULL, -- as it was when the operator looked at it
    ref      TEXT NOT NULL, -- the operator's own reference
    taken_at TEXT NOT NULL,
    PRIMARY KEY (did, subject)
) STRICT, WITHOUT ROWID;
CREATE TABLE tombstones (
    did        TEXT NOT NULL,
    path       TEXT NOT NULL,
    cid        BLOB NOT NULL,
    deleted_at TEXT NOT NULL,
    PRIMARY KEY (did, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE used_assertions (
    id         TEXT PRIMARY KEY, -- SHA-256 over DID and jti
    expires_at TEXT NOT NULL     -- the assertion is no good from then on
) STRICT, WITHOUT ROWID;
CREATE INDEX used_assertions_expires ON used_assertions (expires_at);
