package account

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
)

// Login opens a session with a password or an app password. identifier is a
// handle in any case, a DID or an e-mail address.
//
// ErrCredentials is the one answer to an unknown account, a deleted one and a
// wrong password, after the same work; ErrExpired that to an app password whose
// time is over. A taken down account gets ErrTakenDown, or with allowTakendown a
// session of ScopeTakendown, unless the credential's scope is made of
// permissions; a deactivated one signs in, an agent that is held does not
// (ErrAgentExpired, ErrAgentDisabled).
func (s *Store) Login(ctx context.Context, identifier, password string, allowTakendown bool) (Account, Tokens, error) {
	row, err := s.findByIdentifier(ctx, identifier)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Account{}, Tokens{}, err
	}
	scope, shown, err := s.checkPassword(ctx, row, password)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	a, err := row.account()
	if err != nil {
		return Account{}, Tokens{}, err
	}
	if err := a.Held(s.cfg.Now()); err != nil {
		return Account{}, Tokens{}, err
	}
	switch a.Status {
	case TakenDown:
		permissions, err := scope.Permissions()
		if err != nil {
			return Account{}, Tokens{}, fmt.Errorf("sign in %s: %w", a.DID, err)
		}
		if !allowTakendown || permissions != nil {
			return Account{}, Tokens{}, ErrTakenDown
		}
		scope = ScopeTakendown
	case Suspended:
		return Account{}, Tokens{}, ErrSuspended
	}
	tokens, err := s.startSession(ctx, a.DID, scope, shown)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	return a, tokens, nil
}

// findByIdentifier answers the zero row and ErrNotFound for whatever names no
// account that could sign in.
func (s *Store) findByIdentifier(ctx context.Context, identifier string) (accountRow, error) {
	const alive = " AND deleted_at IS NULL"
	identifier = strings.TrimSpace(identifier)
	if did, err := syntax.ParseDID(identifier); err == nil {
		return find(ctx, s.cfg.DB.Read, "did = ?"+alive, string(did))
	}
	if handle, err := ParseHandle(identifier); err == nil {
		return find(ctx, s.cfg.DB.Read, "handle = ?"+alive, handle.String())
	}
	if email, err := normalizeEmail(identifier); err == nil {
		return find(ctx, s.cfg.DB.Read, "email = ?"+alive, email)
	}
	return accountRow{}, ErrNotFound
}

// checkPassword answers what the password opens. The zero row is compared with
// a decoy.
func (s *Store) checkPassword(ctx context.Context, row accountRow, password string) (Scope, credential, error) {
	if row.DID != "" && looksLikeAppPassword(password) {
		app, err := s.findAppPassword(ctx, syntax.DID(row.DID), password)
		if err != nil {
			return "", credential{}, err
		}
		if app != nil && over(app.ExpiresAt, s.nowText()) {
			return "", credential{}, ErrExpired
		}
		if app != nil {
			return Scope(app.Scope), credential{appPassword: app}, nil
		}
	}
	ok, outdated, err := s.hasher.verify(ctx, value(row.Password), password)
	if err != nil {
		return "", credential{}, fmt.Errorf("check password: %w", err)
	}
	if !ok {
		return "", credential{}, ErrCredentials
	}
	if outdated {
		if err := s.rehash(ctx, row, password); err != nil {
			return "", credential{}, err
		}
	}
	return ScopeAccess, credential{passwordSetAt: row.PasswordSetAt}, nil
}

// rehash replaces a hash that was made with other parameters, unless the
// password changed meanwhile. That there is no room for it now is no failure.
func (s *Store) rehash(ctx context.Context, row accountRow, password string) error {
	phc, err := s.hasher.hash(ctx, password)
	if errors.Is(err, ErrBusy) || errors.Is(err, ErrPasswordUnfit) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("renew password hash: %w", err)
	}
	err = s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		return tx.Exec("UPDATE accounts SET password = ? WHERE did = ? AND password = ?", phc, row.DID, value(row.Password)).Error
	})
	if err != nil {
		return fmt.Errorf("renew password hash: %w", err)
	}
	return nil
}
