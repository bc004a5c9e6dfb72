-- +goose Up
-- An account's private preferences of applications, as its clients put them.
-- One put replaces all of an account's rows.
CREATE TABLE preferences (
    did      TEXT NOT NULL,
    position INTEGER NOT NULL, -- in the list that was put
    type     TEXT NOT NULL,    -- $type, such as app.bsky.actor.defs#mutedWordsPref
    value    BLOB NOT NULL,    -- the JSON object
    PRIMARY KEY (did, position)
) STRICT, WITHOUT ROWID;

-- An account whose invites are disabled gets no new codes; those that it has
-- still serve.
ALTER TABLE accounts ADD COLUMN invites_disabled_at TEXT;
ALTER TABLE accounts ADD COLUMN invite_note TEXT; -- the operator's reason
CREATE INDEX invites_used ON invites ((uses - uses_left), code);
CREATE INDEX invite_uses_did ON invite_uses (did);

-- +goose Down
DROP INDEX invite_uses_did;
DROP INDEX invites_used;
ALTER TABLE accounts DROP COLUMN invite_note;
ALTER TABLE accounts DROP COLUMN invites_disabled_at;
DROP TABLE preferences;
