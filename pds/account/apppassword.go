package account

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"herbarium.garden/migrations"
)

// AppPassword describes an app password; the password itself is shown once.
type AppPassword struct {
	Name      string // of the app passwords that an account has, no two have the same
	Scope     Scope  // of the sessions that it opens; never ScopeAccess
	CreatedAt time.Time
	Expires   *time.Time // nil: never. Sessions that it opened end then too
	LastUsed  *time.Time // last sign-in or refresh; nil before the first
}

// AppPasswordParams are what is asked for of a new app password.
type AppPasswordParams struct {
	Name    string     // 1 to 128 bytes
	Scope   Scope      // ScopeAppPass (when left out), ScopeAppPassPrivileged or permissions
	Expires *time.Time // nil: never
}

type appPasswordRow struct {
	DID        string `gorm:"column:did;primaryKey"`
	Name       string `gorm:"primaryKey"`
	Hash       []byte
	Scope      string
	CreatedAt  string
	ExpiresAt  *string
	LastUsedAt *string
}

func (appPasswordRow) TableName() string { return "app_passwords" }

// use notes inside the caller's transaction (tx) that somebody signs in, and
// holds the password as it is until the commit. ErrCredentials if it was taken
// away or renewed since it was found.
func (r appPasswordRow) use(tx *gorm.DB, now string) error {
	used := tx.Exec("UPDATE app_passwords SET last_used_at = ? WHERE did = ? AND name = ? AND hash = ?", now, r.DID, r.Name, r.Hash)
	if used.Error == nil && used.RowsAffected == 0 {
		return ErrCredentials
	}
	return used.Error
}

// An app password is 80 random bits, so a plain hash of it is enough: there is
// nothing to guess, and an agent's sign-in costs no argon2id.
var (
	appPasswordForm = regexp.MustCompile(`^[a-z2-7]{4}(-[a-z2-7]{4}){3}$`)
	lowerBase32     = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
)

const (
	appPasswordBytes = 10
	maxAppPasswords  = 100 // per account
	maxNameLength    = 128 // bytes
)

func looksLikeAppPassword(s string) bool { return appPasswordForm.MatchString(s) }

func hashAppPassword(did syntax.DID, password string) []byte {
	sum := sha256.Sum256([]byte(string(did) + "\x00" + password))
	return sum[:]
}

// grouped writes random bytes as groups of so many base32 characters.
func (s *Store) grouped(bytes, group int) (string, error) {
	raw := make([]byte, bytes)
	if _, err := io.ReadFull(s.cfg.Rand, raw); err != nil {
		return "", fmt.Errorf("random code: %w", err)
	}
	text := lowerBase32.EncodeToString(raw)
	var groups []string
	for ; len(text) > group; text = text[group:] {
		groups = append(groups, text[:group])
	}
	return strings.Join(append(groups, text), "-"), nil
}

// printableName is what may be a name in the database: Postgres refuses NUL
// and bytes that are not UTF-8.
func printableName(s string) bool {
	return s != "" && len(s) <= 2048 && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// CreateAppPassword makes an app password and answers it, this once. ErrScope
// and ErrExpiry for what it is not to be, ErrNameTaken, ErrTooMany.
func (s *Store) CreateAppPassword(ctx context.Context, did syntax.DID, params AppPasswordParams) (app AppPassword, password string, err error) {
	err = s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		app, password, err = s.CreateAppPasswordTx(ctx, tx, did, params)
		return err
	})
	if err != nil {
		return AppPassword{}, "", err
	}
	return app, password, nil
}

// CreateAppPasswordTx is CreateAppPassword inside the caller's transaction (tx).
func (s *Store) CreateAppPasswordTx(ctx context.Context, tx *gorm.DB, did syntax.DID, params AppPasswordParams) (AppPassword, string, error) {
	if len(params.Name) > maxNameLength || !printableName(params.Name) {
		return AppPassword{}, "", ErrNameInvalid
	}
	scope, err := params.Scope.forCredential()
	if err != nil {
		return AppPassword{}, "", err
	}
	expires, err := s.expiry(params.Expires)
	if err != nil {
		return AppPassword{}, "", err
	}
	password, err := s.grouped(appPasswordBytes, 4)
	if err != nil {
		return AppPassword{}, "", err
	}
	row := appPasswordRow{DID: string(did), Name: params.Name, Hash: hashAppPassword(did, password), Scope: string(scope), CreatedAt: s.nowText(), ExpiresAt: expires}
	if err := row.insert(ctx, tx.WithContext(ctx)); err != nil {
		return AppPassword{}, "", fmt.Errorf("create app password of %s: %w", did, err)
	}
	app, err := row.appPassword()
	return app, password, err
}

