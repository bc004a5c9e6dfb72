package account

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
)

// Policy is what the operator lets an account write. What is nil is as the
// host has it for everybody; the zero Policy restricts nothing.
type Policy struct {
	Collections []syntax.NSID // the ones whose records it may write or delete; nil: all, empty: none
	CreateOnly  []syntax.NSID // collections in which it neither updates nor deletes

	MaxRecords   *int64 // that its repo may hold
	MaxBlobBytes *int64 // that its blobs may have together, referenced or not

	WritesPerHour *int64 // points of the rate limits, in the place of the host's
	WritesPerDay  *int64
}

// The bounds of a policy.
const (
	maxPolicyCollections = 256     // in one list
	maxPolicyNumber      = 1 << 53 // exclusive: what every JSON reader can tell apart
)

// normal checks a policy and answers it with its lists sorted and without
// repetitions. ErrPolicy.
func (p Policy) normal() (Policy, error) {
	for _, list := range []*[]syntax.NSID{&p.Collections, &p.CreateOnly} {
		if len(*list) > maxPolicyCollections {
			return Policy{}, fmt.Errorf("%w: it lists %d collections; list at most %d", ErrPolicy, len(*list), maxPolicyCollections)
		}
		*list = slices.Clone(*list) // which keeps an empty list one
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if len(p.CreateOnly) == 0 {
		p.CreateOnly = nil
	}
	for _, bound := range []struct {
		name   string
		number *int64
		least  int64
	}{
		{"maxRecords", p.MaxRecords, 0}, {"maxBlobBytes", p.MaxBlobBytes, 0},
		{"writesPerHour", p.WritesPerHour, 1}, {"writesPerDay", p.WritesPerDay, 1},
	} {
		if n := bound.number; n != nil && (*n < bound.least || *n >= maxPolicyNumber) {
			return Policy{}, fmt.Errorf("%w: %s is %d; send a number from %d, or leave it out", ErrPolicy, bound.name, *n, bound.least)
		}
	}
	return p, nil
}

type policyRow struct {
	DID           string `gorm:"column:did;primaryKey"`
	Collections   *string
	CreateOnly    *string
	MaxRecords    *int64
	MaxBlobBytes  *int64
	WritesPerHour *int64
	WritesPerDay  *int64
	ChangedAt     string
}

func (policyRow) TableName() string { return "account_policies" }

func (r policyRow) policy() (Policy, error) {
	p := Policy{MaxRecords: r.MaxRecords, MaxBlobBytes: r.MaxBlobBytes, WritesPerHour: r.WritesPerHour, WritesPerDay: r.WritesPerDay}
	for _, list := range []struct {
		to   *[]syntax.NSID
		text *string
	}{{&p.Collections, r.Collections}, {&p.CreateOnly, r.CreateOnly}} {
		if list.text == nil {
			continue
		}
		if err := json.Unmarshal([]byte(*list.text), list.to); err != nil {
			return Policy{}, fmt.Errorf("policy of %s: %w", r.DID, err)
		}
	}
	return p, nil
}

// Policy answers what the account may write: the zero Policy when the operator
// has set none, also for a DID that has no account here. It comes from memory
// as Get does, so a change on another replica is obeyed within staleAfter. The
// lists of the answer are shared: they are not to be changed.
func (s *Store) Policy(ctx context.Context, did syntax.DID) (Policy, error) {
	if s.ended.fresh() {
		if p, ok := s.cache.policies.Get(did); ok {
			return p, nil
		}
	}
	generation := s.cache.generation()
	var rows []policyRow
	if err := s.cfg.DB.Read.WithContext(ctx).Where("did = ?", string(did)).Limit(1).Find(&rows).Error; err != nil {
		return Policy{}, fmt.Errorf("read policy of %s: %w", did, err)
	}
	var p Policy
	if len(rows) > 0 {
		var err error
		if p, err = rows[0].policy(); err != nil {
			return Policy{}, err
		}
	}
	addAs(s.cache, s.cache.policies, did, p, generation)
	return p, nil
}

// SetPolicy replaces what the account may write; the zero Policy takes every
// restriction away. What the account holds already stays, even over a quota.
// ErrPolicy, ErrNotFound.
func (s *Store) SetPolicy(ctx context.Context, did syntax.DID, p Policy) error {
	err := s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error { return s.SetPolicyTx(ctx, tx, did, p) })
	if err == nil {
		s.Forget(did)
	}
	return err
}

// SetPolicyTx is SetPolicy inside the caller's transaction (tx), after whose
// commit the caller calls Forget.
func (s *Store) SetPolicyTx(ctx context.Context, tx *gorm.DB, did syntax.DID, p Policy) error {
	p, err := p.normal()
	if err != nil {
		return err
	}
	row := policyRow{
		DID: string(did), ChangedAt: s.nowText(),
		MaxRecords: p.MaxRecords, MaxBlobBytes: p.MaxBlobBytes, WritesPerHour: p.WritesPerHour, WritesPerDay: p.WritesPerDay,
	}
	if row.Collections, err = listColumn(p.Collections); err == nil {
		row.CreateOnly, err = listColumn(p.CreateOnly)
	}
	if err != nil {
		return fmt.Errorf("set policy of %s: %w", did, err)
	}
	// The account's row is what other replicas look at for changes.
	if _, err := s.change(ctx, tx, did, map[string]any{}); err != nil {
		return fmt.Errorf("set policy: %w", err)
	}
	if err := tx.WithContext(ctx).Save(&row).Error; err != nil {
		return fmt.Errorf("set policy of %s: %w", did, err)
	}
	return nil
}

// listColumn is the column of a list that may be absent.
func listColumn(list []syntax.NSID) (*string, error) {
	if list == nil {
		return nil, nil
	}
	raw, err := json.Marshal(list)
	text := string(raw)
	return &text, err
}
