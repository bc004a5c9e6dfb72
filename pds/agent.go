package pds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

const listAgentsMethod = "garden.herbarium.admin.listAgents"

func (p *PDS) registerAgents(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Procedure(s, "garden.herbarium.admin.createAgent", xrpc.AdminOnly, p.createAgent, xrpc.Strict()),
		xrpc.Query(s, "garden.herbarium.admin.getAgent", xrpc.AdminOnly, p.getAgent),
		xrpc.Query(s, listAgentsMethod, xrpc.AdminOnly, p.listAgents),
		xrpc.Procedure(s, "garden.herbarium.admin.updateAgent", xrpc.AdminOnly, p.updateAgent, xrpc.Strict()),
		xrpc.Procedure(s, "garden.herbarium.admin.disableAgent", xrpc.AdminOnly, p.disableAgent),
		xrpc.Procedure(s, "garden.herbarium.admin.enableAgent", xrpc.AdminOnly, p.enableAgent),
		xrpc.Procedure(s, "garden.herbarium.admin.deleteAgent", xrpc.AdminOnly, p.deleteAgent),
	)
}

// classRef is garden.herbarium.admin.defs#classRef.
type classRef struct {
	URI syntax.ATURI `json:"uri"`
	CID syntax.CID   `json:"cid"`
}

// agentView is garden.herbarium.admin.defs#agentView.
type agentView struct {
	DID         syntax.DID    `json:"did"`
	Handle      syntax.Handle `json:"handle"`
	DisplayName string        `json:"displayName,omitempty"`
	Owner       string        `json:"owner,omitempty"`
	Class       *classRef     `json:"class,omitempty"`
	ClassState  string        `json:"classState,omitempty"`
	Active      bool          `json:"active"`
	Status      string        `json:"status,omitempty"`
	ExpiresAt   string        `json:"expiresAt,omitempty"`
	DisabledAt  string        `json:"disabledAt,omitempty"`
	CreatedAt   string        `json:"createdAt"`
	ChangedAt   string        `json:"changedAt"`
	Policy      accountPolicy `json:"policy"`
}

func (p *PDS) viewAgent(ctx context.Context, a account.Agent) (agentView, error) {
	policy, err := p.accounts.Policy(ctx, a.DID)
	if err != nil {
		return agentView{}, err
	}
	view := agentView{
		DID: a.DID, Handle: a.Handle, DisplayName: a.Profile.DisplayName, Owner: a.Profile.Owner,
		Active: a.Active(), Status: agentStatus(a.Account, p.now()),
		ExpiresAt: formatMaybe(a.ExpiresAt), DisabledAt: formatMaybe(a.DisabledAt),
		CreatedAt: migrations.FormatTime(a.CreatedAt), ChangedAt: migrations.FormatTime(a.ChangedAt),
		Policy: viewPolicy(policy),
	}
	if class := a.Profile.Class; class != nil {
		view.Class = &classRef{URI: class.URI, CID: syntax.CID(class.CID.String())}
	}
	return view, nil
}

// agentStatus says the strongest reason why an agent does not work.
func agentStatus(a account.Account, now time.Time) string {
	held := a.Held(now)
	switch {
	case a.Status != account.Active && a.Status != account.Deactivated:
		return a.HostedStatus()
	case errors.Is(held, account.ErrAgentDisabled):
		return "disabled"
	case errors.Is(held, account.ErrAgentExpired):
		return "expired"
	}
	return a.HostedStatus()
}

// answerAgent is the view with what was found of the class record.
func (p *PDS) answerAgent(ctx context.Context, a account.Agent) (*agentView, error) {
	view, err := p.viewAgent(ctx, a)
	if err != nil {
		return nil, err
	}
	if a.Profile.Class != nil {
		view.ClassState, err = p.classState(ctx, *a.Profile.Class)
	}
	return &view, err
}

// classState tells whether the class record is there. Nobody else is asked: an
// operator may name a class before its maker has published it.
func (p *PDS) classState(ctx context.Context, class account.ClassRef) (string, error) {
	maker, err := class.URI.Authority().AsDID()
	if err != nil {
		return "", err
	}
	record, err := p.repos.GetRecord(ctx, maker, class.URI.Collection(), class.URI.RecordKey())
	switch {
	case errors.Is(err, repostore.ErrRepoNotFound):
		return "elsewhere", nil
	case errors.Is(err, repostore.ErrRecordNotFound):
		return "missing", nil
	case err != nil:
		return "", err
	case record.CID != class.CID:
		return "changed", nil
	}
	return "current", nil
}

// parseClass reads a strongRef that may be absent.
func parseClass(ref *classRef) (*account.ClassRef, error) {
	if ref == nil {
		return nil, nil
	}
	return account.ParseClassRef(ref.URI.String(), ref.CID.String())
}

