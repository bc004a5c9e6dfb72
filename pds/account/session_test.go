package account_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/account"
)

// part decodes a part of a JWT without any of our code.
func part(t *testing.T, token string, index int) map[string]any {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[index])
	require.NoError(t, err)
	var out map[string]any
	require.NoError(t, json.Unmarshal(raw, &out))
	return out
}

func TestTokensHaveTheReferenceForm(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = clock.Now })
		mustCreate(t, s, db, "alice.test")
		_, tokens, err := s.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		now := float64(clock.Now().Unix())

		require.Equal(t, map[string]any{"alg": "HS256", "typ": "at+jwt"}, part(t, tokens.Access, 0))
		require.Equal(t, map[string]any{"sub": "did:web:alice.test", "aud": string(serviceDID), "scope": "com.atproto.access",
			"iat": now, "exp": now + 2*3600, "sid": tokens.SessionID}, part(t, tokens.Access, 1))
		refresh := part(t, tokens.Refresh, 1)
		require.NotEmpty(t, refresh["jti"])
		delete(refresh, "jti")
		require.Equal(t, map[string]any{"alg": "HS256", "typ": "refresh+jwt"}, part(t, tokens.Refresh, 0))
		require.Equal(t, map[string]any{"sub": "did:web:alice.test", "aud": string(serviceDID), "scope": "com.atproto.refresh",
			"iat": now, "exp": now + 90*24*3600, "sid": tokens.SessionID}, refresh)
	})
}

func TestLoginIdentifiers(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		_, err := create(t, s, db, account.Params{Handle: "alice.test", Email: "a@example.com", Password: "correct horse"})
		require.NoError(t, err)
		_, err = create(t, s, db, account.Params{Handle: "nopass.test"})
		require.NoError(t, err)
		for name, test := range map[string]struct {
			identifier, password string
			want                 error
		}{
			"handle":             {"alice.test", "correct horse", nil},
			"handle, mixed case": {"@Alice.TEST ", "correct horse", nil},
			"did":                {"did:web:alice.test", "correct horse", nil},
			"email":              {"A@example.com", "correct horse", nil},
			"wrong password":     {"alice.test", "wrong horse", account.ErrCredentials},
			"empty password":     {"alice.test", "", account.ErrCredentials},
			"unknown handle":     {"bob.test", "correct horse", account.ErrCredentials},
			"no password at all": {"nopass.test", "", account.ErrCredentials},
			"nonsense":           {"\x00", "correct horse", account.ErrCredentials},
			"endless password":   {"alice.test", strings.Repeat("x", 1<<16), account.ErrCredentials},
			"app password form":  {"alice.test", "aaaa-bbbb-cccc-dddd", account.ErrCredentials},
		} {
			t.Run(name, func(t *testing.T) {
				_, _, err := s.Login(t.Context(), test.identifier, test.password, false)
				require.ErrorIs(t, err, test.want)
			})
		}
	})
}

func TestStatusAtLogin(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		login := func(takendown bool) (account.Account, account.Tokens, error) {
			return s.Login(t.Context(), "alice.test", "correct horse", takendown)
		}
		_, tokens, err := login(false)
		require.NoError(t, err)
		set := func(fn func(ctx context.Context, tx *gorm.DB) error) { require.NoError(t, inTx(t, s, db, did, fn)) }

		set(func(ctx context.Context, tx *gorm.DB) error { _, err := s.DeactivateTx(ctx, tx, did, nil); return err })
		a, _, err := login(false)
		require.NoError(t, err, "edge case 17: a deactivated account signs in")
		require.Equal(t, "deactivated", a.HostedStatus())
		grant, err := s.VerifyAccess(t.Context(), tokens.Access)
		require.NoError(t, err)
		require.Equal(t, account.Deactivated, grant.Account.Status, "and the caller sees that it is")

		set(func(ctx context.Context, tx *gorm.DB) error { _, err := s.TakeDownTx(ctx, tx, did, ""); return err })
		_, _, err = login(false)
		require.ErrorIs(t, err, account.ErrTakenDown)
		_, _, err = s.Login(t.Context(), "alice.test", "wrong horse", false)
		require.ErrorIs(t, err, account.ErrCredentials, "the status is told only to who knows the password")
		_, _, err = s.Refresh(t.Context(), tokens.Refresh)
		require.ErrorIs(t, err, account.ErrTakenDown)
		_, limited, err := login(true)
		require.NoError(t, err)
		grant, err = s.VerifyAccess(t.Context(), limited.Access)
		require.NoError(t, err)
		require.Equal(t, account.ScopeTakendown, grant.Scope)
		_, _, err = s.Refresh(t.Context(), limited.Refresh)
		require.NoError(t, err)

		set(func(ctx context.Context, tx *gorm.DB) error { _, err := s.DeleteTx(ctx, tx, did); return err })
		_, _, err = login(true)
		require.ErrorIs(t, err, account.ErrCredentials)
		_, err = s.VerifyAccess(t.Context(), tokens.Access)
		require.ErrorIs(t, err, account.ErrNotFound)
		_, _, err = s.Refresh(t.Context(), tokens.Refresh)
		require.ErrorIs(t, err, account.ErrTokenExpired)
	})
}

