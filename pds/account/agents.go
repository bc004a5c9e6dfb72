package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// Agent is an account that runs by itself, with what the operator says of it.
type Agent struct {
	Account
	Profile   AgentProfile
	ChangedAt time.Time // of the profile
}

// AgentProfile is what the operator says of an agent.
type AgentProfile struct {
	DisplayName string // "" if none
	Owner       string // who answers for it, in free words; "" if nobody is named
	Class       *ClassRef
	Expires     *time.Time // it is held from then on; nil: never
}

// ClassRef names the class record that an agent was made from, as a strongRef.
// Whether the record is there is not asked.
type ClassRef struct {
	URI syntax.ATURI
	CID cid.Cid
}

// maxProfileText bounds a display name and an owner, in bytes.
const maxProfileText = 640

// ParseClassRef reads a strongRef to a class record. ErrAgentInvalid.
func ParseClassRef(uri, cidText string) (*ClassRef, error) {
	parsed, err := syntax.ParseATURI(uri)
	if err != nil || parsed.Collection() != lexicons.ClassNSID || parsed.RecordKey() == "" || !parsed.Authority().IsDID() {
		return nil, fmt.Errorf("%w: class.uri is not at://<did>/%s/<rkey>; name the class record so", ErrAgentInvalid, lexicons.ClassNSID)
	}
	c, err := cid.Decode(cidText)
	if err != nil || c.Version() != 1 || c.Prefix().Codec != cid.DagCBOR {
		return nil, fmt.Errorf("%w: class.cid is not the CID of a record; send the one that com.atproto.repo.getRecord answers for class.uri", ErrAgentInvalid)
	}
	return &ClassRef{URI: parsed, CID: c}, nil
}

func (p AgentProfile) check() error {
	for name, text := range map[string]string{"displayName": p.DisplayName, "owner": p.Owner} {
		if len(text) > maxProfileText || text != "" && !printableName(text) {
			return fmt.Errorf("%w: %s has more than %d bytes, or control characters; shorten it", ErrAgentInvalid, name, maxProfileText)
		}
	}
	return nil
}

// agentRow is the table, agentRecord an agent as it is read.
type agentRow struct {
	DID         string `gorm:"column:did;primaryKey"`
	DisplayName string
	Owner       string
	ClassURI    *string `gorm:"column:class_uri"`
	ClassCID    *string `gorm:"column:class_cid"`
	CreatedAt   string  // of the account
	ChangedAt   string
}

func (agentRow) TableName() string { return "agents" }

func (r *agentRow) describe(p AgentProfile) {
	r.DisplayName, r.Owner, r.ClassURI, r.ClassCID = p.DisplayName, p.Owner, nil, nil
	if p.Class != nil {
		uri, c := p.Class.URI.String(), p.Class.CID.String()
		r.ClassURI, r.ClassCID = &uri, &c
	}
}

type agentRecord struct {
	Account     accountRow `gorm:"embedded"`
	DisplayName string
	Owner       string
	ClassURI    *string `gorm:"column:class_uri"`
	ClassCID    *string `gorm:"column:class_cid"`
	DescribedAt string
}

// agents are all of them, for a query to choose from.
func agents(ctx context.Context, db *gorm.DB) *gorm.DB {
	return db.WithContext(ctx).Table("agents").Joins("JOIN accounts ON accounts.did = agents.did").
		Select("accounts.*, display_name, owner, class_uri, class_cid, agents.changed_at AS described_at")
}

func (r agentRecord) agent() (Agent, error) {
	fail := func(err error) (Agent, error) { return Agent{}, fmt.Errorf("agent %s: %w", r.Account.DID, err) }
	a, err := r.Account.account()
	if err != nil {
		return fail(err)
	}
	out := Agent{Account: a, Profile: AgentProfile{DisplayName: r.DisplayName, Owner: r.Owner, Expires: a.ExpiresAt}}
	if r.ClassURI != nil {
		if out.Profile.Class, err = ParseClassRef(*r.ClassURI, value(r.ClassCID)); err != nil {
			return fail(err)
		}
	}
	if out.ChangedAt, err = migrations.ParseTime(r.DescribedAt); err != nil {
		return fail(err)
	}
	return out, nil
}

// CreateAgentTx makes an agent of an account, inside the caller's transaction
// (tx). ErrAgentInvalid, ErrNotFound.
func (s *Store) CreateAgentTx(ctx context.Context, tx *gorm.DB, did syntax.DID, profile AgentProfile) (Agent, error) {
	if err := profile.check(); err != nil {
		return Agent{}, err
	}
	a, err := s.setExpiry(ctx, tx, did, profile.Expires)
	if err != nil {
		return Agent{}, err
	}
	row := agentRow{DID: string(did), CreatedAt: migrations.FormatTime(a.CreatedAt), ChangedAt: s.nowText()}
	row.describe(profile)
	if err := tx.WithContext(ctx).Create(&row).Error; err != nil {
		return Agent{}, fmt.Errorf("create agent %s: %w", did, err)
	}
	return s.GetAgentTx(ctx, tx, did)
}

