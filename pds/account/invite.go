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
// InvitesForAdmin, createdBy who asked.
func (s *Store) CreateInvites(ctx context.Context, n, uses int, forAccount, createdBy string) ([]Invite, error) {
	if n < 1 || n > 500 || uses < 1 || uses > 100_000 {
		return nil, ErrInviteCount
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

// ListInvites lists at most limit (1 to 1000) codes in the order of creation.
func (s *Store) ListInvites(ctx context.Context, after Position, limit int) (Page[Invite], error) {
	limit = clampLimit(limit)
	var rows []inviteRow
	err := s.cfg.DB.Read.WithContext(ctx).Where("(created_at, code) > (?, ?)", after.text(), after.Key).
		Order("created_at, code").Limit(limit + 1).Find(&rows).Error
	if err != nil {
		return Page[Invite]{}, fmt.Errorf("list invites: %w", err)
	}
	invites := make([]Invite, len(rows))
	for i, row := range rows {
		if invites[i], err = row.invite(); err != nil {
			return Page[Invite]{}, fmt.Errorf("list invites: %w", err)
		}
	}
	return page(invites, limit, func(i Invite) Position { return Position{At: i.CreatedAt, Key: i.Code} }), nil
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
