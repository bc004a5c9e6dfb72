package index_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// listener hears what changes.
type listener struct {
	t      *testing.T
	x      *index.Index
	cursor int64
	names  map[string]string // of URIs and CIDs
}

// call names a version of a record; the record itself by the first word.
func (l *listener) call(name string, ref lexicons.StrongRef) {
	l.names[string(ref.URI)], _, _ = strings.Cut(name, " ")
	l.names[ref.CID.String()] = name
}

// hears are the changes since the last call that v is told of, a line for each:
// its kind, the record, the version and what else is to be said.
func (l *listener) hears(v index.Viewer) []string {
	l.t.Helper()
	heard := []string{}
	changes, err := l.x.Changes(l.t.Context(), l.cursor, 1000)
	require.NoError(l.t, err)
	for i := range changes {
		c := &changes[i]
		require.Greater(l.t, c.Seq, l.cursor)
		told, err := l.x.Tells(l.t.Context(), v, c)
		require.NoError(l.t, err)
		if !told {
			continue
		}
		words := []string{string(c.Kind), l.name(string(c.URI))}
		if c.CID.Defined() {
			require.NotEmpty(l.t, l.names[c.CID.String()], "%s %s names a version that was never made", c.Kind, c.URI)
			words = append(words, "="+l.name(c.CID.String()))
		}
		if c.Rev != "" {
			words = append(words, "r"+l.name(string(c.Rev)))
		}
		if c.Old != nil {
			words = append(words, "old="+l.name(string(c.Old.URI)))
		}
		if c.New != nil {
			words = append(words, "new="+l.name(string(c.New.URI)))
		}
		if c.Code != "" {
			words = append(words, string(c.Severity), c.Code)
		}
		if c.Version != 0 {
			words = append(words, fmt.Sprintf("v%d %s", c.Version, c.Status))
		}
		if c.HandOver {
			words = append(words, "handed over")
		}
		if c.Support != "" {
			words = append(words, c.Support)
		}
		if c.Kind == index.ChangeAccount {
			words = append(words, fmt.Sprint(c.Active))
		}
		heard = append(heard, strings.TrimSpace(strings.Join(words, " ")))
	}
	return heard
}

// next is hears of a member, and goes on from there.
func (l *listener) next() []string {
	l.t.Helper()
	heard := l.hears(guest)
	r, err := l.x.ChangesRange(l.t.Context())
	require.NoError(l.t, err)
	l.cursor = r.Last
	return heard
}

func (l *listener) name(s string) string {
	if name, ok := l.names[s]; ok {
		return name
	}
	return s
}

func newListener(t *testing.T, x *index.Index) *listener {
	l := &listener{t: t, x: x, names: map[string]string{"at://" + string(ada): "ada", "at://" + string(bob): "bob"}}
	for n := range 40 {
		l.names[string(clockworkTID(n))] = fmt.Sprint(n)
	}
	return l
}

