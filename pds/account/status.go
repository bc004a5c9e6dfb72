package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// change updates the row of an account that is not deleted and answers it as
// it is then, inside the caller's transaction (tx).
func (s *Store) change(ctx context.Context, tx *gorm.DB, did syntax.DID, columns map[string]any) (Account, error) {
	tx = tx.WithContext(ctx)
	columns["changed_at"] = s.nowText()
	updated := tx.Model(&accountRow{}).Where("did = ? AND deleted_at IS NULL", string(did)).Updates(columns)
	if updated.Error != nil {
		return Account{}, fmt.Errorf("change account %s: %w", did, updated.Error)
	}
	if updated.RowsAffected == 0 {
		return Account{}, fmt.Errorf("change account %s: %w", did, ErrNotFound)
	}
	row, err := find(ctx, tx, "did = ?", string(did))
	if err != nil {
		return Account{}, err
	}
	return row.account()
}

// ActivateTx ends a deactivation, inside the caller's transaction (tx). A
// taken down or suspended account cannot activate itself (ErrStatus), nor can
// an agent that is held (ErrAgentExpired, ErrAgentDisabled); that an account is active
// already is no error. After the commit the caller calls Forget; so with every
// method named …Tx here.
func (s *Store) ActivateTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Account, error) {
	a, err := s.change(ctx, tx, did, map[string]any{"deactivated_at": nil, "delete_after": nil, "held": 0})
	if err != nil {
		return a, err
	}
	if err := a.Held(s.cfg.Now()); err != nil {
		return a, fmt.Errorf("activate %s: %w", did, err)
	}
	if !a.Active() {
		return a, fmt.Errorf("activate %s: account is %s: %w", did, a.Status, ErrStatus)
	}
	return a, nil
}

// DeactivateTx deactivates: the account signs in, but neither writes nor is
// read. deleteAfter, if not nil, says when it is to be deleted (DeletionsDue).
func (s *Store) DeactivateTx(ctx context.Context, tx *gorm.DB, did syntax.DID, deleteAfter *time.Time) (Account, error) {
	var after *string
	if deleteAfter != nil {
		text := migrations.FormatTime(*deleteAfter)
		after = &text
	}
	return s.change(ctx, tx, did, map[string]any{
		// A second deactivation does not move the time of the first.
		"deactivated_at": gorm.Expr("COALESCE(deactivated_at, ?)", s.nowText()), "delete_after": after,
		// Whoever deactivates an agent that is held anyway wants more than that.
		"held": 0,
	})
}

// TakeDownTx takes down; ref is the moderator's reference. Lifting the
// takedown leaves a deactivated account deactivated.
func (s *Store) TakeDownTx(ctx context.Context, tx *gorm.DB, did syntax.DID, ref string) (Account, error) {
	return s.change(ctx, tx, did, map[string]any{
		"takendown_at": gorm.Expr("COALESCE(takendown_at, ?)", s.nowText()), "takedown_ref": optional(storable(ref)),
	})
}

// storable drops what Postgres does not take as text.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "")
}

// LiftTakedownTx undoes TakeDownTx.
func (s *Store) LiftTakedownTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Account, error) {
	return s.change(ctx, tx, did, map[string]any{"takendown_at": nil, "takedown_ref": nil})
}

// SuspendTx suspends: neither signing in nor reading, until LiftSuspensionTx.
func (s *Store) SuspendTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Account, error) {
	return s.change(ctx, tx, did, map[string]any{"suspended_at": gorm.Expr("COALESCE(suspended_at, ?)", s.nowText())})
}

// LiftSuspensionTx undoes SuspendTx.
func (s *Store) LiftSuspensionTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Account, error) {
	return s.change(ctx, tx, did, map[string]any{"suspended_at": nil})
}

