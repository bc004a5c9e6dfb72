-- +goose Up
-- Whether the key of an observation was from the future when it was written decides
-- a fork also when the record is gone.
ALTER TABLE supersedes ADD COLUMN rev TEXT NOT NULL DEFAULT ''; -- of the commit that wrote the successor; '' when not known
UPDATE supersedes SET rev = COALESCE((SELECT r.rev FROM records r JOIN repos p ON p.id = r.repo_id
    WHERE p.did = supersedes.did AND r.path = supersedes.successor), '');
-- All that a walk along a chain reads.
DROP INDEX supersedes_by_target;
CREATE INDEX supersedes_by_target ON supersedes (did, target, rev);

-- +goose Down
DROP INDEX supersedes_by_target;
CREATE INDEX supersedes_by_target ON supersedes (did, target);
ALTER TABLE supersedes DROP COLUMN rev;
