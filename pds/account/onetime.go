package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"herbarium.garden/migrations"
)

// Purpose says what one step a one-time token confirms.
type Purpose string

// The purposes of one-time tokens.
const (
	SigningPLC        Purpose = "plc_operation"  // signing a did:plc operation with this host's rotation key
	DeletingAccount   Purpose = "delete_account" // deleting the account
	ResettingPassword Purpose = "reset_password" // setting a password without the old one
)

// OneTimeLifetime is how long a one-time token is good for, as at the
// reference PDS.
const OneTimeLifetime = 15 * time.Minute

const oneTimeBytes = 10 // 80 random bits: a plain hash keeps them

// OneTimeToken is a token that was asked for and not used yet.
type OneTimeToken struct {
	DID       syntax.DID
	Handle    syntax.Handle
	Purpose   Purpose
	Token     string // whoever has it may take the step
	CreatedAt time.Time
	ExpiresAt time.Time
}

type oneTimeRow struct {
	DID       string `gorm:"column:did;primaryKey"`
	Purpose   string `gorm:"primaryKey"`
	Hash      []byte
	Wrapped   []byte
	CreatedAt string
	ExpiresAt string
}

func (oneTimeRow) TableName() string { return "one_time_tokens" }

func hashOneTime(purpose Purpose, token string) []byte {
	sum := sha256.Sum256([]byte(string(purpose) + "\x00" + strings.ToLower(strings.TrimSpace(token))))
	return sum[:]
}

// wrapAs binds the envelope of a token to its purpose, apart from that of any key.
func wrapAs(purpose Purpose) string { return "one-time " + string(purpose) }

// RequestToken makes the one-time token of an account for a purpose; an older
// one is no good from then on, but for that of a password, which stays until its
// time is over. It is not answered: the operator hands it over
// (PendingTokens), who knows whom they hand it to.
func (s *Store) RequestToken(ctx context.Context, did syntax.DID, purpose Purpose) error {
	token, err := s.grouped(oneTimeBytes, 8)
	if err != nil {
		return fmt.Errorf("make %s token: %w", purpose, err)
	}
	wrapped, err := s.keyring.wrap(wrapAs(purpose), string(did), []byte(token))
	if err != nil {
		return fmt.Errorf("make %s token: %w", purpose, err)
	}
	row := oneTimeRow{
		DID: string(did), Purpose: string(purpose), Hash: hashOneTime(purpose, token), Wrapped: wrapped,
		CreatedAt: s.nowText(), ExpiresAt: migrations.FormatTime(s.cfg.Now().Add(OneTimeLifetime)),
	}
	replaces := clause.OnConflict{Columns: []clause.Column{{Name: "did"}, {Name: "purpose"}}, UpdateAll: true}
	if purpose == ResettingPassword {
		// Anybody may ask for this one, and nobody may take away by it what the
		// owner was handed.
		replaces.Where = clause.Where{Exprs: []clause.Expression{clause.Expr{SQL: "one_time_tokens.expires_at <= ?", Vars: []any{row.CreatedAt}}}}
	}
	err = s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error { return tx.Clauses(replaces).Create(&row).Error })
	if err != nil {
		return fmt.Errorf("make %s token of %s: %w", purpose, did, err)
	}
	return nil
}

// nobody has the tokens that were asked for in the name of no account.
const nobody syntax.DID = ""

// RequestReset makes a token to reset the password of whom identifier (a
// handle, DID or e-mail address) names. The same is done when it names
// nobody, with a token that is no good for anything: neither the answer nor
// the time that it takes tells which.
func (s *Store) RequestReset(ctx context.Context, identifier string) error {
	row, err := s.findByIdentifier(ctx, identifier)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return s.RequestToken(ctx, syntax.DID(row.DID), ResettingPassword)
}

// SpendTokenTx uses a one-time token up, inside the caller's transaction (tx):
// rolled back, it is as good as before. ErrTokenInvalid, and ErrTokenExpired
// for the right one too late.
func (s *Store) SpendTokenTx(ctx context.Context, tx *gorm.DB, did syntax.DID, purpose Purpose, token string) error {
	if did == nobody {
		return fmt.Errorf("%s token: %w", purpose, ErrTokenInvalid)
	}
	var expires []string
	err := tx.WithContext(ctx).Raw("DELETE FROM one_time_tokens WHERE did = ? AND purpose = ? AND hash = ? RETURNING expires_at",
		string(did), string(purpose), hashOneTime(purpose, token)).Scan(&expires).Error
	switch {
	case err != nil:
		return fmt.Errorf("spend %s token of %s: %w", purpose, did, err)
	case len(expires) == 0:
		return fmt.Errorf("%s token of %s: %w", purpose, did, ErrTokenInvalid)
	case expires[0] <= s.nowText():
		return fmt.Errorf("%s token of %s: %w", purpose, did, ErrTokenExpired)
	}
	return nil
}

