package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"herbarium.garden/migrations"
)

// Purposes of keys. hostSubject is the subject of those that no account has.
const (
	purposeSigning  = "signing"  // #atproto of an account
	purposeRotation = "rotation" // signs did:plc operations
	purposeHost     = "host"     // what the host itself witnesses
	hostSubject     = "host"
)

// keyCacheSize bounds the unwrapped keys in memory: about 0.5 KiB each.
const keyCacheSize = 4096

type keyRow struct {
	Subject   string `gorm:"primaryKey"`
	Purpose   string `gorm:"primaryKey"`
	PublicKey string
	Wrapped   []byte
	CreatedAt string
}

func (keyRow) TableName() string { return "keys" }

type keyPlace struct{ subject, purpose string }

// newKey makes a key of the configured curve.
func (s *Store) newKey() (atcrypto.PrivateKeyExportable, error) {
	if s.cfg.KeyKind == K256 {
		return atcrypto.GeneratePrivateKeyK256()
	}
	return atcrypto.GeneratePrivateKeyP256()
}

// seal makes the row of a key.
func (s *Store) seal(subject, purpose string, key atcrypto.PrivateKeyExportable) (keyRow, error) {
	public, err := key.PublicKey()
	if err != nil {
		return keyRow{}, fmt.Errorf("public key: %w", err)
	}
	// Multibase carries the curve.
	wrapped, err := s.keyring.wrap(purpose, subject, []byte(key.Multibase()))
	if err != nil {
		return keyRow{}, err
	}
	return keyRow{Subject: subject, Purpose: purpose, PublicKey: public.DIDKey(), Wrapped: wrapped, CreatedAt: s.nowText()}, nil
}

// open answers the private key of a row, after checking that it belongs to the
// public one beside it.
func (s *Store) open(row keyRow) (atcrypto.PrivateKey, error) {
	if len(row.Wrapped) == 0 {
		return nil, fmt.Errorf("%s key of %s: %w", row.Purpose, row.Subject, ErrKeyUnavailable)
	}
	secret, err := s.keyring.unwrap(row.Purpose, row.Subject, row.Wrapped)
	if err != nil {
		return nil, err
	}
	key, err := atcrypto.ParsePrivateMultibase(string(secret))
	if err != nil {
		return nil, fmt.Errorf("parse %s key of %s: %w", row.Purpose, row.Subject, ErrMasterKey)
	}
	public, err := key.PublicKey()
	if err != nil || public.DIDKey() != row.PublicKey {
		return nil, fmt.Errorf("%s key of %s is not that of its public key: %w", row.Purpose, row.Subject, ErrMasterKey)
	}
	return key, nil
}

func (s *Store) findKey(ctx context.Context, db *gorm.DB, subject, purpose string) (keyRow, error) {
	var row keyRow
	err := db.WithContext(ctx).Where("subject = ? AND purpose = ?", subject, purpose).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return keyRow{}, fmt.Errorf("%s key of %s: %w", purpose, subject, ErrKeyUnavailable)
	}
	return row, err
}

// SigningKey answers the key that signs for the DID: its commits and its
// service JWTs. From memory after the first time. ErrKeyUnavailable when the
// DID has no account here or the account was deleted.
func (s *Store) SigningKey(ctx context.Context, did syntax.DID) (atcrypto.PrivateKey, error) {
	return s.key(ctx, keyPlace{string(did), purposeSigning})
}

func (s *Store) key(ctx context.Context, place keyPlace) (atcrypto.PrivateKey, error) {
	if key, ok := s.keys.Get(place); ok {
		return key, nil
	}
	row, err := s.findKey(ctx, s.cfg.DB.Read, place.subject, place.purpose)
	if err != nil {
		return nil, err
	}
	key, err := s.open(row)
	if err != nil {
		return nil, err
	}
	s.keys.Add(place, key)
	return key, nil
}

// HostKey is the key that this host witnesses with; HostKeyID in the DID
// document of the service.
func (s *Store) HostKey(ctx context.Context) (atcrypto.PrivateKey, error) {
	return s.hostKey(ctx, purposeHost)
}

// RotationKey signs the did:plc operations of this host.
func (s *Store) RotationKey(ctx context.Context) (atcrypto.PrivateKey, error) {
	return s.hostKey(ctx, purposeRotation)
}

// HasKeys reports whether a database holds wrapped keys, which is to say
// whether a host has started on it before.
func HasKeys(ctx context.Context, db *migrations.DB) (bool, error) {
	var found int64
	if err := db.Read.WithContext(ctx).Raw("SELECT COUNT(*) FROM (SELECT 1 FROM keys LIMIT 1) AS k").Scan(&found).Error; err != nil {
		return false, fmt.Errorf("look for keys: %w", err)
	}
	return found > 0, nil
}

// EnsureHostKeys makes the host's own keys on the first start; on any later
// one it finds out whether the master key is still the right one (ErrMasterKey
// if not). Call it before serving.
func (s *Store) EnsureHostKeys(ctx context.Context) error {
	for _, purpose := range []string{purposeHost, purposeRotation} {
		if _, err := s.hostKey(ctx, purpose); err != nil {
			return err
		}
	}
	return nil
}

// hostKey answers a key of the host, making it if there is none. Of replicas
// that start at once, one key stays.
func (s *Store) hostKey(ctx context.Context, purpose string) (atcrypto.PrivateKey, error) {
	place := keyPlace{hostSubject, purpose}
	key, err := s.key(ctx, place)
	if !errors.Is(err, ErrKeyUnavailable) {
		return key, err
	}
	fresh, err := s.newKey()
	if err != nil {
		return nil, fmt.Errorf("make %s key: %w", purpose, err)
	}
	row, err := s.seal(hostSubject, purpose, fresh)
	if err != nil {
		return nil, err
	}
	err = s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error
	})
	if err != nil {
		return nil, fmt.Errorf("store %s key: %w", purpose, err)
	}
	return s.key(ctx, place)
}

// nowText is the present as a TEXT column holds it.
func (s *Store) nowText() string { return migrations.FormatTime(s.cfg.Now()) }