func (r *appPasswordRow) insert(ctx context.Context, tx *gorm.DB) error {
	if alive, err := exists(ctx, tx, "accounts", "did = ? AND deleted_at IS NULL", r.DID); err != nil || !alive {
		return errors.Join(err, ErrNotFound)
	}
	var count int64
	if err := tx.Model(&appPasswordRow{}).Where("did = ?", r.DID).Count(&count).Error; err != nil {
		return err
	}
	if count >= maxAppPasswords {
		return ErrTooMany
	}
	created := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(r)
	if created.Error == nil && created.RowsAffected == 0 {
		return ErrNameTaken
	}
	return created.Error
}

// RotateAppPassword makes another secret for an app password, answers it, this
// once, and ends the sessions that the old one opened. expires, unless nil,
// replaces its expiry; without a new one ErrExpiry for a password whose time is
// over. ErrNoCredential if the account has none of the name.
func (s *Store) RotateAppPassword(ctx context.Context, did syntax.DID, name string, expires *time.Time) (AppPassword, string, error) {
	until, err := s.expiry(expires)
	if err != nil {
		return AppPassword{}, "", err
	}
	password, err := s.grouped(appPasswordBytes, 4)
	if err != nil {
		return AppPassword{}, "", err
	}
	var row appPasswordRow
	err = s.endSessions(ctx, func(tx *gorm.DB) error {
		row = appPasswordRow{}
		if !printableName(name) {
			return ErrNoCredential
		}
		renewed := tx.Raw(`UPDATE app_passwords SET hash = ?, created_at = ?, last_used_at = NULL, expires_at = COALESCE(?, expires_at)
			WHERE did = ? AND name = ? RETURNING *`, hashAppPassword(did, password), s.nowText(), until, string(did), name).Scan(&row)
		switch {
		case renewed.Error != nil:
			return renewed.Error
		case row.Name == "":
			return ErrNoCredential
		case over(row.ExpiresAt, s.nowText()):
			return ErrExpiry
		}
		return nil
	}, "did = ? AND app_password = ?", string(did), name)
	if err != nil {
		return AppPassword{}, "", fmt.Errorf("rotate app password of %s: %w", did, err)
	}
	app, err := row.appPassword()
	return app, password, err
}

// expiry is the column of an expiry, which must be ahead.
func (s *Store) expiry(at *time.Time) (*string, error) {
	if at == nil {
		return nil, nil
	}
	text := migrations.FormatTime(*at)
	if text <= s.nowText() || at.UTC().Year() > 9999 {
		return nil, ErrExpiry
	}
	return &text, nil
}

// over reports whether an expiry has come.
func over(expiresAt *string, now string) bool { return expiresAt != nil && *expiresAt <= now }

func (r appPasswordRow) appPassword() (AppPassword, error) {
	a := AppPassword{Name: r.Name, Scope: Scope(r.Scope)}
	var err error
	if a.CreatedAt, err = migrations.ParseTime(r.CreatedAt); err != nil {
		return AppPassword{}, err
	}
	if a.Expires, err = maybeTime(r.ExpiresAt); err != nil {
		return AppPassword{}, err
	}
	a.LastUsed, err = maybeTime(r.LastUsedAt)
	return a, err
}

// ListAppPasswords lists the app passwords of an account, 100 at most, by name.
func (s *Store) ListAppPasswords(ctx context.Context, did syntax.DID) ([]AppPassword, error) {
	var rows []appPasswordRow
	err := s.cfg.DB.Read.WithContext(ctx).Where("did = ?", string(did)).Order("name").Limit(maxAppPasswords).Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list app passwords of %s: %w", did, err)
	}
	out := make([]AppPassword, len(rows))
	for i, row := range rows {
		if out[i], err = row.appPassword(); err != nil {
			return nil, fmt.Errorf("list app passwords of %s: %w", did, err)
		}
	}
	return out, nil
}

// RevokeAppPassword removes an app password and ends the sessions that it
// opened. That there is none of the name is no error.
func (s *Store) RevokeAppPassword(ctx context.Context, did syntax.DID, name string) error {
	if !printableName(name) {
		return nil
	}
	return s.endSessions(ctx, func(tx *gorm.DB) error {
		return tx.Exec("DELETE FROM app_passwords WHERE did = ? AND name = ?", string(did), name).Error
	}, "did = ? AND app_password = ?", string(did), name)
}

// findAppPassword answers nil if the password is none of the account's. The
// database compares hashes of random values, so its timing tells nothing.
func (s *Store) findAppPassword(ctx context.Context, did syntax.DID, password string) (*appPasswordRow, error) {
	var row appPasswordRow
	err := s.cfg.DB.Read.WithContext(ctx).Where("did = ? AND hash = ?", string(did), hashAppPassword(did, password)).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find app password: %w", err)
	}
	return &row, nil
}
