package appview

import (
	"context"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

// registerTrust adds what decides whose observations may supersede whose: for
// the operator alone.
func (a *Appview) registerTrust(s *xrpc.Server) error {
	service := xrpc.OfService("herbarium_appview")
	return errors.Join(
		xrpc.Query(s, namespace+"admin.listTrustGroups", xrpc.AdminOnly, a.listTrustGroups, service),
		xrpc.Procedure(s, namespace+"admin.putTrustGroup", xrpc.AdminOnly, a.putTrustGroup, service, xrpc.Strict()),
		xrpc.Procedure(s, namespace+"admin.deleteTrustGroup", xrpc.AdminOnly, a.deleteTrustGroup, service, xrpc.Strict()),
	)
}

type listTrustGroupsOutput struct {
	Groups []trustGroupView `json:"groups"`
}

// trustGroupView is garden.herbarium.admin.listTrustGroups#trustGroup.
type trustGroupView struct {
	Name      string            `json:"name"`
	Members   []syntax.DID      `json:"members"`
	Source    index.TrustSource `json:"source"`
	ChangedAt syntax.Datetime   `json:"changedAt"`
}

func (a *Appview) listTrustGroups(ctx context.Context, _ xrpc.Viewer, _ xrpc.None) (*listTrustGroupsOutput, error) {
	groups, err := a.index.TrustGroups(ctx)
	if err != nil {
		return nil, err
	}
	return &listTrustGroupsOutput{Groups: orEmpty(each(groups, func(g index.TrustGroup) trustGroupView {
		return trustGroupView{Name: g.Name, Members: g.Members, Source: g.Source, ChangedAt: datetime(g.ChangedAt)}
	}))}, nil
}

type putTrustGroupInput struct {
	Name    string       `json:"name"`
	Members []syntax.DID `json:"members"`
}

func (a *Appview) putTrustGroup(ctx context.Context, _ xrpc.Viewer, in putTrustGroupInput) (*xrpc.None, error) {
	return &xrpc.None{}, trustFault(a.index.PutTrustGroup(ctx, in.Name, in.Members))
}

type deleteTrustGroupInput struct {
	Name string `json:"name"`
}

func (a *Appview) deleteTrustGroup(ctx context.Context, _ xrpc.Viewer, in deleteTrustGroupInput) (*xrpc.None, error) {
	return &xrpc.None{}, trustFault(a.index.DeleteTrustGroup(ctx, in.Name))
}

// trustFault tells what is wrong with a trust group that was named.
func trustFault(err error) error {
	if errors.Is(err, index.ErrTrust) || errors.Is(err, index.ErrNotFound) {
		return xrpc.InvalidRequest("%v", err)
	}
	return err
}