// setExpiry writes when the agent expires; a time that is over already is
// refused, for that is what disabling is for.
func (s *Store) setExpiry(ctx context.Context, tx *gorm.DB, did syntax.DID, expires *time.Time) (Account, error) {
	var text *string
	if expires != nil {
		if !expires.After(s.cfg.Now()) {
			return Account{}, fmt.Errorf("%w: the expiry is over already; send a later time, or disable the agent", ErrAgentInvalid)
		}
		formatted := migrations.FormatTime(*expires)
		text = &formatted
	}
	return s.change(ctx, tx, did, map[string]any{"expires_at": text})
}

// GetAgent answers an agent; ErrNotAgent for any other DID.
func (s *Store) GetAgent(ctx context.Context, did syntax.DID) (Agent, error) {
	return s.GetAgentTx(ctx, s.cfg.DB.Read, did)
}

// GetAgentTx answers an agent as the caller's transaction (tx) sees it.
func (s *Store) GetAgentTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Agent, error) {
	var rows []agentRecord
	if err := agents(ctx, tx).Where("agents.did = ?", string(did)).Limit(1).Scan(&rows).Error; err != nil {
		return Agent{}, fmt.Errorf("find agent %s: %w", did, err)
	}
	if len(rows) == 0 {
		return Agent{}, fmt.Errorf("%s: %w", did, ErrNotAgent)
	}
	return rows[0].agent()
}

// lockAgent answers an agent and keeps others from changing it before the
// transaction (tx) commits.
func (s *Store) lockAgent(ctx context.Context, tx *gorm.DB, did syntax.DID) (Agent, error) {
	if _, err := s.change(ctx, tx, did, map[string]any{}); errors.Is(err, ErrNotFound) {
		return Agent{}, fmt.Errorf("%s: %w", did, ErrNotAgent)
	} else if err != nil {
		return Agent{}, err
	}
	return s.GetAgentTx(ctx, tx, did)
}

// ListAgents lists at most limit (1 to 1000) agents in the order of creation:
// all of them, or those of one owner.
func (s *Store) ListAgents(ctx context.Context, owner *string, after Position, limit int) (Page[Agent], error) {
	limit = clampLimit(limit)
	query := agents(ctx, s.cfg.DB.Read)
	if owner != nil {
		if *owner != "" && !printableName(*owner) {
			return Page[Agent]{}, nil
		}
		query = query.Where("owner = ?", *owner)
	}
	var rows []agentRecord
	err := query.Where("(agents.created_at, agents.did) > (?, ?)", after.text(), after.Key).
		Order("agents.created_at, agents.did").Limit(limit + 1).Scan(&rows).Error
	if err != nil {
		return Page[Agent]{}, fmt.Errorf("list agents: %w", err)
	}
	listed := make([]Agent, len(rows))
	for i, row := range rows {
		if listed[i], err = row.agent(); err != nil {
			return Page[Agent]{}, err
		}
	}
	return page(listed, limit, func(a Agent) Position { return Position{At: a.CreatedAt, Key: string(a.DID)} }), nil
}

// UpdateAgentTx changes what is said of an agent, inside the caller's
// transaction (tx). An expiry that is moved ahead opens the account again if
// the old one had closed it; freed reports that, for the caller to announce.
// The sessions of before stay ended. ErrNotAgent, ErrAgentInvalid.
func (s *Store) UpdateAgentTx(ctx context.Context, tx *gorm.DB, did syntax.DID, edit func(*AgentProfile)) (agent Agent, freed bool, err error) {
	before, err := s.lockAgent(ctx, tx, did)
	if err != nil {
		return Agent{}, false, err
	}
	profile := before.Profile
	edit(&profile)
	if err := profile.check(); err != nil {
		return Agent{}, false, err
	}
	row := agentRow{ChangedAt: s.nowText()}
	row.describe(profile)
	err = tx.WithContext(ctx).Model(&agentRow{}).Where("did = ?", string(did)).
		Select("display_name", "owner", "class_uri", "class_cid", "changed_at").Updates(&row).Error
	if err != nil {
		return Agent{}, false, fmt.Errorf("update agent %s: %w", did, err)
	}
	if !sameTime(profile.Expires, before.ExpiresAt) {
		if freed, err = s.moveExpiry(ctx, tx, before.Account, profile.Expires); err != nil {
			return Agent{}, false, err
		}
	}
	agent, err = s.GetAgentTx(ctx, tx, did)
	return agent, freed, err
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return migrations.FormatTime(*a) == migrations.FormatTime(*b)
}

