package appview

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

// maxUsage is how many values of a trait an agent's view lists.
const maxUsage = 20

type getAgentParams struct {
	Actor syntax.AtIdentifier `param:"actor"`
}

type getAgentOutput struct {
	Agent agentView `json:"agent"`
}

func (a *Appview) getAgent(ctx context.Context, xv xrpc.Viewer, p getAgentParams) (*getAgentOutput, error) {
	did, err := a.author(ctx, p.Actor)
	if err != nil {
		return nil, err
	}
	repo, err := a.index.Repo(ctx, did)
	if errors.Is(err, index.ErrNotFound) {
		e := xrpc.Errorf(400, "RecordNotFound", "not-indexed: this index does not follow %s", did)
		e.Findings = []lexicons.Finding{{Code: "not-indexed", Severity: lexicons.Info, Message: e.Message}}
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	counts, err := a.index.RecordCounts(ctx, []syntax.DID{did})
	if err != nil {
		return nil, err
	}
	view := viewAgent(*repo, counts[did])
	v := viewer(xv)
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