// DeleteTx deletes for good: the handle is given up (that of a did:web stays
// reserved), e-mail, password, app passwords, login keys, one-time tokens,
// preferences and the private key are erased, with what was said of an agent,
// and sessions end. The DID, its public key and the times stay.
func (s *Store) DeleteTx(ctx context.Context, tx *gorm.DB, did syntax.DID) (Account, error) {
	now := s.nowText()
	a, err := s.change(ctx, tx, did, map[string]any{
		"deleted_at": now, "handle": nil, "email": nil, "email_confirmed": nil, "password": nil, "password_set_at": nil,
		"delete_after": nil, "expires_at": nil, "disabled_at": nil, "held": 0,
	})
	if err != nil {
		return Account{}, err
	}
	tx = tx.WithContext(ctx)
	for _, statement := range []string{
		"UPDATE keys SET wrapped = NULL WHERE subject = ?",
		"DELETE FROM app_passwords WHERE did = ?",
		"DELETE FROM login_keys WHERE did = ?",
		"DELETE FROM one_time_tokens WHERE did = ?",
		"DELETE FROM account_policies WHERE did = ?",
		"DELETE FROM preferences WHERE did = ?",
		"DELETE FROM agents WHERE did = ?",
	} {
		if err := tx.Exec(statement, string(did)).Error; err != nil {
			return Account{}, fmt.Errorf("delete account %s: %w", did, err)
		}
	}
	if _, err := s.endSessionsTx(tx, "did = ?", string(did)); err != nil {
		return Account{}, fmt.Errorf("delete account %s: %w", did, err)
	}
	return a, nil
}

// CheckHandle answers the handle, normalised, if an account here may be
// renamed to it: syntax, and under a domain of this host length and reserved
// names. byAdmin allows the last. ours is false for a handle under a domain of
// others, which the caller has to have proven. Whether it is free SetHandleTx
// finds out.
func (s *Store) CheckHandle(handle syntax.Handle, byAdmin bool) (_ syntax.Handle, ours bool, err error) {
	if handle, err = ParseHandle(string(handle)); err != nil {
		return "", false, err
	}
	if s.OwnsDomain(handle) || handle.String() == s.cfg.PublicURL.Hostname() {
		handle, err = s.checkHandle(handle, byAdmin)
		return handle, true, err
	}
	handle, err = foreignHandle(handle)
	return handle, false, err
}

// SetHandleTx renames, inside the caller's transaction (tx). The caller has
// passed the handle through CheckHandle or has proven it (DNS or well-known
// file). Its DID stays what it was; a did:web goes on being served under the
// name it was issued for. ErrHandleTaken.
func (s *Store) SetHandleTx(ctx context.Context, tx *gorm.DB, did syntax.DID, handle syntax.Handle) (Account, error) {
	name := handle.Normalize().String()
	if err := labelTaken(ctx, tx, name, string(did)); err != nil {
		return Account{}, err
	}
	var a Account
	err := migrations.Savepoint(tx.WithContext(ctx), func() (err error) {
		a, err = s.change(ctx, tx, did, map[string]any{"handle": name})
		return err
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return Account{}, ErrHandleTaken
	}
	return a, err
}

// SetPassword replaces the password and ends every session of the account.
func (s *Store) SetPassword(ctx context.Context, did syntax.DID, password string) error {
	return s.setPassword(ctx, did, password, func(*gorm.DB) error { return nil })
}

// setPassword does first, in the same transaction, what allows it.
func (s *Store) setPassword(ctx context.Context, did syntax.DID, password string, allow func(tx *gorm.DB) error) error {
	phc, err := s.hasher.hash(ctx, password)
	if err != nil {
		return fmt.Errorf("set password of %s: %w", did, err)
	}
	err = s.endSessions(ctx, func(tx *gorm.DB) error {
		if err := allow(tx); err != nil {
			return err
		}
		_, err := s.change(ctx, tx, did, map[string]any{"password": phc, "password_set_at": s.nowText()})
		return err
	}, "did = ?", string(did))
	if err != nil {
		return fmt.Errorf("set password of %s: %w", did, err)
	}
	s.Forget(did)
	return nil
}

// EndSessions ends every session of an account: an operator's answer to a
// credential that leaked.
func (s *Store) EndSessions(ctx context.Context, did syntax.DID) error {
	return s.endSessions(ctx, nil, "did = ?", string(did))
}

// SetEmail replaces the e-mail address, which is then not confirmed; "" takes
// it away.
func (s *Store) SetEmail(ctx context.Context, did syntax.DID, email string) error {
	if email != "" {
		var err error
		if email, err = normalizeEmail(email); err != nil {
			return err
		}
	}
	err := s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		_, err := s.change(ctx, tx, did, map[string]any{"email": optional(email), "email_confirmed": nil})
		return err
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return ErrEmailTaken
	}
	if err != nil {
		return fmt.Errorf("set email of %s: %w", did, err)
	}
	s.Forget(did)
	return nil
}
