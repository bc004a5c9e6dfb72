package account

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"herbarium.garden/migrations"
)

// Lifetimes of what a session hands out.
const (
	AccessLifetime  = 2 * time.Hour
	RefreshLifetime = 90 * 24 * time.Hour
	// RefreshGrace is how long a used refresh token still leads to its one
	// successor: two racing refreshes get the same token, a lost answer can be
	// asked for again.
	RefreshGrace = 2 * time.Hour
)

// Tokens are what a client keeps of a session. They end with the credential
// that opened it, if that is sooner than their lifetime.
type Tokens struct {
	SessionID   string
	Permissions *Permissions // of the session; nil unless its scope is made of them
	Access      string       // JWT, typ at+jwt, AccessLifetime
	Refresh     string       // JWT, typ refresh+jwt, RefreshLifetime, single use
}

// Grant is an accepted token: who holds it and what for. The account's status
// is not judged here, for it depends on the method: a deactivated account may
// read its session and refresh it, a taken down one may not.
type Grant struct {
	Account     Account
	SessionID   string
	TokenID     string       // jti; refresh tokens only
	Scope       Scope        // of the session, for refresh tokens too
	Permissions *Permissions // of the session; nil unless Scope is made of them
	ExpiresAt   time.Time
}

type sessionRow struct {
	SID         string `gorm:"column:sid;primaryKey"`
	DID         string `gorm:"column:did"`
	Scope       string
	AppPassword *string
	LoginKey    *string
	CreatedAt   string
	ExpiresAt   string
	EndedAt     *string
	NotAfter    *string
}

func (sessionRow) TableName() string { return "sessions" }

type refreshRow struct {
	JTI        string `gorm:"column:jti;primaryKey"`
	SID        string `gorm:"column:sid"`
	CreatedAt  string
	ExpiresAt  string
	NextJTI    *string `gorm:"column:next_jti"`
	GraceUntil *string
}

func (refreshRow) TableName() string { return "refresh_tokens" }

