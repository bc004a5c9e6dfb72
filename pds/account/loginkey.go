package account

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"herbarium.garden/migrations"
)

// maxLoginKeys is how many login keys an account may have at once: a sign-in
// tries them all.
const maxLoginKeys = 20

// LoginKey is a public key that signs an account in: the private one never
// leaves the agent.
type LoginKey struct {
	Name      string // of the keys that an account has, no two have the same
	PublicKey atcrypto.PublicKey
	Scope     Scope // of the sessions that it opens; never ScopeAccess
	CreatedAt time.Time
	Expires   *time.Time // nil: never. Sessions that it opened end then too
	LastUsed  *time.Time // last sign-in or refresh; nil before the first
}

// LoginKeyParams are what is asked for of a new login key.
type LoginKeyParams struct {
	Name      string // 1 to 128 bytes
	PublicKey atcrypto.PublicKey
	Scope     Scope      // ScopeAppPass (when left out), ScopeAppPassPrivileged or permissions
	Expires   *time.Time // nil: never
}

type loginKeyRow struct {
	DID        string `gorm:"column:did;primaryKey"`
	PublicKey  string `gorm:"primaryKey"`
	Name       string
	Scope      string
	CreatedAt  string
	LastUsedAt *string
	RevokedAt  *string
	ExpiresAt  *string
}

func (loginKeyRow) TableName() string { return "login_keys" }

func (r loginKeyRow) loginKey() (LoginKey, error) {
	key, err := atcrypto.ParsePublicDIDKey(r.PublicKey)
	if err != nil {
		return LoginKey{}, fmt.Errorf("login key %s of %s: %w", r.Name, r.DID, err)
	}
	k := LoginKey{Name: r.Name, PublicKey: key, Scope: Scope(r.Scope)}
	if k.CreatedAt, err = migrations.ParseTime(r.CreatedAt); err != nil {
		return LoginKey{}, fmt.Errorf("login key %s of %s: %w", r.Name, r.DID, err)
	}
	if k.Expires, err = maybeTime(r.ExpiresAt); err != nil {
		return LoginKey{}, fmt.Errorf("login key %s of %s: %w", r.Name, r.DID, err)
	}
	if k.LastUsed, err = maybeTime(r.LastUsedAt); err != nil {
		return LoginKey{}, fmt.Errorf("login key %s of %s: %w", r.Name, r.DID, err)
	}
	return k, nil
}

// AddLoginKey registers a key. Its sessions get the scope, which is one of an
// app password or permissions: a key may act for the account, not manage it.
// ErrScope and ErrExpiry for what it is not to be, ErrKeyKnown for a key that
// the account has or once had, ErrNameTaken for a name that another key has.
func (s *Store) AddLoginKey(ctx context.Context, did syntax.DID, params LoginKeyParams) (key LoginKey, err error) {
	err = s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		key, err = s.AddLoginKeyTx(ctx, tx, did, params)
		return err
	})
	if err != nil {
		return LoginKey{}, err
	}
	return key, nil
}

// AddLoginKeyTx is AddLoginKey inside the caller's transaction (tx).
func (s *Store) AddLoginKeyTx(ctx context.Context, tx *gorm.DB, did syntax.DID, params LoginKeyParams) (LoginKey, error) {
	if len(params.Name) > maxNameLength || !printableName(params.Name) {
		return LoginKey{}, ErrNameInvalid
	}
	scope, err := params.Scope.forCredential()
	if err != nil {
		return LoginKey{}, err
	}
	expires, err := s.expiry(params.Expires)
	if err != nil {
		return LoginKey{}, err
	}
	row := loginKeyRow{DID: string(did), PublicKey: params.PublicKey.DIDKey(), Name: params.Name, Scope: string(scope), CreatedAt: s.nowText(), ExpiresAt: expires}
	if err := row.insert(ctx, tx.WithContext(ctx)); err != nil {
		return LoginKey{}, fmt.Errorf("add login key of %s: %w", did, err)
	}
	return row.loginKey()
}

func (r *loginKeyRow) insert(ctx context.Context, tx *gorm.DB) error {
	if alive, err := exists(ctx, tx, "accounts", "did = ? AND deleted_at IS NULL", r.DID); err != nil || !alive {
		return errors.Join(err, ErrNotFound)
	}
	var count int64
	if err := tx.Model(&loginKeyRow{}).Where("did = ? AND revoked_at IS NULL", r.DID).Count(&count).Error; err != nil {
		return err
	}
	if count >= maxLoginKeys {
		return ErrTooMany
	}
	created := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(r)
	if created.Error != nil || created.RowsAffected == 1 {
		return created.Error
	}
	if known, err := exists(ctx, tx, "login_keys", "did = ? AND public_key = ?", r.DID, r.PublicKey); err != nil || known {
		return errors.Join(err, ErrKeyKnown)
	}
	return ErrNameTaken
}

