package account

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
)

// Preference is one of an application's private settings of an account.
type Preference struct {
	Type  string          // its $type, such as app.bsky.actor.defs#mutedWordsPref
	Value json.RawMessage // the whole object, as it was put
}

const (
	maxPreferences    = 1000 // per account
	maxPreferenceType = 512  // bytes
)

type preferenceRow struct {
	DID      string `gorm:"column:did;primaryKey"`
	Position int    `gorm:"primaryKey"`
	Type     string
	Value    []byte
}

func (preferenceRow) TableName() string { return "preferences" }

// Preferences lists those of an account under a namespace, such as app.bsky,
// in the order in which they were put.
func (s *Store) Preferences(ctx context.Context, did syntax.DID, namespace string) ([]Preference, error) {
	all, err := preferences(s.cfg.DB.Read.WithContext(ctx), did)
	if err != nil {
		return nil, err
	}
	list := all[:0]
	for _, p := range all {
		if p.Under(namespace) {
			list = append(list, p)
		}
	}
	return list, nil
}

// Under reports whether the preference belongs to a namespace.
func (p Preference) Under(namespace string) bool {
	return strings.HasPrefix(p.Type, namespace+".")
}

// ReplacePreferences puts a list in the place of those that the account has
// and replaced selects; the others stay, before it. ErrPreferences,
// ErrNotFound. Their bytes are the caller's to bound.
func (s *Store) ReplacePreferences(ctx context.Context, did syntax.DID, replaced func(Preference) bool, list []Preference) error {
	for _, p := range list {
		if p.Type == "" || len(p.Type) > maxPreferenceType || !printableName(p.Type) || !utf8.Valid(p.Value) {
			return ErrPreferences
		}
	}
	err := s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		tx = tx.WithContext(ctx)
		// The account's row is locked, so that two puts come one after the other
		// and neither into the deletion of the account.
		locked := tx.Exec("UPDATE accounts SET did = did WHERE did = ? AND deleted_at IS NULL", string(did))
		if locked.Error != nil {
			return locked.Error
		}
		if locked.RowsAffected == 0 {
			return ErrNotFound
		}
		before, err := preferences(tx, did)
		if err != nil {
			return err
		}
		rows := make([]preferenceRow, 0, len(before)+len(list))
		keep := func(p Preference) {
			rows = append(rows, preferenceRow{string(did), len(rows), p.Type, p.Value})
		}
		for _, p := range before {
			if !replaced(p) {
				keep(p)
			}
		}
		for _, p := range list {
			keep(p)
		}
		if len(rows) > maxPreferences {
			return ErrPreferences
		}
		if err := tx.Exec("DELETE FROM preferences WHERE did = ?", string(did)).Error; err != nil || len(rows) == 0 {
			return err
		}
		return tx.CreateInBatches(rows, 200).Error
	})
	if err != nil {
		return fmt.Errorf("replace preferences of %s: %w", did, err)
	}
	return nil
}

func preferences(db *gorm.DB, did syntax.DID) ([]Preference, error) {
	var rows []preferenceRow
	if err := db.Where("did = ?", string(did)).Order("position").Limit(maxPreferences).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("list preferences of %s: %w", did, err)
	}
	list := make([]Preference, len(rows))
	for i, row := range rows {
		list[i] = Preference{Type: row.Type, Value: row.Value}
	}
	return list, nil
}

// CountPreferences counts all of an account's preferences.
func (s *Store) CountPreferences(ctx context.Context, did syntax.DID) (int64, error) {
	var n int64
	if err := s.cfg.DB.Read.WithContext(ctx).Model(&preferenceRow{}).Where("did = ?", string(did)).Count(&n).Error; err != nil {
		return 0, fmt.Errorf("count preferences of %s: %w", did, err)
	}
	return n, nil
}