// randomID is an identifier that cannot be guessed.
func (s *Store) randomID() (string, error) {
	raw := make([]byte, 18)
	if _, err := io.ReadFull(s.cfg.Rand, raw); err != nil {
		return "", fmt.Errorf("random id: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

// StartSession opens a session for an account that proved itself otherwise:
// just created.
func (s *Store) StartSession(ctx context.Context, did syntax.DID, scope Scope) (Tokens, error) {
	return s.startSession(ctx, did, scope, credential{})
}

// credential is what a sign-in showed; the zero value when it was none of
// these.
type credential struct {
	passwordSetAt *string         // of the password that was checked
	appPassword   *appPasswordRow // as it was checked
	loginKey      *loginKeyRow    // as it was checked
	proof         *KeyProof       // made with loginKey
}

// hold refuses a credential that was taken away or renewed since it was
// checked, and keeps the rest from that before the transaction (tx) commits:
// whoever does it next then finds the session and ends it. On SQLite there is
// one writer anyway. It notes that the credential was used.
func (c credential) hold(tx *gorm.DB, did syntax.DID, now string) error {
	account := tx.Table("accounts").Where("did = ? AND deleted_at IS NULL", string(did))
	if c.passwordSetAt != nil {
		account = account.Where("password_set_at = ?", *c.passwordSetAt)
	}
	var one []int
	err := account.Clauses(clause.Locking{Strength: clause.LockingStrengthShare}).Select("1").Limit(1).Scan(&one).Error
	switch {
	case err != nil:
		return err
	case len(one) == 0:
		return ErrCredentials
	case c.appPassword != nil:
		return c.appPassword.use(tx, now)
	case c.loginKey != nil:
		if err := c.loginKey.use(tx, now); err != nil {
			return err
		}
		return c.proof.spend(tx)
	}
	return nil
}

// session fills in what a session keeps of the credential.
func (c credential) session(row *sessionRow) {
	switch {
	case c.appPassword != nil:
		row.AppPassword, row.NotAfter = &c.appPassword.Name, c.appPassword.ExpiresAt
	case c.loginKey != nil:
		row.LoginKey, row.NotAfter = &c.loginKey.PublicKey, c.loginKey.ExpiresAt
	}
}

// noteUse notes at a refresh that what opened the session is in use.
func (r sessionRow) noteUse(tx *gorm.DB, now string) error {
	switch {
	case r.AppPassword != nil:
		return tx.Exec("UPDATE app_passwords SET last_used_at = ? WHERE did = ? AND name = ?", now, r.DID, *r.AppPassword).Error
	case r.LoginKey != nil:
		return tx.Exec("UPDATE login_keys SET last_used_at = ? WHERE did = ? AND public_key = ? AND revoked_at IS NULL", now, r.DID, *r.LoginKey).Error
	}
	return nil
}

// until bounds a moment by the expiry of what opened the session.
func (r sessionRow) until(moment time.Time) (time.Time, error) {
	notAfter, err := maybeTime(r.NotAfter)
	if err != nil || notAfter == nil || moment.Before(*notAfter) {
		return moment, err
	}
	return *notAfter, nil
}

func (s *Store) startSession(ctx context.Context, did syntax.DID, scope Scope, shown credential) (Tokens, error) {
	sid, err := s.randomID()
	if err != nil {
		return Tokens{}, err
	}
	jti, err := s.randomID()
	if err != nil {
		return Tokens{}, err
	}
	now := s.cfg.Now()
	session := sessionRow{SID: sid, DID: string(did), Scope: string(scope), CreatedAt: migrations.FormatTime(now)}
	shown.session(&session)
	expires, err := session.until(now.Add(RefreshLifetime))
	if err != nil {
		return Tokens{}, fmt.Errorf("start session of %s: %w", did, err)
	}
	session.ExpiresAt = migrations.FormatTime(expires)
	refresh := refreshRow{JTI: jti, SID: sid, CreatedAt: session.CreatedAt, ExpiresAt: session.ExpiresAt}
	err = s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		if err := shown.hold(tx, did, session.CreatedAt); err != nil {
			return err
		}
		if err := tx.Create(&session).Error; err != nil {
			return err
		}
		return tx.Create(&refresh).Error
	})
	if err != nil {
		return Tokens{}, fmt.Errorf("start session of %s: %w", did, err)
	}
	return s.tokensOf(session, refresh)
}

// tokensOf mints a pair: an access token from now on, and the refresh token
// that next is about.
func (s *Store) tokensOf(session sessionRow, next refreshRow) (Tokens, error) {
	scope := Scope(session.Scope)
	permissions, err := scope.Permissions()
	if err != nil {
		return Tokens{}, fmt.Errorf("session %s: %w", session.SID, err)
	}
	now := s.cfg.Now()
	access := claims{did: syntax.DID(session.DID), sid: session.SID, scope: scope, issued: now}
	if access.expires, err = session.until(now.Add(AccessLifetime)); err != nil {
		return Tokens{}, fmt.Errorf("session %s: %w", session.SID, err)
	}
	refresh := claims{did: access.did, sid: session.SID, jti: next.JTI, scope: scopeRefresh, refresh: true}
	// From the row, not the clock: the one successor of a refresh token is the
	// same string whenever it is asked for.
	if refresh.issued, err = migrations.ParseTime(next.CreatedAt); err != nil {
		return Tokens{}, fmt.Errorf("session %s: %w", session.SID, err)
	}
	if refresh.expires, err = migrations.ParseTime(next.ExpiresAt); err != nil {
		return Tokens{}, fmt.Errorf("session %s: %w", session.SID, err)
	}
	tokens := Tokens{SessionID: session.SID, Permissions: permissions}
	if tokens.Access, err = s.mint(access); err != nil {
		return Tokens{}, err
	}
	tokens.Refresh, err = s.mint(refresh)
	return tokens, err
}

// VerifyAccess accepts an access token of this host whose session goes on and
// whose account exists and is no agent that is held (ErrAgentExpired, ErrAgentDisabled). It reads no database while Run keeps memory fresh. The
// account's status is the caller's to judge.
func (s *Store) VerifyAccess(ctx context.Context, token string) (Grant, error) {
	c, err := s.read(token)
	if err != nil {
		return Grant{}, err
	}
	if c.refresh {
		return Grant{}, fmt.Errorf("%w: this is a refresh token", ErrTokenInvalid)
	}
	if s.expired(c) {
		return Grant{}, ErrTokenExpired
	}
	a, err := s.Get(ctx, c.did)
	if err != nil {
		return Grant{}, err
	}
	if a.Status == Deleted {
		return Grant{}, ErrNotFound
	}
	if err := a.Held(s.cfg.Now()); err != nil {
		return Grant{}, err
	}
	ended, certain := s.ended.check(c.sid)
	if !certain {
		ended, err = s.sessionEnded(ctx, c.sid)
		if err != nil {
			return Grant{}, err
		}
	}
	if ended {
		return Grant{}, ErrTokenExpired
	}
	return Grant{Account: a, SessionID: c.sid, Scope: c.scope, Permissions: c.permissions, ExpiresAt: c.expires}, nil
}

func (s *Store) sessionEnded(ctx context.Context, sid string) (bool, error) {
	goesOn, err := exists(ctx, s.cfg.DB.Read, "sessions", "sid = ? AND ended_at IS NULL", sid)
	return !goesOn, err
}

// SessionUntil answers when a session ends at the latest, which is never after
// the credential that opened it; ErrTokenExpired when it has.
func (s *Store) SessionUntil(ctx context.Context, sid string) (time.Time, error) {
	var row sessionRow
	err := s.cfg.DB.Read.WithContext(ctx).Where("sid = ? AND ended_at IS NULL AND expires_at > ?", sid, s.nowText()).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return time.Time{}, ErrTokenExpired
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("find session: %w", err)
	}
	return migrations.ParseTime(row.ExpiresAt)
}

