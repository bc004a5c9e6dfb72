package account

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// Invite is an invite code.
type Invite struct {
	Code       string
	ForAccount string // a DID, or "admin"
	CreatedBy  string
	CreatedAt  time.Time
	Uses       int // as created
	UsesLeft   int
	Disabled   bool
	UsedBy     []InviteUse // the first of them; see maxListedUses
}

// InviteUse is one account that was made with a code.
type InviteUse struct {
	DID syntax.DID
	At  time.Time
}

type inviteRow struct {
	Code       string `gorm:"primaryKey"`
	ForAccount string
	CreatedBy  string
	CreatedAt  string
	Uses       int
	UsesLeft   int
	DisabledAt *string
}

func (inviteRow) TableName() string { return "invites" }

func (r inviteRow) invite() (Invite, error) {
	created, err := migrations.ParseTime(r.CreatedAt)
	return Invite{Code: r.Code, ForAccount: r.ForAccount, CreatedBy: r.CreatedBy, CreatedAt: created,
		Uses: r.Uses, UsesLeft: r.UsesLeft, Disabled: r.DisabledAt != nil}, err
}

// InvitesForAdmin is Invite.ForAccount of codes that no account was given.
const InvitesForAdmin = "admin"

// CreateInvites makes n codes of so many uses each. forAccount is a DID or
// InvitesForAdmin, createdBy who asked. ErrInvitesDisabled for an account that
// gets none.
func (s *Store) CreateInvites(ctx context.Context, n, uses int, forAccount, createdBy string) ([]Invite, error) {
	if n < 1 || n > 500 || uses < 1 || uses > 100_000 {
		return nil, ErrInviteCount
	}
	if refused, err := exists(ctx, s.cfg.DB.Read, "accounts", "did = ? AND invites_disabled_at IS NOT NULL", forAccount); err != nil || refused {
		if refused {
			err = ErrInvitesDisabled
		}
		return nil, err
	}
	// As the reference PDS writes them: the host's name, then 50 random bits.
	prefix := strings.ReplaceAll(s.cfg.PublicURL.Hostname(), ".", "-")
	rows, invites := make([]inviteRow, n), make([]Invite, n)
	for i := range rows {
		code, err := s.grouped(7, 5)
		if err != nil {
			return nil, err
		}
		rows[i] = inviteRow{Code: prefix + "-" + code[:11], ForAccount: forAccount, CreatedBy: createdBy, CreatedAt: s.nowText(), Uses: uses, UsesLeft: uses}
		if invites[i], err = rows[i].invite(); err != nil {
			return nil, err
		}
	}
	if err := s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error { return tx.Create(&rows).Error }); err != nil {
		return nil, fmt.Errorf("create invites: %w", err)
	}
	return invites, nil
}

// InviteOrder is an order of ListInvites.
type InviteOrder string

// The orders of invites.
const (
	InvitesRecent InviteOrder = "recent" // the newest first
	InvitesUsage  InviteOrder = "usage"  // the most used first
)

// ListInvites lists at most limit (1 to 1000) codes that come after one of the
// list (nil: from the beginning), of which Code, CreatedAt, Uses and UsesLeft
// are looked at.
func (s *Store) ListInvites(ctx context.Context, order InviteOrder, after *Invite, limit int) ([]Invite, error) {
	list := s.cfg.DB.Read.WithContext(ctx).Limit(clampLimit(limit))
	switch order {
	case InvitesUsage:
		list = list.Order("(uses - uses_left) DESC, code DESC")
		if after != nil {
			list = list.Where("((uses - uses_left), code) < (?, ?)", after.Uses-after.UsesLeft, after.Code)
		}
	default:
		list = list.Order("created_at DESC, code DESC")
		if after != nil {
			list = list.Where("(created_at, code) < (?, ?)", migrations.FormatTime(after.CreatedAt), after.Code)
		}
	}
	return s.invites(ctx, list)
}

// InvitesOf lists the codes that an account was given, the newest first, 1000
// at most.
func (s *Store) InvitesOf(ctx context.Context, did syntax.DID) ([]Invite, error) {
	return s.invites(ctx, s.cfg.DB.Read.WithContext(ctx).Where("for_account = ?", string(did)).Order("created_at DESC, code DESC").Limit(maxPage))
}