// newCredential is garden.herbarium.admin.defs#newCredential.
type newCredential struct {
	Name      string           `json:"name"`
	Scope     account.Scope    `json:"scope"`
	ExpiresAt *syntax.Datetime `json:"expiresAt"`
	PublicKey string           `json:"publicKey"`
}

type createAgentInput struct {
	Handle      syntax.Handle    `json:"handle"`
	DisplayName string           `json:"displayName"`
	Owner       string           `json:"owner"`
	Class       *classRef        `json:"class"`
	ExpiresAt   *syntax.Datetime `json:"expiresAt"`
	Policy      *accountPolicy   `json:"policy"`
	Credential  *newCredential   `json:"credential"`
}

type createAgentOutput struct {
	Agent      agentView        `json:"agent"`
	Credential *shownCredential `json:"credential,omitempty"`
	LoginKey   *loginKeyView    `json:"loginKey,omitempty"`
}

// createAgent makes account, repo, profile, policy and credential in one
// transaction: a crash leaves all of them or none. (Of a did:plc the directory
// knows before; a DID that nobody uses then is harmless.)
func (p *PDS) createAgent(ctx context.Context, _ xrpc.Viewer, in createAgentInput) (*createAgentOutput, error) {
	class, err := parseClass(in.Class)
	if err != nil {
		return nil, err
	}
	profile := account.AgentProfile{DisplayName: in.DisplayName, Owner: in.Owner, Class: class, Expires: timeOf(in.ExpiresAt)}
	out := &createAgentOutput{}
	var agent account.Agent
	_, err = p.openAccountWith(ctx, account.Params{Handle: in.Handle.Normalize(), ByAdmin: true}, func(tx *gorm.DB, did syntax.DID) (err error) {
		if agent, err = p.accounts.CreateAgentTx(ctx, tx, did, profile); err != nil {
			return err
		}
		if in.Policy != nil {
			if err := p.accounts.SetPolicyTx(ctx, tx, did, in.Policy.policy()); err != nil {
				return err
			}
		}
		return p.addCredential(ctx, tx, did, in.Credential, out)
	})
	if err != nil {
		return nil, err
	}
	view, err := p.answerAgent(ctx, agent)
	if err != nil {
		return nil, err
	}
	out.Agent = *view
	return out, nil
}

// addCredential makes the first credential, inside the caller's transaction (tx).
func (p *PDS) addCredential(ctx context.Context, tx *gorm.DB, did syntax.DID, in *newCredential, out *createAgentOutput) error {
	switch {
	case in == nil:
		return nil
	case in.PublicKey != "":
		key, err := parseLoginKey(in.PublicKey)
		if err != nil {
			return err
		}
		added, err := p.accounts.AddLoginKeyTx(ctx, tx, did, account.LoginKeyParams{Name: in.Name, PublicKey: key, Scope: in.Scope, Expires: timeOf(in.ExpiresAt)})
		if err != nil {
			return err
		}
		view := viewLoginKey(added)
		out.LoginKey = &view
	default:
		made, password, err := p.accounts.CreateAppPasswordTx(ctx, tx, did, account.AppPasswordParams{Name: in.Name, Scope: in.Scope, Expires: timeOf(in.ExpiresAt)})
		if err != nil {
			return err
		}
		out.Credential = &shownCredential{viewCredential(made), password}
	}
	return nil
}

type getAgentParams struct {
	Agent syntax.AtIdentifier `param:"agent"`
}

func (p *PDS) getAgent(ctx context.Context, _ xrpc.Viewer, in getAgentParams) (*agentView, error) {
	did, err := p.hostedDID(ctx, in.Agent)
	if errors.Is(err, account.ErrNotFound) {
		err = account.ErrNotAgent
	}
	if err != nil {
		return nil, err
	}
	a, err := p.accounts.GetAgent(ctx, did)
	if err != nil {
		return nil, err
	}
	return p.answerAgent(ctx, a)
}

type listAgentsParams struct {
	Owner  *string `param:"owner"`
	Limit  int     `param:"limit"`
	Cursor string  `param:"cursor"`
}

type listAgentsOutput struct {
	Cursor string      `json:"cursor,omitempty"`
	Agents []agentView `json:"agents"`
}