// PendingTokens lists at most limit (1 to 1000) tokens that are still good, in
// the order of their making, with their text: for the operator, who takes the
// place of a mail. The caller audits that they were looked at.
func (s *Store) PendingTokens(ctx context.Context, after Position, limit int) (Page[OneTimeToken], error) {
	limit = clampLimit(limit)
	var rows []struct {
		DID                  string `gorm:"column:did"`
		Handle               *string
		Purpose              string
		Wrapped              []byte
		CreatedAt, ExpiresAt string
	}
	did, purpose, _ := strings.Cut(after.Key, " ")
	err := s.cfg.DB.Read.WithContext(ctx).Raw(`SELECT t.did, a.handle, t.purpose, t.wrapped, t.created_at, t.expires_at FROM one_time_tokens t JOIN accounts a ON a.did = t.did
		WHERE (t.created_at, t.did, t.purpose) > (?, ?, ?) AND t.expires_at > ? ORDER BY t.created_at, t.did, t.purpose LIMIT ?`,
		after.text(), did, purpose, s.nowText(), limit+1).Scan(&rows).Error
	if err != nil {
		return Page[OneTimeToken]{}, fmt.Errorf("list one-time tokens: %w", err)
	}
	tokens := make([]OneTimeToken, len(rows))
	for i, row := range rows {
		text, err := s.keyring.unwrap(wrapAs(Purpose(row.Purpose)), row.DID, row.Wrapped)
		if err != nil {
			return Page[OneTimeToken]{}, err
		}
		tokens[i] = OneTimeToken{DID: syntax.DID(row.DID), Handle: syntax.Handle(value(row.Handle)), Purpose: Purpose(row.Purpose), Token: string(text)}
		if tokens[i].CreatedAt, err = migrations.ParseTime(row.CreatedAt); err != nil {
			return Page[OneTimeToken]{}, err
		}
		if tokens[i].ExpiresAt, err = migrations.ParseTime(row.ExpiresAt); err != nil {
			return Page[OneTimeToken]{}, err
		}
	}
	return page(tokens, limit, func(t OneTimeToken) Position {
		return Position{At: t.CreatedAt, Key: string(t.DID) + " " + string(t.Purpose)}
	}), nil
}

// ConfirmPassword compares with the account's main password; app passwords
// are refused. ErrCredentials is the one answer to an unknown account, one
// without a password and a wrong password, after the same work.
func (s *Store) ConfirmPassword(ctx context.Context, did syntax.DID, password string) error {
	row, err := find(ctx, s.cfg.DB.Read, "did = ? AND deleted_at IS NULL", string(did))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	ok, _, err := s.hasher.verify(ctx, value(row.Password), password)
	if err != nil {
		return fmt.Errorf("check password: %w", err)
	}
	if !ok {
		return ErrCredentials
	}
	return nil
}

// ResetPassword sets a new password by a token for that, and ends every
// session of its account. A password that is refused leaves the token good.
// ErrTokenInvalid, ErrTokenExpired, ErrPasswordUnfit.
func (s *Store) ResetPassword(ctx context.Context, token, password string) error {
	var dids []string
	err := s.cfg.DB.Read.WithContext(ctx).Raw("SELECT did FROM one_time_tokens WHERE hash = ?", hashOneTime(ResettingPassword, token)).Scan(&dids).Error
	if err != nil {
		return fmt.Errorf("find reset_password token: %w", err)
	}
	if len(dids) == 0 {
		return fmt.Errorf("reset password: %w", ErrTokenInvalid)
	}
	return s.setPassword(ctx, syntax.DID(dids[0]), password, func(tx *gorm.DB) error {
		return s.SpendTokenTx(ctx, tx, syntax.DID(dids[0]), ResettingPassword, token)
	})
}

// DeletionsDue lists at most limit (1 to 1000) accounts whose owner announced
// their deletion with the deactivation, for a time that has come.
func (s *Store) DeletionsDue(ctx context.Context, limit int) ([]syntax.DID, error) {
	var dids []syntax.DID
	err := s.cfg.DB.Read.WithContext(ctx).Raw("SELECT did FROM accounts WHERE delete_after <= ? AND deleted_at IS NULL ORDER BY delete_after LIMIT ?",
		s.nowText(), clampLimit(limit)).Scan(&dids).Error
	if err != nil {
		return nil, fmt.Errorf("list deletions due: %w", err)
	}
	return dids, nil
}

// StillDueTx locks an account whose deletion is due, inside the caller's
// transaction (tx): its owner may have come back meanwhile. ErrStatus.
func (s *Store) StillDueTx(ctx context.Context, tx *gorm.DB, did syntax.DID) error {
	now := s.nowText()
	locked := tx.WithContext(ctx).Exec("UPDATE accounts SET changed_at = ? WHERE did = ? AND delete_after <= ? AND deleted_at IS NULL", now, string(did), now)
	if locked.Error != nil {
		return fmt.Errorf("delete %s: %w", did, locked.Error)
	}
	if locked.RowsAffected == 0 {
		return fmt.Errorf("delete %s: its deletion is not due any more: %w", did, ErrStatus)
	}
	return nil
}