// Each kind of change, as it follows by hand from what happened.
func TestEachKindOfChangeIsTold(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a, b := newIndex(t, db), newAuthor(ada), newAuthor(bob)
		require.NoError(t, x.Adopt(t.Context()))
		l := newListener(t, x)
		put := func(name string, by *author, nsid syntax.NSID, rkey string, value map[string]any) lexicons.StrongRef {
			c, ref := by.put(t, nsid, rkey, value)
			l.call(name, ref)
			apply(t, x, c)
			return ref
		}
		observe := func(name string, n int, text string, supersedes *lexicons.StrongRef) lexicons.StrongRef {
			return put(name, a, lexicons.ObservationNSID, key(n), observation(text, supersedes))
		}
		recheck := func() { require.NoError(t, x.RecheckCitations(t.Context(), shelf{})) }

		// A chain, and a claim on its first member.
		first := observe("first", 1, "the build is green", nil)
		require.Equal(t, []string{"created first =first r1"}, l.next())
		claimed := put("claim", b, lexicons.ClaimNSID, key(9), claim("green", "quotes", first, quoting("green")))
		require.Equal(t, []string{"created claim =claim r1"}, l.next())
		second := observe("second", 2, "still green", &first)
		require.Equal(t, []string{"created second =second r2", "head first =first r1 old=first new=second"}, l.next())
		recheck()
		require.Equal(t, []string{"citation claim =claim r1"}, l.next(), "fresh: still-holds, which it was by itself before")
		observe("third", 3, "it is red", &second)
		require.Equal(t, []string{"created third =third r3", "head second =second r2 old=second new=third"}, l.next())
		recheck()
		require.Equal(t, []string{"citation claim =claim r1 lost", "findingAdded claim =claim r1 warning evidence-gone"}, l.next())
		apply(t, x, a.drop(lexicons.ObservationNSID, key(3)))
		require.Equal(t, []string{
			"deleted third r4", "head third =third r3 old=third new=second", "findingAdded second =second r2 info successor-deleted",
		}, l.next())
		recheck()
		require.Equal(t, []string{"citation claim =claim r1 gained", "findingRemoved claim =claim r1 warning evidence-gone"}, l.next())

		// A fork; the greater key is chosen.
		observe("fork", 5, "no, yellow", &first)
		require.Equal(t, []string{
			"created fork =fork r5", "head second =second r2 old=second new=fork",
			"findingAdded second =second r2 warning forked", "findingAdded fork =fork r5 warning forked",
		}, l.next())
		apply(t, x, a.drop(lexicons.ObservationNSID, key(5)))
		require.Equal(t, []string{
			"deleted fork r6", "head fork =fork r5 old=fork new=second", "findingRemoved second =second r2 warning forked",
		}, l.next())
		recheck()
		l.next()

		// What is cited goes.
		apply(t, x, a.drop(lexicons.ObservationNSID, key(1)))
		require.Equal(t, []string{
			"deleted first r7",
			"findingAdded second =second r2 info supersedes-deleted",
			"citation claim =claim r1 lost", "findingAdded claim =claim r1 warning evidence-deleted",
		}, l.next())

		// A violation leaves the record as it is.
		put("second edited", a, lexicons.ObservationNSID, key(2), observation("edited", nil))
		require.Equal(t, []string{"findingAdded second =second r2 violation edited"}, l.next())

		// A session, from one machine to another.
		put("session", b, lexicons.SessionNSID, key(7), session("2026-11-30T10:00:00.000Z", "lab-1", "active"))
		require.Equal(t, []string{"created session =session r2", "session session =session r2 v1 active"}, l.next())
		put("session 2", b, lexicons.SessionNSID, key(7), session("2026-11-30T11:00:00.000Z", "lab-2", "ended"))
		require.Equal(t, []string{"updated session =session 2 r3", "session session =session 2 r3 v2 ended handed over", "findingAdded session =session 2 r3 info moved"}, l.next())

		// Down, and up again; while it is down its author's changes are nobody's business.
		require.NoError(t, x.TakeDown(t.Context(), claimed.URI))
		require.NoError(t, x.TakeDown(t.Context(), claimed.URI))
		require.Equal(t, []string{"takenDown claim"}, l.next())
		put("claim 2", b, lexicons.ClaimNSID, key(9), claim("green", "quotes", second, quoting("green")))
		require.Equal(t, []string{"updated claim =claim 2 r4", "findingRemoved claim =claim 2 r4 warning evidence-deleted"}, l.hears(admin))
		require.Empty(t, l.next())
		require.NoError(t, x.LiftTakedown(t.Context(), claimed.URI))
		require.Equal(t, []string{"restored claim =claim 2 r4"}, l.next())

		// So are those of an account that is not active.
		apply(t, x, &index.Account{DID: bob, Status: "deactivated"}, &index.Account{DID: bob, Status: "deactivated"})
		require.Equal(t, []string{"account bob false"}, l.next())
		put("session 3", b, lexicons.SessionNSID, key(7), session("2026-11-30T11:30:00.000Z", "lab-2", "ended"))
		require.Empty(t, l.next())
		apply(t, x, &index.Account{DID: bob, Active: true})
		require.Equal(t, []string{"account bob true"}, l.next())

		// Quarantine, and what was never in a view.
		put("short", b, noteNSID, "short", map[string]any{"text": "fits"})
		put("long", b, noteNSID, "long", map[string]any{"text": "does not fit"})
		l.next()
		require.NoError(t, x.SetLexicons(t.Context(), ordered(noteLexicon(t, 5))))
		settle(t, x)
		require.Equal(t, []string{"quarantined long =long", "findingAdded long =long r7 violation InvalidRecord"}, l.hears(admin))
		require.Equal(t, []string{"quarantined long =long"}, l.next())
		put("late", b, noteNSID, "late", map[string]any{"text": "is late"})
		require.Equal(t, []string{"quarantined late =late r8", "findingAdded late =late r8 violation InvalidRecord"}, l.hears(admin))
		require.Empty(t, l.next())
		require.NoError(t, x.SetLexicons(t.Context(), ordered(noteLexicon(t, 50))))
		settle(t, x)
		require.Equal(t, []string{"released late =late r8", "released long =long r7"}, l.next())

		// Gone for good.
		_, err := x.Purge(t.Context(), "at://"+syntax.ATURI(bob)+"/"+syntax.ATURI(noteNSID)+"/long", nil)
		require.NoError(t, err)
		require.Equal(t, []string{"purged long r8"}, l.next())

		// A replay tells nothing but that there was one.
		require.NoError(t, x.Reindex(t.Context()))
		require.Equal(t, []string{"reindexed"}, l.next())

		// All that an account had goes with it; what a citation of an account is worth that
		// is not there is nobody's to know, that its evidence was deleted is.
		apply(t, x, &index.Account{DID: ada, Status: "deleted"})
		require.Equal(t, []string{
			"deleted second r8", "account ada false", "findingAdded claim =claim 2 r4 warning evidence-deleted",
		}, l.next())

		told := map[index.ChangeKind]bool{}
		all, err := x.Changes(t.Context(), 0, 1000)
		require.NoError(t, err)
		for _, c := range all {
			told[c.Kind] = true
		}
		for _, kind := range index.ChangeKinds {
			require.True(t, told[kind], "%s was never told", kind)
		}
	})
}