// PDS-SURFACE edge case 15.
func TestRacingRefreshesGetOneSuccessor(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = clock.Now })
		mustCreate(t, s, db, "alice.test")
		_, first, err := s.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		const racers = 6
		successors := make([]account.Tokens, racers)
		errs := make([]error, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() { _, successors[i], errs[i] = s.Refresh(t.Context(), first.Refresh) })
		}
		wg.Wait()
		want := part(t, successors[0].Refresh, 1)["jti"]
		for i := range racers {
			require.NoError(t, errs[i])
			require.Equal(t, want, part(t, successors[i].Refresh, 1)["jti"])
			require.Equal(t, first.SessionID, successors[i].SessionID)
		}
		require.NotEqual(t, part(t, first.Refresh, 1)["jti"], want)

		clock.advance(account.RefreshGrace - time.Second)
		_, again, err := s.Refresh(t.Context(), first.Refresh)
		require.NoError(t, err, "a stale tab within the grace")
		require.Equal(t, successors[0].Refresh, again.Refresh, "the same string, however late it is asked for")
		clock.advance(2 * time.Second)
		_, _, err = s.Refresh(t.Context(), first.Refresh)
		require.ErrorIs(t, err, account.ErrTokenExpired, "after the grace the token is dead")
		_, second, err := s.Refresh(t.Context(), again.Refresh)
		require.NoError(t, err, "its successor is not")

		require.NoError(t, s.EndSession(t.Context(), second.Refresh))
		for _, token := range []string{again.Refresh, second.Refresh} {
			_, _, err = s.Refresh(t.Context(), token)
			require.ErrorIs(t, err, account.ErrTokenExpired, "deleteSession kills the family")
		}
		_, err = s.VerifyAccess(t.Context(), second.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired)
	})
}

func TestExpiry(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		s := newStore(t, db, func(c *account.Config) { c.Now = clock.Now })
		mustCreate(t, s, db, "alice.test")
		_, tokens, err := s.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		clock.advance(account.AccessLifetime - time.Second)
		_, err = s.VerifyAccess(t.Context(), tokens.Access)
		require.NoError(t, err)
		clock.advance(time.Second)
		_, err = s.VerifyAccess(t.Context(), tokens.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired, "also from the cache of verified tokens")
		_, next, err := s.Refresh(t.Context(), tokens.Refresh)
		require.NoError(t, err)
		clock.advance(3 * account.RefreshGrace)
		require.NoError(t, s.Prune(t.Context()))
		var tokensLeft int64
		require.NoError(t, db.Read.Raw("SELECT COUNT(*) FROM refresh_tokens").Scan(&tokensLeft).Error)
		require.EqualValues(t, 1, tokensLeft, "a used token is kept for its grace only")
		_, err = s.VerifyRefresh(t.Context(), next.Refresh)
		require.NoError(t, err)
		clock.advance(account.RefreshLifetime)
		_, err = s.VerifyRefresh(t.Context(), tokens.Refresh)
		require.ErrorIs(t, err, account.ErrTokenExpired)
		require.NoError(t, s.EndSession(t.Context(), tokens.Refresh), "deleteSession takes an expired token")
		clock.advance(24 * time.Hour)
		require.NoError(t, s.Prune(t.Context()))
		var left int64
		require.NoError(t, db.Read.Raw("SELECT (SELECT COUNT(*) FROM sessions) + (SELECT COUNT(*) FROM refresh_tokens)").Scan(&left).Error)
		require.Zero(t, left)
	})
}