func (s *Store) moveExpiry(ctx context.Context, tx *gorm.DB, before Account, expires *time.Time) (freed bool, err error) {
	if errors.Is(before.Held(s.cfg.Now()), ErrAgentExpired) {
		// Dead is dead, also if nobody had come to deactivate it.
		if _, err := s.endSessionsTx(tx.WithContext(ctx), "did = ?", string(before.DID)); err != nil {
			return false, fmt.Errorf("end sessions of %s: %w", before.DID, err)
		}
	}
	if _, err := s.setExpiry(ctx, tx, before.DID, expires); err != nil {
		return false, err
	}
	return s.release(ctx, tx, before.DID)
}

// hold deactivates an account that is active, to be active again when it is
// held no more, and ends its sessions.
func (s *Store) hold(ctx context.Context, tx *gorm.DB, did syntax.DID) error {
	columns := map[string]any{"held": 1, "deactivated_at": s.nowText(), "changed_at": s.nowText()}
	held := tx.WithContext(ctx).Model(&accountRow{}).Where("did = ? AND deactivated_at IS NULL", string(did)).Updates(columns)
	if held.Error != nil {
		return fmt.Errorf("hold %s: %w", did, held.Error)
	}
	if _, err := s.endSessionsTx(tx.WithContext(ctx), "did = ?", string(did)); err != nil {
		return fmt.Errorf("end sessions of %s: %w", did, err)
	}
	return nil
}

// release is the end of hold, when nothing holds the agent any more; freed
// says that the account was deactivated by it.
func (s *Store) release(ctx context.Context, tx *gorm.DB, did syntax.DID) (freed bool, err error) {
	row, err := find(ctx, tx, "did = ?", string(did))
	if err != nil {
		return false, err
	}
	a, err := row.account()
	if err != nil || row.Held == 0 || a.Held(s.cfg.Now()) != nil {
		return false, err
	}
	_, err = s.change(ctx, tx, did, map[string]any{"held": 0, "deactivated_at": nil, "delete_after": nil})
	return err == nil, err
}

// DisableAgentTx holds an agent until EnableAgentTx, inside the caller's
// transaction (tx), and answers it as it is then. An agent that is disabled
// already stays so. ErrNotAgent.
func (s *Store) DisableAgentTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Agent, error) {
	if _, err := s.lockAgent(ctx, tx, did); err != nil {
		return Agent{}, err
	}
	if _, err := s.change(ctx, tx, did, map[string]any{"disabled_at": gorm.Expr("COALESCE(disabled_at, ?)", s.nowText())}); err != nil {
		return Agent{}, err
	}
	if err := s.hold(ctx, tx, did); err != nil {
		return Agent{}, err
	}
	return s.GetAgentTx(ctx, tx, did)
}

// EnableAgentTx undoes DisableAgentTx. One that has expired meanwhile, or that
// was deactivated before it was disabled, stays deactivated; freed reports that
// the account is open again. ErrNotAgent.
func (s *Store) EnableAgentTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (agent Agent, freed bool, err error) {
	if _, err = s.lockAgent(ctx, tx, did); err != nil {
		return Agent{}, false, err
	}
	if _, err = s.change(ctx, tx, did, map[string]any{"disabled_at": nil}); err != nil {
		return Agent{}, false, err
	}
	if freed, err = s.release(ctx, tx, did); err != nil {
		return Agent{}, false, err
	}
	agent, err = s.GetAgentTx(ctx, tx, did)
	return agent, freed, err
}

// ListExpired lists agents whose time is over and whose accounts have not been
// deactivated, limit at most, the longest over first.
func (s *Store) ListExpired(ctx context.Context, limit int) ([]syntax.DID, error) {
	var dids []syntax.DID
	err := s.cfg.DB.Read.WithContext(ctx).Raw(`SELECT did FROM accounts
		WHERE expires_at IS NOT NULL AND deactivated_at IS NULL AND deleted_at IS NULL AND expires_at <= ?
		ORDER BY expires_at LIMIT ?`, s.nowText(), clampLimit(limit)).Scan(&dids).Error
	if err != nil {
		return nil, fmt.Errorf("list expired agents: %w", err)
	}
	return dids, nil
}

// ExpireTx deactivates an agent whose time is over, inside the caller's
// transaction (tx). done is false if there was nothing to do: somebody else has
// done it, or has moved the expiry.
func (s *Store) ExpireTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (a Account, done bool, err error) {
	// The update of change waits for whoever is at the row, so what follows sees
	// what they did.
	if a, err = s.change(ctx, tx, did, map[string]any{}); err != nil {
		return Account{}, false, err
	}
	if a.DeactivatedAt != nil || !errors.Is(a.Held(s.cfg.Now()), ErrAgentExpired) {
		return a, false, nil
	}
	if err = s.hold(ctx, tx, did); err != nil {
		return Account{}, false, err
	}
	a, err = s.GetTx(ctx, tx, did)
	return a, err == nil, err
}
