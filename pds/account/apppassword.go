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
	Name       string
	Privileged bool
	CreatedAt  time.Time
}

type appPasswordRow struct {
	DID        string `gorm:"column:did;primaryKey"`
	Name       string `gorm:"primaryKey"`
	Hash       []byte
	Privileged int
	CreatedAt  string
}

func (appPasswordRow) TableName() string { return "app_passwords" }

func (r appPasswordRow) scope() Scope {
	if r.Privileged != 0 {
		return ScopeAppPassPrivileged
	}
	return ScopeAppPass
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

// CreateAppPassword makes an app password and answers it, this once.
func (s *Store) CreateAppPassword(ctx context.Context, did syntax.DID, name string, privileged bool) (AppPassword, string, error) {
	if len(name) > maxNameLength || !printableName(name) {
		return AppPassword{}, "", ErrNameInvalid
	}
	password, err := s.grouped(appPasswordBytes, 4)
	if err != nil {
		return AppPassword{}, "", err
	}
	row := appPasswordRow{DID: string(did), Name: name, Hash: hashAppPassword(did, password), CreatedAt: s.nowText()}
	if privileged {
		row.Privileged = 1
	}
	err = s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		if alive, err := exists(ctx, tx, "accounts", "did = ? AND deleted_at IS NULL", string(did)); err != nil || !alive {
			return errors.Join(err, ErrNotFound)
		}
		var count int64
		if err := tx.Model(&appPasswordRow{}).Where("did = ?", string(did)).Count(&count).Error; err != nil {
			return err
		}
		if count >= maxAppPasswords {
			return ErrTooMany
		}
		created := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		if created.Error == nil && created.RowsAffected == 0 {
			return ErrNameTaken
		}
		return created.Error
	})
	if err != nil {
		return AppPassword{}, "", fmt.Errorf("create app password of %s: %w", did, err)
	}
	app, err := row.appPassword()
	return app, password, err
}

func (r appPasswordRow) appPassword() (AppPassword, error) {
	created, err := migrations.ParseTime(r.CreatedAt)
	return AppPassword{Name: r.Name, Privileged: r.Privileged != 0, CreatedAt: created}, err
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
