-- +goose Up
-- Who else has observations of a run: asked with every observation. The rules
-- that ask are part of the edition, so that every record is judged again.
CREATE INDEX observations_run_did ON observations (run, did, uri);

-- +goose Down
DROP INDEX observations_run_did;