// readRefresh accepts a refresh token that is in time.
func (s *Store) readRefresh(token string) (claims, error) {
	c, err := s.read(token)
	if err != nil {
		return claims{}, err
	}
	if !c.refresh {
		return claims{}, fmt.Errorf("%w: this is not a refresh token", ErrTokenInvalid)
	}
	if s.expired(c) {
		return claims{}, ErrTokenExpired
	}
	return c, nil
}

// VerifyRefresh accepts a refresh token that may still be used, without using
// it. ErrTakenDown, ErrSuspended, ErrAgentExpired and ErrAgentDisabled as Refresh.
func (s *Store) VerifyRefresh(ctx context.Context, token string) (Grant, error) {
	c, err := s.readRefresh(token)
	if err != nil {
		return Grant{}, err
	}
	_, session, err := s.usable(ctx, s.cfg.DB.Read, c)
	if err != nil {
		return Grant{}, err
	}
	a, err := s.refreshable(ctx, session)
	if err != nil {
		return Grant{}, err
	}
	permissions, err := Scope(session.Scope).Permissions()
	if err != nil {
		return Grant{}, fmt.Errorf("session %s: %w", session.SID, err)
	}
	return Grant{Account: a, SessionID: c.sid, TokenID: c.jti, Scope: Scope(session.Scope), Permissions: permissions, ExpiresAt: c.expires}, nil
}

// usable finds the rows of a refresh token; ErrTokenExpired if it, its grace
// or its session is over.
func (s *Store) usable(ctx context.Context, db *gorm.DB, c claims) (refreshRow, sessionRow, error) {
	var token refreshRow
	var session sessionRow
	now := s.nowText()
	err := db.WithContext(ctx).Where("jti = ? AND sid = ?", c.jti, c.sid).Take(&token).Error
	if err == nil {
		err = db.WithContext(ctx).Where("sid = ? AND did = ?", c.sid, string(c.did)).Take(&session).Error
	}
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return token, session, ErrTokenExpired
	case err != nil:
		return token, session, fmt.Errorf("find refresh token: %w", err)
	case session.EndedAt != nil, token.ExpiresAt <= now, token.GraceUntil != nil && *token.GraceUntil <= now:
		return token, session, ErrTokenExpired
	}
	return token, session, nil
}

// refreshable answers the account of a session that may go on.
func (s *Store) refreshable(ctx context.Context, session sessionRow) (Account, error) {
	a, err := s.Get(ctx, syntax.DID(session.DID))
	switch {
	case err != nil:
		return Account{}, err
	case a.Status == Deleted:
		return Account{}, ErrTokenExpired
	case a.Status == TakenDown && Scope(session.Scope) != ScopeTakendown:
		return Account{}, ErrTakenDown
	case a.Status == Suspended:
		return Account{}, ErrSuspended
	}
	return a, a.Held(s.cfg.Now())
}

// Refresh exchanges a refresh token for a new pair. The used token still works
// for RefreshGrace and leads to the same successor, however many race; after
// that it is ErrTokenExpired.
func (s *Store) Refresh(ctx context.Context, token string) (Account, Tokens, error) {
	c, err := s.readRefresh(token)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	_, session, err := s.usable(ctx, s.cfg.DB.Read, c)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	a, err := s.refreshable(ctx, session)
	if err != nil {
		return Account{}, Tokens{}, err
	}
	fresh, err := s.randomID()
	if err != nil {
		return Account{}, Tokens{}, err
	}
	var next refreshRow
	err = s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
		// First, for whoever takes the credential away goes from it to its sessions.
		if err := session.noteUse(tx, s.nowText()); err != nil {
			return err
		}
		// The session before its tokens, as whoever ends it: neither waits for the
		// other's second row.
		goesOn := tx.Exec("UPDATE sessions SET expires_at = expires_at WHERE sid = ? AND ended_at IS NULL", c.sid)
		switch {
		case goesOn.Error != nil:
			return goesOn.Error
		case goesOn.RowsAffected == 0:
			return ErrTokenExpired
		}
		// Again, for the token may have been used meanwhile.
		if _, session, err = s.usable(ctx, tx, c); err != nil {
			return err
		}
		next, err = s.rotate(tx, session, c.jti, fresh)
		return err
	})
	if err != nil {
		return Account{}, Tokens{}, fmt.Errorf("refresh session: %w", err)
	}
	tokens, err := s.tokensOf(session, next)
	return a, tokens, err
}

