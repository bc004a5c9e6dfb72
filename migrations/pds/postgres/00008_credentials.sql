-- +goose Up
-- What a credential may do and until when. A scope is one of the session's
-- names or permissions (https://atproto.com/specs/permission).
ALTER TABLE app_passwords ADD COLUMN scope TEXT NOT NULL DEFAULT 'com.atproto.appPass'; -- of the sessions that it opens
ALTER TABLE app_passwords ADD COLUMN expires_at TEXT;                                   -- NULL: never
ALTER TABLE app_passwords ADD COLUMN last_used_at TEXT;                                 -- last sign-in or refresh
UPDATE app_passwords SET scope = 'com.atproto.appPassPrivileged' WHERE privileged = 1;
ALTER TABLE app_passwords DROP COLUMN privileged;

ALTER TABLE login_keys ADD COLUMN expires_at TEXT; -- NULL: never

ALTER TABLE sessions ADD COLUMN not_after TEXT; -- expiry of what opened it; no token of the session outlives it
