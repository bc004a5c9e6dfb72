-- +goose Up
-- What operators did, or tried to. Both tables are only added to. An entry is
-- written before its call is carried out, so that nothing happens without one;
-- one without an outcome was cut off.
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
CREATE INDEX audit_log_did ON audit_log (did, id) WHERE did IS NOT NULL;
CREATE INDEX audit_log_method ON audit_log (method, id);
CREATE INDEX audit_log_at ON audit_log (at);

CREATE TABLE audit_outcomes (
    id      INTEGER PRIMARY KEY, -- of the entry
    at      TEXT NOT NULL,
    outcome TEXT NOT NULL,       -- done | refused | failed
    error   TEXT,                -- name of the XRPC error
    did     TEXT                 -- of the account that it made
) STRICT;
CREATE INDEX audit_outcomes_did ON audit_outcomes (did, id) WHERE did IS NOT NULL;
