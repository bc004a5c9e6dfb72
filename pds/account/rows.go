package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

type accountRow struct {
	DID            string `gorm:"column:did;primaryKey"`
	Handle         *string
	Identity       string
	Email          *string
	EmailConfirmed *string
	Password       *string
	PasswordSetAt  *string
	CreatedAt      string
	ChangedAt      string
	DeactivatedAt  *string
	DeleteAfter    *string
	SuspendedAt    *string
	TakendownAt    *string
	TakedownRef    *string
	DeletedAt      *string

	InvitesDisabledAt *string
	InviteNote        *string
	ExpiresAt         *string
	DisabledAt        *string
	Held              int
}

func (accountRow) TableName() string { return "accounts" }

func (r accountRow) status() Status {
	switch {
	case r.DeletedAt != nil:
		return Deleted
	case r.TakendownAt != nil:
		return TakenDown
	case r.SuspendedAt != nil:
		return Suspended
	case r.DeactivatedAt != nil:
		return Deactivated
	}
	return Active
}

func (r accountRow) account() (Account, error) {
	a := Account{
		DID: syntax.DID(r.DID), Handle: syntax.HandleInvalid, Identity: IdentityKind(r.Identity),
		HasPassword: r.Password != nil, Status: r.status(), Email: value(r.Email), TakedownRef: value(r.TakedownRef),
		InvitesDisabled: r.InvitesDisabledAt != nil, InviteNote: value(r.InviteNote),
	}
	if r.Handle != nil {
		a.Handle = syntax.Handle(*r.Handle)
	}
	var err error
	if a.CreatedAt, err = migrations.ParseTime(r.CreatedAt); err != nil {
		return Account{}, fmt.Errorf("account %s: %w", r.DID, err)
	}
	for _, moment := range []struct {
		to   **time.Time
		text *string
	}{
		{&a.EmailConfirmed, r.EmailConfirmed}, {&a.DeactivatedAt, r.DeactivatedAt}, {&a.DeleteAfter, r.DeleteAfter},
		{&a.TakenDownAt, r.TakendownAt}, {&a.DeletedAt, r.DeletedAt}, {&a.ExpiresAt, r.ExpiresAt}, {&a.DisabledAt, r.DisabledAt},
	} {
		if *moment.to, err = maybeTime(moment.text); err != nil {
			return Account{}, fmt.Errorf("account %s: %w", r.DID, err)
		}
	}
	return a, nil
}

// find answers one account row by a condition on it, ErrNotFound if there is none.
func find(ctx context.Context, db *gorm.DB, condition string, args ...any) (accountRow, error) {
	var row accountRow
	err := db.WithContext(ctx).Where(condition, args...).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return accountRow{}, ErrNotFound
	}
	if err != nil {
		return accountRow{}, fmt.Errorf("find account: %w", err)
	}
	return row, nil
}

// exists reports whether a table has a row.
func exists(ctx context.Context, db *gorm.DB, table, condition string, args ...any) (bool, error) {
	var one []int
	err := db.WithContext(ctx).Table(table).Select("1").Where(condition, args...).Limit(1).Scan(&one).Error
	if err != nil {
		return false, fmt.Errorf("look into %s: %w", table, err)
	}
	return len(one) > 0, nil
}

// page cuts a list that was read with one row more than asked for.
func page[T any](items []T, limit int, position func(T) Position) Page[T] {
	if len(items) <= limit {
		return Page[T]{Items: items}
	}
	return Page[T]{Items: items[:limit], Next: position(items[limit-1])}
}

func clampLimit(limit int) int { return min(max(limit, 1), maxPage) }

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// optional is the column of a text that may be absent.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func maybeTime(s *string) (*time.Time, error) {
	if s == nil {
		return nil, nil
	}
	t, err := migrations.ParseTime(*s)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// GetTx answers an account as the caller's transaction (tx) sees it, past what
// is remembered; ErrNotFound.
func (s *Store) GetTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Account, error) {
	row, err := find(ctx, tx.WithContext(ctx), "did = ?", string(did))
	if err != nil {
		return Account{}, err
	}
	return row.account()
}

// Get answers the account of a DID, deleted ones included. It comes from
// memory while Run keeps that fresh.
func (s *Store) Get(ctx context.Context, did syntax.DID) (Account, error) {
	if s.ended.fresh() {
		if a, ok := s.cache.accounts.Get(did); ok {
			return a, nil
		}
	}
	generation := s.cache.generation()
	row, err := find(ctx, s.cfg.DB.Read, "did = ?", string(did))
	if err != nil {
		return Account{}, err
	}
	a, err := row.account()
	if err != nil {
		return Account{}, err
	}
	addAs(s.cache, s.cache.accounts, did, a, generation)
	return a, nil
}

// GetByHandle answers the account that has the handle now, whatever its
// status.
func (s *Store) GetByHandle(ctx context.Context, handle syntax.Handle) (Account, error) {
	row, err := find(ctx, s.cfg.DB.Read, "handle = ?", handle.Normalize().String())
	if err != nil {
		return Account{}, err
	}
	return row.account()
}

// ResolveHandle answers the DID of an active account with a handle under a
// domain of this host, or of one that moved away and keeps it: that of a
// deactivated or taken down one does not resolve, and whose a handle under another domain is, DNS says and not our
// rows. ErrNotFound otherwise.
func (s *Store) ResolveHandle(ctx context.Context, handle syntax.Handle) (syntax.DID, error) {
	if !s.OwnsDomain(handle) {
		return "", ErrNotFound
	}
	return s.activeDID(ctx, handle)
}

func (s *Store) activeDID(ctx context.Context, handle syntax.Handle) (syntax.DID, error) {
	a, err := s.GetByHandle(ctx, handle)
	if err != nil {
		return "", err
	}
	if a.Active() {
		return a.DID, nil
	}
	if a.Status == Deactivated && a.Identity == Web {
		moved, err := s.movedAway(ctx, a.DID)
		if err != nil || moved {
			return a.DID, err
		}
	}
	return "", ErrNotFound
}

// List answers at most limit (1 to 1000) accounts in the order of creation,
// deleted ones left out.
func (s *Store) List(ctx context.Context, after Position, limit int) (Page[Account], error) {
	limit = clampLimit(limit)
	var rows []accountRow
	err := s.cfg.DB.Read.WithContext(ctx).
		Where("(created_at, did) > (?, ?) AND deleted_at IS NULL", after.text(), after.Key).
		Order("created_at, did").Limit(limit + 1).Find(&rows).Error
	if err != nil {
		return Page[Account]{}, fmt.Errorf("list accounts: %w", err)
	}
	accounts := make([]Account, len(rows))
	for i, row := range rows {
		if accounts[i], err = row.account(); err != nil {
			return Page[Account]{}, err
		}
	}
	return page(accounts, limit, func(a Account) Position { return Position{At: a.CreatedAt, Key: string(a.DID)} }), nil
}

func (p Position) text() string {
	if p.At.IsZero() {
		return ""
	}
	return migrations.FormatTime(p.At)
}