// Two stores on one database are two replicas.
func TestReplicasLearnFromEachOther(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		set := func(c *account.Config) { c.Now = clock.Now }
		here, there := newStore(t, db, set), newStore(t, db, set)
		did := mustCreate(t, here, db, "alice.test").DID
		_, tokens, err := here.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		require.NoError(t, here.Poll(t.Context()))
		require.NoError(t, there.Poll(t.Context()))
		_, err = there.VerifyAccess(t.Context(), tokens.Access)
		require.NoError(t, err)

		require.NoError(t, inTx(t, here, db, did, func(ctx context.Context, tx *gorm.DB) error {
			_, err := here.DeactivateTx(ctx, tx, did, nil)
			return err
		}))
		require.NoError(t, here.EndSession(t.Context(), tokens.Refresh))
		_, err = here.VerifyAccess(t.Context(), tokens.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired, "here at once")
		grant, err := there.VerifyAccess(t.Context(), tokens.Access)
		require.NoError(t, err, "there not yet: no database is asked")
		require.True(t, grant.Account.Active())

		clock.advance(account.PollEvery)
		require.NoError(t, there.Poll(t.Context()))
		_, err = there.VerifyAccess(t.Context(), tokens.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired)
		a, err := there.Get(t.Context(), did)
		require.NoError(t, err)
		require.Equal(t, account.Deactivated, a.Status)
	})
}

// A replica whose polling stopped asks the database rather than trust memory.
func TestStaleMemoryIsNotTrusted(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		clock := newClock()
		set := func(c *account.Config) { c.Now = clock.Now }
		here, there := newStore(t, db, set), newStore(t, db, set)
		mustCreate(t, here, db, "alice.test")
		_, tokens, err := here.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		require.NoError(t, there.Poll(t.Context()))
		_, err = there.VerifyAccess(t.Context(), tokens.Access)
		require.NoError(t, err)
		require.NoError(t, here.EndSession(t.Context(), tokens.Refresh))
		clock.advance(6 * time.Second)
		_, err = there.VerifyAccess(t.Context(), tokens.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired)
	})
}

func TestPasswordChangeEndsSessions(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		require.NoError(t, s.Poll(t.Context()))
		did := mustCreate(t, s, db, "alice.test").DID
		_, tokens, err := s.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		require.NoError(t, s.SetPassword(t.Context(), did, "battery staple"))
		_, err = s.VerifyAccess(t.Context(), tokens.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired)
		_, _, err = s.Login(t.Context(), "alice.test", "correct horse", false)
		require.ErrorIs(t, err, account.ErrCredentials)
		_, _, err = s.Login(t.Context(), "alice.test", "battery staple", false)
		require.NoError(t, err)
	})
}

// A sign-in that was checked before a password change must not survive it by
// committing after it.
// A refresh that races the end of its session is in time or too late, and
// nothing else; what it got is dead either way.
func TestRefreshRacingTheEndOfTheSession(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		for range 20 {
			first, err := s.StartSession(t.Context(), did, account.ScopeAccess)
			require.NoError(t, err)
			tokens, errs := make([]account.Tokens, 4), make([]error, 4)
			var wg sync.WaitGroup
			for i := range tokens {
				wg.Go(func() { _, tokens[i], errs[i] = s.Refresh(t.Context(), first.Refresh) })
			}
			require.NoError(t, s.EndSession(t.Context(), first.Refresh))
			wg.Wait()
			for i, err := range errs {
				if err != nil {
					require.ErrorIs(t, err, account.ErrTokenExpired)
					continue
				}
				_, _, err := s.Refresh(t.Context(), tokens[i].Refresh)
				require.ErrorIs(t, err, account.ErrTokenExpired)
			}
		}
	})
}

func TestSignInRacingAPasswordChange(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db, func(c *account.Config) { c.PasswordWorkers = 8 })
		did := mustCreate(t, s, db, "alice.test").DID
		passwords := []string{"correct horse", "battery staple", "third password"}
		for i := range len(passwords) - 1 {
			tokens := make([]account.Tokens, 6)
			var wg sync.WaitGroup
			for j := range tokens {
				wg.Go(func() { _, tokens[j], _ = s.Login(t.Context(), "alice.test", passwords[i], false) })
			}
			require.NoError(t, s.SetPassword(t.Context(), did, passwords[i+1]))
			wg.Wait()
			for _, got := range tokens {
				if got.Access != "" {
					_, err := s.VerifyAccess(t.Context(), got.Access)
					require.ErrorIs(t, err, account.ErrTokenExpired)
				}
			}
		}
	})
}