// InvitedBy answers the code that an account was made with, nil when there was
// none.
func (s *Store) InvitedBy(ctx context.Context, did syntax.DID) (*Invite, error) {
	invites, err := s.invites(ctx, s.cfg.DB.Read.WithContext(ctx).
		Where("code IN (SELECT code FROM invite_uses WHERE did = ?)", string(did)).Order("code").Limit(1))
	if err != nil || len(invites) == 0 {
		return nil, err
	}
	return &invites[0], nil
}

// maxListedUses bounds the uses that one list of invites carries.
const maxListedUses = 10_000

// invites reads a list of codes and who used them.
func (s *Store) invites(ctx context.Context, list *gorm.DB) ([]Invite, error) {
	var rows []inviteRow
	if err := list.Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list invites: %w", err)
	}
	invites, codes := make([]Invite, len(rows)), make([]string, len(rows))
	at := make(map[string]int, len(rows))
	for i, row := range rows {
		var err error
		if invites[i], err = row.invite(); err != nil {
			return nil, fmt.Errorf("list invites: %w", err)
		}
		codes[i], at[row.Code] = row.Code, i
	}
	if len(codes) == 0 {
		return nil, nil
	}
	var uses []struct {
		Code   string
		DID    string `gorm:"column:did"`
		UsedAt string
	}
	err := s.cfg.DB.Read.WithContext(ctx).
		Raw("SELECT code, did, used_at FROM invite_uses WHERE code IN ? ORDER BY code, did LIMIT ?", codes, maxListedUses).Scan(&uses).Error
	if err != nil {
		return nil, fmt.Errorf("list uses of invites: %w", err)
	}
	for _, use := range uses {
		when, err := migrations.ParseTime(use.UsedAt)
		if err != nil {
			return nil, fmt.Errorf("list uses of invites: %w", err)
		}
		to := &invites[at[use.Code]]
		to.UsedBy = append(to.UsedBy, InviteUse{DID: syntax.DID(use.DID), At: when})
	}
	return invites, nil
}

// SetInvitesDisabled says whether an account may be given new codes, and why
// not; those that it has still serve. ErrNotFound.
func (s *Store) SetInvitesDisabled(ctx context.Context, did syntax.DID, disabled bool, note string) error {
	var since *string
	if disabled {
		now := s.nowText()
		since = &now
	}
	err := s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		_, err := s.change(ctx, tx, did, map[string]any{"invites_disabled_at": since, "invite_note": optional(storable(note))})
		return err
	})
	if err != nil {
		return fmt.Errorf("set invites of %s: %w", did, err)
	}
	s.Forget(did)
	return nil
}

// DisableInvites disables codes, and all codes of the accounts.
func (s *Store) DisableInvites(ctx context.Context, codes, forAccounts []string) error {
	err := s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE invites SET disabled_at = ? WHERE disabled_at IS NULL AND (code IN ? OR for_account IN ?)",
			s.nowText(), orNone(codes), orNone(forAccounts)).Error
	})
	if err != nil {
		return fmt.Errorf("disable invites: %w", err)
	}
	return nil
}

// orNone drops what cannot be in a column and stands in for an empty list,
// which SQL's IN does not take.
func orNone(list []string) []string {
	out := []string{""}
	for _, item := range list {
		if printableName(item) {
			out = append(out, item)
		}
	}
	return out
}

// inviteForm holds off what Postgres would not take as text, such as NUL.
var inviteForm = regexp.MustCompile(`^[a-z0-9-]{1,253}$`)

// inviteUsable is the early answer; useInvite decides.
func (s *Store) inviteUsable(ctx context.Context, code string) error {
	if !inviteForm.MatchString(code) {
		return ErrInvite
	}
	ok, err := exists(ctx, s.cfg.DB.Read, "invites", "code = ? AND disabled_at IS NULL AND uses_left > 0", code)
	if err == nil && !ok {
		err = ErrInvite
	}
	return err
}

// useInvite takes one use, inside the caller's transaction (tx).
func (s *Store) useInvite(tx *gorm.DB, code string, did syntax.DID) error {
	taken := tx.Exec("UPDATE invites SET uses_left = uses_left - 1 WHERE code = ? AND disabled_at IS NULL AND uses_left > 0", code)
	if taken.Error != nil {
		return taken.Error
	}
	if taken.RowsAffected == 0 {
		return ErrInvite
	}
	return tx.Exec("INSERT INTO invite_uses (code, did, used_at) VALUES (?, ?, ?)", code, string(did), s.nowText()).Error
}