// Retention removes the oldest, says so, and leaves the rest as they were.
func TestChangesArePruned(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		clock := now
		x := newIndexAt(t, db, func() time.Time { return clock })
		a := newAuthor(ada)
		write := func(n int) {
			c, _ := a.put(t, noteNSID, key(n), map[string]any{"text": "note"})
			apply(t, x, c)
		}
		write(1)
		write(2)
		clock = now.Add(time.Hour)
		write(3)
		removed, err := x.PruneChanges(t.Context(), 2*time.Hour)
		require.NoError(t, err)
		require.Zero(t, removed)
		removed, err = x.PruneChanges(t.Context(), 30*time.Minute)
		require.NoError(t, err)
		require.EqualValues(t, 2, removed)
		r, err := x.ChangesRange(t.Context())
		require.NoError(t, err)
		// The seq is the time in microseconds, one more where that is taken.
		require.Equal(t, index.ChangesRange{Last: clock.UnixMicro(), Pruned: now.UnixMicro() + 1}, r)
		left, err := x.Changes(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Len(t, left, 1)
		require.Equal(t, a.uri(noteNSID, key(3)), left[0].URI)
	})
}

// heads are, of each observation that is a live head, whether it is the one that
// its chain leads to; and of all that are known what their chain leads to, ""
// for nothing.
func heads(ctx context.Context, t require.TestingT, x *index.Index, all []syntax.ATURI) (head map[syntax.ATURI]bool, chosen map[syntax.ATURI]syntax.ATURI) {
	head, chosen = map[syntax.ATURI]bool{}, map[syntax.ATURI]syntax.ATURI{}
	for _, uri := range all {
		chain, err := x.Chain(ctx, admin, uri)
		if errors.Is(err, index.ErrNotFound) {
			continue
		}
		require.NoError(t, err)
		chosen[uri] = ""
		for i, h := range chain.Heads {
			if i == 0 {
				chosen[uri] = h.URI
			}
			if h.URI == uri {
				head[uri] = i == 0
			}
		}
	}
	return head, chosen
}

// said are the codes of the findings on each record.
func said(ctx context.Context, t require.TestingT, x *index.Index, all []syntax.ATURI) map[syntax.ATURI][]string {
	found, err := x.Findings(ctx, admin, all)
	require.NoError(t, err)
	out := map[syntax.ATURI][]string{}
	for uri, list := range found {
		out[uri] = codes(list)
	}
	return out
}