func TestOldHashIsRenewed(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		did := mustCreate(t, s, db, "alice.test").DID
		weak, err := s.WeakPHC("correct horse")
		require.NoError(t, err)
		require.NoError(t, db.Write.Exec("UPDATE accounts SET password = ? WHERE did = ?", weak, string(did)).Error)
		_, _, err = s.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		var phc string
		require.NoError(t, db.Read.Raw("SELECT password FROM accounts WHERE did = ?", string(did)).Scan(&phc).Error)
		require.Contains(t, phc, "$argon2id$v=19$m=19456,t=2,p=1$")
		_, _, err = s.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
	})
}

// PDS-SURFACE edge case 16.
func TestAppPasswords(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		require.NoError(t, s.Poll(t.Context()))
		did := mustCreate(t, s, db, "alice.test").DID
		bob := mustCreate(t, s, db, "bob.test").DID
		app, password, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "laptop"})
		require.NoError(t, err)
		require.Regexp(t, `^[a-z2-7]{4}(-[a-z2-7]{4}){3}$`, password)
		_, _, err = s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "laptop"})
		require.ErrorIs(t, err, account.ErrNameTaken)
		_, privileged, err := s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "agent", Scope: account.ScopeAppPassPrivileged})
		require.NoError(t, err)
		_, _, err = s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "", Scope: account.ScopeAppPassPrivileged})
		require.ErrorIs(t, err, account.ErrNameInvalid)
		_, _, err = s.CreateAppPassword(t.Context(), did, account.AppPasswordParams{Name: "nul\x00", Scope: account.ScopeAppPassPrivileged})
		require.ErrorIs(t, err, account.ErrNameInvalid)
		require.NoError(t, s.RevokeAppPassword(t.Context(), did, "nul\x00"))
		_, _, err = s.CreateAppPassword(t.Context(), "did:web:nobody.test", account.AppPasswordParams{Name: "x", Scope: account.ScopeAppPassPrivileged})
		require.ErrorIs(t, err, account.ErrNotFound)
		list, err := s.ListAppPasswords(t.Context(), did)
		require.NoError(t, err)
		require.Len(t, list, 2)
		require.Equal(t, app, list[1])

		_, _, err = s.Login(t.Context(), string(bob), password, false)
		require.ErrorIs(t, err, account.ErrCredentials, "another account's app password")
		_, tokens, err := s.Login(t.Context(), "alice.test", password, false)
		require.NoError(t, err)
		_, tokens, err = s.Refresh(t.Context(), tokens.Refresh)
		require.NoError(t, err)
		grant, err := s.VerifyAccess(t.Context(), tokens.Access)
		require.NoError(t, err)
		require.Equal(t, account.ScopeAppPass, grant.Scope, "the scope survives a refresh")
		require.False(t, grant.Scope.Full())
		_, other, err := s.Login(t.Context(), "alice.test", privileged, false)
		require.NoError(t, err)

		require.NoError(t, s.RevokeAppPassword(t.Context(), did, "laptop"))
		_, err = s.VerifyAccess(t.Context(), tokens.Access)
		require.ErrorIs(t, err, account.ErrTokenExpired)
		_, _, err = s.Refresh(t.Context(), tokens.Refresh)
		require.ErrorIs(t, err, account.ErrTokenExpired)
		_, _, err = s.Login(t.Context(), "alice.test", password, false)
		require.ErrorIs(t, err, account.ErrCredentials)
		grant, err = s.VerifyAccess(t.Context(), other.Access)
		require.NoError(t, err, "other sessions go on")
		require.Equal(t, account.ScopeAppPassPrivileged, grant.Scope)
	})
}

