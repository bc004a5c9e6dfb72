-- +goose Up
-- The members of a branch in order: a fork parts one without looking at the others.
CREATE INDEX chain_nodes_branch ON chain_nodes (branch, position);

-- +goose Down
DROP INDEX chain_nodes_branch;