// rotate answers the one successor of a token, making it if this is the first
// use. Only one of several transactions can name the successor: on Postgres the
// others wait for the row and then find it named.
func (s *Store) rotate(tx *gorm.DB, session sessionRow, jti, fresh string) (refreshRow, error) {
	now := s.cfg.Now()
	named := tx.Exec("UPDATE refresh_tokens SET next_jti = ?, grace_until = ? WHERE jti = ? AND next_jti IS NULL",
		fresh, migrations.FormatTime(now.Add(RefreshGrace)), jti)
	if named.Error != nil {
		return refreshRow{}, named.Error
	}
	if named.RowsAffected == 1 {
		expires, err := session.until(now.Add(RefreshLifetime))
		if err != nil {
			return refreshRow{}, err
		}
		next := refreshRow{JTI: fresh, SID: session.SID, CreatedAt: migrations.FormatTime(now), ExpiresAt: migrations.FormatTime(expires)}
		if err := tx.Create(&next).Error; err != nil {
			return refreshRow{}, err
		}
		return next, tx.Exec("UPDATE sessions SET expires_at = ? WHERE sid = ?", next.ExpiresAt, session.SID).Error
	}
	var next refreshRow
	err := tx.Raw("SELECT n.* FROM refresh_tokens t JOIN refresh_tokens n ON n.jti = t.next_jti WHERE t.jti = ? AND t.grace_until > ?",
		jti, migrations.FormatTime(now)).Take(&next).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return refreshRow{}, ErrTokenExpired
	}
	return next, err
}

// EndSession ends the session of a refresh token, also of an expired one: its
// refresh tokens are dead at once, its access tokens here at once and on other
// replicas within PollEvery.
func (s *Store) EndSession(ctx context.Context, token string) error {
	c, err := s.read(token)
	if err != nil {
		return err
	}
	if !c.refresh {
		return fmt.Errorf("%w: this is not a refresh token", ErrTokenInvalid)
	}
	return s.endSessions(ctx, nil, "sid = ?", c.sid)
}

// endSessions ends those that a condition finds, in one transaction with also.
func (s *Store) endSessions(ctx context.Context, also func(tx *gorm.DB) error, condition string, args ...any) error {
	var sids []string
	err := s.cfg.DB.Tx(ctx, func(tx *gorm.DB) (err error) {
		if also != nil {
			if err = also(tx); err != nil {
				return err
			}
		}
		sids, err = s.endSessionsTx(tx, condition, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("end sessions: %w", err)
	}
	s.ended.add(sids, time.Time{})
	return nil
}

func (s *Store) endSessionsTx(tx *gorm.DB, condition string, args ...any) (sids []string, err error) {
	args = append([]any{s.nowText()}, args...)
	if err := tx.Raw("UPDATE sessions SET ended_at = ? WHERE ended_at IS NULL AND "+condition+" RETURNING sid", args...).Scan(&sids).Error; err != nil {
		return nil, err
	}
	for _, sid := range sids {
		if err := tx.Exec("DELETE FROM refresh_tokens WHERE sid = ?", sid).Error; err != nil {
			return nil, err
		}
	}
	return sids, nil
}

// pruneBatch bounds one deleting transaction.
const pruneBatch = 1000

// Prune removes refresh tokens and sessions that nothing can use any more, and
// assertions and one-time tokens that are past their time. Run does it every hour.
func (s *Store) Prune(ctx context.Context) error {
	now := s.cfg.Now()
	for _, dead := range []struct{ table, key, condition string }{
		{"refresh_tokens", "jti", "expires_at <= ?"},
		{"refresh_tokens", "jti", "grace_until <= ?"},
		{"sessions", "sid", "expires_at <= ?"},
		// An ended session is remembered until the last access token of it is dead.
		{"sessions", "sid", "ended_at <= ?"},
		{"used_assertions", "id", "expires_at <= ?"},
		{"one_time_tokens", "hash", "expires_at <= ?"},
	} {
		before := migrations.FormatTime(now.Add(-AccessLifetime - pollOverlap))
		query := fmt.Sprintf("DELETE FROM %[1]s WHERE %[2]s IN (SELECT %[2]s FROM %[1]s WHERE %[3]s LIMIT %[4]d)", dead.table, dead.key, dead.condition, pruneBatch)
		for {
			var removed int64
			err := s.cfg.DB.Tx(ctx, func(tx *gorm.DB) error {
				result := tx.Exec(query, before)
				removed = result.RowsAffected
				return result.Error
			})
			if err != nil {
				return fmt.Errorf("prune %s: %w", dead.table, err)
			}
			if removed < pruneBatch {
				break
			}
		}
	}
	return nil
}