// Tokens that are not ours, in every way that has been tried on somebody.
func TestForeignTokensAreRefused(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		mustCreate(t, s, db, "alice.test")
		_, tokens, err := s.Login(t.Context(), "alice.test", "correct horse", false)
		require.NoError(t, err)
		forge := func(method jwt.SigningMethod, key any, typ string, change func(jwt.MapClaims)) string {
			claims := jwt.MapClaims{"sub": "did:web:alice.test", "aud": string(serviceDID), "scope": "com.atproto.access", "sid": tokens.SessionID, "exp": time.Now().Add(time.Hour).Unix()}
			if change != nil {
				change(claims)
			}
			token := jwt.NewWithClaims(method, claims)
			token.Header["typ"] = typ
			signed, err := token.SignedString(key)
			require.NoError(t, err)
			return signed
		}
		key := []byte(jwtSecret)
		_, err = s.VerifyAccess(t.Context(), forge(jwt.SigningMethodHS256, key, "at+jwt", nil))
		require.NoError(t, err, "the forge makes good tokens")
		parts := strings.Split(tokens.Access, ".")
		for name, token := range map[string]string{
			"empty":               "",
			"nonsense":            "a.b.c",
			"two parts":           parts[0] + "." + parts[1],
			"no signature":        parts[0] + "." + parts[1] + ".",
			"altered payload":     parts[0] + "." + parts[1][:len(parts[1])-2] + "AA." + parts[2],
			"alg none":            forge(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "at+jwt", nil),
			"alg HS512":           forge(jwt.SigningMethodHS512, key, "at+jwt", nil),
			"other secret":        forge(jwt.SigningMethodHS256, []byte(strings.Repeat("x", 32)), "at+jwt", nil),
			"plain typ":           forge(jwt.SigningMethodHS256, key, "JWT", nil),
			"refresh as access":   tokens.Refresh,
			"other audience":      forge(jwt.SigningMethodHS256, key, "at+jwt", func(c jwt.MapClaims) { c["aud"] = "did:web:other.example" }),
			"no expiry":           forge(jwt.SigningMethodHS256, key, "at+jwt", func(c jwt.MapClaims) { delete(c, "exp") }),
			"no session":          forge(jwt.SigningMethodHS256, key, "at+jwt", func(c jwt.MapClaims) { delete(c, "sid") }),
			"unknown scope":       forge(jwt.SigningMethodHS256, key, "at+jwt", func(c jwt.MapClaims) { c["scope"] = "com.atproto.everything" }),
			"no scope":            forge(jwt.SigningMethodHS256, key, "at+jwt", func(c jwt.MapClaims) { delete(c, "scope") }),
			"transition scope":    forge(jwt.SigningMethodHS256, key, "at+jwt", func(c jwt.MapClaims) { c["scope"] = "atproto transition:generic" }),
			"no subject":          forge(jwt.SigningMethodHS256, key, "at+jwt", func(c jwt.MapClaims) { c["sub"] = "alice" }),
			"refresh scope":       forge(jwt.SigningMethodHS256, key, "at+jwt", func(c jwt.MapClaims) { c["scope"] = "com.atproto.refresh" }),
			"endless":             strings.Repeat("a", 1<<20),
			"many dots":           strings.Repeat(".", 4000),
			"padded base64":       parts[0] + "=." + parts[1] + "." + parts[2],
			"space behind":        tokens.Access + " ",
			"line feed in middle": parts[0] + ".\n" + parts[1] + "." + parts[2],
		} {
			t.Run(name, func(t *testing.T) {
				_, err := s.VerifyAccess(t.Context(), token)
				require.ErrorIs(t, err, account.ErrTokenInvalid)
				require.NotContains(t, err.Error(), parts[2])
			})
		}
		_, _, err = s.Refresh(t.Context(), tokens.Access)
		require.ErrorIs(t, err, account.ErrTokenInvalid)
		require.ErrorIs(t, s.EndSession(t.Context(), tokens.Access), account.ErrTokenInvalid)
		_, err = s.VerifyAccess(t.Context(), forge(jwt.SigningMethodHS256, key, "at+jwt", func(c jwt.MapClaims) { c["sub"] = "did:web:gone.test" }))
		require.ErrorIs(t, err, account.ErrNotFound)
	})
}

func TestRunPollsUntilItIsStopped(t *testing.T) {
	each(t, func(t *testing.T, db *migrations.DB) {
		s := newStore(t, db)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		stop()
		require.NoError(t, <-done)
	})
}

// FuzzVerifyAccess is about the text of a token; one database is enough.
func FuzzVerifyAccess(f *testing.F) {
	db := dbtest.Open(f, migrations.PDS, migrations.SQLite)
	s := newStore(f, db)
	mustCreate(f, s, db, "alice.test")
	_, tokens, err := s.Login(f.Context(), "alice.test", "correct horse", false)
	require.NoError(f, err)
	for _, seed := range []string{tokens.Access, tokens.Refresh, "a.b.c", "eyJhbGciOiJub25lIn0.e30.", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := s.VerifyAccess(context.Background(), token); err == nil && token != tokens.Access {
			t.Fatalf("accepted %q", token)
		}
		if _, err := s.VerifyRefresh(context.Background(), token); err == nil && token != tokens.Refresh {
			t.Fatalf("accepted %q", token)
		}
	})
}