// ListLoginKeys lists the keys that sign the account in, maxLoginKeys at most,
// by name.
func (s *Store) ListLoginKeys(ctx context.Context, did syntax.DID) ([]LoginKey, error) {
	rows, err := s.loginKeys(ctx, did)
	if err != nil {
		return nil, err
	}
	keys := make([]LoginKey, len(rows))
	for i, row := range rows {
		if keys[i], err = row.loginKey(); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func (s *Store) loginKeys(ctx context.Context, did syntax.DID) ([]loginKeyRow, error) {
	var rows []loginKeyRow
	err := s.cfg.DB.Read.WithContext(ctx).Where("did = ? AND revoked_at IS NULL", string(did)).Order("name").Limit(maxLoginKeys).Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list login keys of %s: %w", did, err)
	}
	return rows, nil
}

// RemoveLoginKey takes a key away, for good, and ends the sessions that it
// opened. That the account has no such key is no error.
func (s *Store) RemoveLoginKey(ctx context.Context, did syntax.DID, key atcrypto.PublicKey) error {
	return s.endSessions(ctx, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE login_keys SET revoked_at = ? WHERE did = ? AND public_key = ? AND revoked_at IS NULL",
			s.nowText(), string(did), key.DIDKey()).Error
	}, "did = ? AND login_key = ?", string(did), key.DIDKey())
}

// KeyProof is an assertion that an account signs in with. Its claims have been
// checked, its signature has not.
type KeyProof struct {
	DID      syntax.DID
	ID       string    // jti: the proof is good once
	Expires  time.Time // it is refused anyway from then on
	SignedBy func(key atcrypto.PublicKey) bool
}

// LoginWithKey opens a session for an account that one of its login keys
// signed for. ErrCredentials for an unknown account, a deleted one and a
// signature by another key alike; ErrExpired for a key whose time is over;
// ErrProofUsed for a proof that has opened a session before; what holds
// an agent, ErrTakenDown and ErrSuspended as Login. A deactivated account signs in.
func (s *Store) LoginWithKey(ctx context.Context, proof KeyProof) (Account, Tokens, error) {
	rows, err := s.loginKeys(ctx, proof.DID)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	var found *loginKeyRow
	for i := range rows {
		key, err := rows[i].loginKey()
		if err != nil {
			return Account{}, Tokens{}, err
		}
		if proof.SignedBy(key.PublicKey) {
			found = &rows[i]
			break
		}
	}
	switch {
	case found == nil:
		return Account{}, Tokens{}, ErrCredentials
	case over(found.ExpiresAt, s.nowText()):
		return Account{}, Tokens{}, ErrExpired
	}
	a, err := s.Get(ctx, proof.DID)
	switch {
	case errors.Is(err, ErrNotFound):
		return Account{}, Tokens{}, ErrCredentials
	case err != nil:
		return Account{}, Tokens{}, err
	}
	switch a.Status {
	case Deleted:
		return Account{}, Tokens{}, ErrCredentials
	case TakenDown:
		return Account{}, Tokens{}, ErrTakenDown
	case Suspended:
		return Account{}, Tokens{}, ErrSuspended
	}
	if err := a.Held(s.cfg.Now()); err != nil {
		return Account{}, Tokens{}, err
	}
	tokens, err := s.startSession(ctx, proof.DID, Scope(found.Scope), credential{loginKey: found, proof: &proof})
	return a, tokens, err
}

// use notes a sign-in inside the caller's transaction (tx), which holds the key
// as it is until the commit. ErrCredentials if it was removed since it was found.
func (r loginKeyRow) use(tx *gorm.DB, now string) error {
	used := tx.Exec("UPDATE login_keys SET last_used_at = ? WHERE did = ? AND public_key = ? AND revoked_at IS NULL", now, r.DID, r.PublicKey)
	if used.Error == nil && used.RowsAffected == 0 {
		return ErrCredentials
	}
	return used.Error
}

// spend makes the proof useless from now on, inside the caller's transaction (tx).
func (p *KeyProof) spend(tx *gorm.DB) error {
	return spendJWT(tx, p.DID, p.ID, p.Expires)
}

// SpendJWT notes that a JWT by an account's key was used, by its issuer and
// jti, until it is no good anyway; ErrProofUsed if it was used before.
func (s *Store) SpendJWT(ctx context.Context, issuer syntax.DID, jti string, expires time.Time) error {
	return spendJWT(s.cfg.DB.Write.WithContext(ctx), issuer, jti, expires)
}

func spendJWT(tx *gorm.DB, issuer syntax.DID, jti string, expires time.Time) error {
	sum := sha256.Sum256([]byte(string(issuer) + "\x00" + jti))
	spent := tx.Exec("INSERT INTO used_assertions (id, expires_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
		base64.RawURLEncoding.EncodeToString(sum[:]), migrations.FormatTime(expires))
	switch {
	case spent.Error != nil:
		return fmt.Errorf("spend a token of %s: %w", issuer, spent.Error)
	case spent.RowsAffected == 0:
		return ErrProofUsed
	}
	return nil
}
