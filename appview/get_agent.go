package appview

import (
	"context"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

// maxUsage is how many values of a trait an agent's view lists.
const maxUsage = 20

type getAgentParams struct {
	atLeast
	Actor syntax.AtIdentifier `param:"actor"`
}

type getAgentOutput struct {
	freshness
	Agent agentView `json:"agent"`
}

func (a *Appview) getAgent(ctx context.Context, xv xrpc.Viewer, p getAgentParams) (*getAgentOutput, error) {
	did, err := a.author(ctx, p.Actor)
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	repo, err := a.index.Repo(ctx, did)
	if err != nil && !errors.Is(err, index.ErrNotFound) {
		return nil, err
	}
	counts, err := a.index.RecordCounts(ctx, v, []syntax.DID{did})
	if err != nil {
		return nil, err
	}
	switch {
	case v.Restricted() && (repo == nil || !repo.Active || len(counts[did]) == 0):
		return nil, recordNotFound("not-published", fmt.Sprintf("not-published: no published record is by %s", did))
	case repo == nil:
		return nil, recordNotFound("not-indexed", fmt.Sprintf("not-indexed: this index does not follow %s", did))
	}
	view := viewAgent(v, *repo, counts[did])
	runs, err := a.index.Usage(ctx, v, did, index.TraitRun, maxUsage)
	if err != nil {
		return nil, err
	}
	view.Runs = each(runs, viewRun)
	for trait, field := range map[index.Trait]*[]usageView{
		index.TraitDevice: &view.Devices, index.TraitHarness: &view.Harnesses, index.TraitModel: &view.Models,
	} {
		usage, err := a.index.Usage(ctx, v, did, trait, maxUsage)
		if err != nil {
			return nil, err
		}
		*field = each(usage, viewUsage)
	}
	return &getAgentOutput{Agent: view}, nil
}