// Whatever happens in whatever order: when a chain leads to something else than
// before, the changes say so of its head; they say so of each head that is none
// any more, and of nothing that was none. A finding that was not there, or is there
// no longer, is told. And who keeps a list of the records by the changes, and reads
// those of an account again that comes back, has those that the views have.
func TestChangesTellWhatTheViewsShow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		rapid.Check(t, func(t *rapid.T) {
			authors, all := genHistories(t)
			wipe(t.Context(), t, db)
			ctx := t.Context()
			start, err := x.ChangesRange(ctx)
			require.NoError(t, err)
			cursor := start.Last
			mirror := map[syntax.ATURI]string{} // CIDs of the records in the views
			was, before := heads(ctx, t, x, all)
			saidBefore := said(ctx, t, x, all)
			follow := func() {
				is, chosen := heads(ctx, t, x, all)
				saidNow := said(ctx, t, x, all)
				changes, err := x.Changes(ctx, cursor, 1000)
				require.NoError(t, err)
				moved := map[syntax.ATURI]map[syntax.ATURI]bool{} // to where a head led, "" for nothing
				found := map[index.ChangeKind]map[syntax.ATURI][]string{index.ChangeFindingAdded: {}, index.ChangeFindingRemoved: {}}
				deleted := map[syntax.ATURI]bool{}
				for i := range changes {
					c := &changes[i]
					cursor = c.Seq
					switch c.Kind {
					case index.ChangeHead:
						to := syntax.ATURI("")
						if c.New != nil {
							to = c.New.URI
						}
						_, head := was[c.Old.URI]
						for _, led := range moved { // a deleted account goes step by step
							if led[c.Old.URI] {
								head, led[to] = true, true
							}
						}
						require.True(t, head, "%s was no head", c.Old.URI)
						if moved[c.Old.URI] == nil {
							moved[c.Old.URI] = map[syntax.ATURI]bool{}
						}
						moved[c.Old.URI][to] = true
					case index.ChangeFindingAdded, index.ChangeFindingRemoved:
						found[c.Kind][c.URI] = append(found[c.Kind][c.URI], c.Code)
					case index.ChangeDeleted:
						deleted[c.URI] = true
					}
					toMember, err := x.Tells(ctx, guest, c)
					require.NoError(t, err)
					if toMember {
						keepMirror(ctx, t, x, mirror, c)
					}
				}
				for uri, led := range before {
					if led != "" && chosen[uri] != led {
						require.True(t, moved[led][chosen[uri]], "%s led to %s and leads to %q, of which only %v is told", uri, led, chosen[uri], moved[led])
					}
				}
				for uri := range was {
					if _, still := is[uri]; !still {
						require.NotEmpty(t, moved[uri], "%s is no head any more", uri)
					}
				}
				for _, uri := range all {
					for _, code := range saidNow[uri] {
						if !slices.Contains(saidBefore[uri], code) {
							require.Contains(t, found[index.ChangeFindingAdded][uri], code, uri)
						}
					}
					for _, code := range saidBefore[uri] {
						if !deleted[uri] && !slices.Contains(saidNow[uri], code) {
							require.Contains(t, found[index.ChangeFindingRemoved][uri], code, uri)
						}
					}
				}
				was, before, saidBefore = is, chosen, saidNow
			}
			trusting := func() {
				var members []syntax.DID
				for _, h := range authors {
					if rapid.Bool().Draw(t, "trusted") {
						members = append(members, h.author.did)
					}
				}
				if len(members) < 2 {
					err := x.DeleteTrustGroup(ctx, "lab")
					require.True(t, err == nil || errors.Is(err, index.ErrNotFound), err)
				} else {
					require.NoError(t, x.PutTrustGroup(ctx, "lab", members))
				}
				follow()
			}
			for _, e := range weave(t, "next", authors) {
				if rapid.IntRange(0, 4).Draw(t, "trust") == 0 {
					trusting()
				}
				require.NoError(t, x.Apply(ctx, "a", 0, []index.Event{e}))
				follow()
			}
			trusting()
			shown := map[syntax.ATURI]string{}
			for _, uri := range all {
				if rec, err := x.Record(ctx, guest, uri); err == nil && rec.State != index.StateDeleted {
					shown[uri] = rec.CID.String()
				}
			}
			require.Equal(t, shown, mirror)
		})
	})
}

// keepMirror is what a follower does that keeps a list of records.
func keepMirror(ctx context.Context, t require.TestingT, x *index.Index, mirror map[syntax.ATURI]string, c *index.Change) {
	switch c.Kind {
	case index.ChangeCreated, index.ChangeUpdated, index.ChangeReleased, index.ChangeRestored:
		mirror[c.URI] = c.CID.String()
	case index.ChangeDeleted, index.ChangePurged, index.ChangeQuarantined, index.ChangeTakenDown:
		delete(mirror, c.URI)
	case index.ChangeAccount:
		maps.DeleteFunc(mirror, func(uri syntax.ATURI, _ string) bool { return uri.Authority().String() == string(c.DID) })
		if !c.Active {
			return
		}
		list, err := x.ListObservations(ctx, guest, index.ObservationFilter{DID: c.DID, AllVersions: true}, index.Page{Limit: index.MaxLimit})
		require.NoError(t, err)
		for _, o := range list.Items {
			mirror[o.URI] = o.CID.String()
		}
	}
}