func (p *PDS) listAgents(ctx context.Context, _ xrpc.Viewer, in listAgentsParams) (*listAgentsOutput, error) {
	var after account.Position
	if in.Cursor != "" {
		var err error
		if after, err = xrpc.DecodeCursor[account.Position](listAgentsMethod, in.Cursor); err != nil {
			return nil, err
		}
	}
	page, err := p.accounts.ListAgents(ctx, in.Owner, after, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listAgentsOutput{Agents: make([]agentView, len(page.Items))}
	for i, a := range page.Items {
		if out.Agents[i], err = p.viewAgent(ctx, a); err != nil {
			return nil, err
		}
	}
	if page.Next != (account.Position{}) {
		out.Cursor = xrpc.EncodeCursor(listAgentsMethod, page.Next)
	}
	return out, nil
}

type updateAgentInput struct {
	DID         syntax.DID       `json:"did"`
	DisplayName *string          `json:"displayName"`
	Owner       *string          `json:"owner"`
	Class       *classRef        `json:"class"`
	ExpiresAt   *syntax.Datetime `json:"expiresAt"`
	Policy      *accountPolicy   `json:"policy"`
	Clear       []string         `json:"clear"`
}

func (p *PDS) updateAgent(ctx context.Context, _ xrpc.Viewer, in updateAgentInput) (*agentView, error) {
	class, err := parseClass(in.Class)
	if err != nil {
		return nil, err
	}
	return p.changeAgent(ctx, in.DID, func(tx *gorm.DB) (account.Agent, bool, error) {
		if in.Policy != nil {
			if err := p.accounts.SetPolicyTx(ctx, tx, in.DID, in.Policy.policy()); err != nil {
				return account.Agent{}, false, notFound(err)
			}
		}
		return p.accounts.UpdateAgentTx(ctx, tx, in.DID, func(profile *account.AgentProfile) { in.edit(profile, class) })
	})
}

func (in updateAgentInput) edit(profile *account.AgentProfile, class *account.ClassRef) {
	for _, field := range in.Clear {
		switch field {
		case "class":
			profile.Class = nil
		case "expiresAt":
			profile.Expires = nil
		}
	}
	if in.DisplayName != nil {
		profile.DisplayName = *in.DisplayName
	}
	if in.Owner != nil {
		profile.Owner = *in.Owner
	}
	if class != nil {
		profile.Class = class
	}
	if in.ExpiresAt != nil {
		profile.Expires = timeOf(in.ExpiresAt)
	}
}

type agentInput struct {
	DID syntax.DID `json:"did"`
}

func (p *PDS) disableAgent(ctx context.Context, _ xrpc.Viewer, in agentInput) (*agentView, error) {
	return p.changeAgent(ctx, in.DID, func(tx *gorm.DB) (account.Agent, bool, error) {
		before, err := p.accounts.GetAgentTx(ctx, tx, in.DID)
		if err != nil {
			return account.Agent{}, false, err
		}
		a, err := p.accounts.DisableAgentTx(ctx, tx, in.DID)
		return a, before.Status != a.Status, err
	})
}

func (p *PDS) enableAgent(ctx context.Context, _ xrpc.Viewer, in agentInput) (*agentView, error) {
	return p.changeAgent(ctx, in.DID, func(tx *gorm.DB) (account.Agent, bool, error) {
		return p.accounts.EnableAgentTx(ctx, tx, in.DID)
	})
}

// changeAgent runs change in a transaction and announces the account's status
// if that became another one.
func (p *PDS) changeAgent(ctx context.Context, did syntax.DID, change func(tx *gorm.DB) (a account.Agent, turned bool, err error)) (*agentView, error) {
	var a account.Agent
	err := p.changeAccount(ctx, did, func(tx *gorm.DB) (_ []sequencer.Draft, err error) {
		var turned bool
		a, turned, err = change(tx)
		switch {
		case err != nil || !turned:
			return nil, err
		case a.Active():
			return p.activation(ctx, tx, a.Account)
		}
		return []sequencer.Draft{announce(a.Account)}, nil
	})
	if err != nil {
		return nil, fmt.Errorf("change agent: %w", err)
	}
	return p.answerAgent(ctx, a)
}

func (p *PDS) deleteAgent(ctx context.Context, _ xrpc.Viewer, in agentInput) (*xrpc.None, error) {
	return &xrpc.None{}, p.eraseAccount(ctx, in.DID, func(tx *gorm.DB) error {
		_, err := p.accounts.GetAgentTx(ctx, tx, in.DID)
		return err
	})
}

// expiredAtOnce bounds how many agents one look takes in.
const expiredAtOnce = 100

// ExpireAgents deactivates the agents whose time is over, and announces it.
// They are out already: this is what the world is told. One that fails does not
// keep the others.
func (p *PDS) ExpireAgents(ctx context.Context) error {
	dids, err := p.accounts.ListExpired(ctx, expiredAtOnce)
	if err != nil {
		return err
	}
	var errs []error
	for _, did := range dids {
		errs = append(errs, p.changeAccount(ctx, did, func(tx *gorm.DB) ([]sequencer.Draft, error) {
			a, done, err := p.accounts.ExpireTx(ctx, tx, did)
			if err != nil || !done {
				return nil, err
			}
			return []sequencer.Draft{announce(a)}, nil
		}))
	}
	return errors.Join(errs...)
}
