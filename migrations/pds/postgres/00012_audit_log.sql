-- +goose Up
-- What operators did, or tried to. Both tables are only added to. An entry is
-- written before its call is carried out, so that nothing happens without one;
-- one without an outcome was cut off.
CREATE TABLE audit_log (
    id         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         TEXT COLLATE "C" NOT NULL,
    actor      TEXT NOT NULL, -- admin
    method     TEXT COLLATE "C" NOT NULL, -- NSID
    did        TEXT COLLATE "C", -- of the account that it is about
    subject    TEXT,          -- what it is about: a DID, or the AT URI of a record
    input      TEXT NOT NULL, -- JSON, without what is not known to be harmless
    client     TEXT NOT NULL, -- address
    request_id TEXT NOT NULL  -- leads to the process's log
);
CREATE INDEX audit_log_did ON audit_log (did, id) WHERE did IS NOT NULL;
CREATE INDEX audit_log_method ON audit_log (method, id);
CREATE INDEX audit_log_at ON audit_log (at);

CREATE TABLE audit_outcomes (
    id      BIGINT PRIMARY KEY, -- of the entry
    at      TEXT COLLATE "C" NOT NULL,
    outcome TEXT NOT NULL,       -- done | refused | failed
    error   TEXT,                -- name of the XRPC error
    did     TEXT COLLATE "C"     -- of the account that it made
);
CREATE INDEX audit_outcomes_did ON audit_outcomes (did, id) WHERE did IS NOT NULL;
