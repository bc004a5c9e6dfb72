package index_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// noteNSID is a record type that this program knows nothing of.
const noteNSID syntax.NSID = "com.example.field.note"

// noteLexicon is a lexicon of it whose text has at most so many bytes.
func noteLexicon(t require.TestingT, most int) *lexicons.Lexicon {
	l, err := lexicons.ParseLexicon([]byte(fmt.Sprintf(`{"lexicon":1,"id":"com.example.field.note","defs":{"main":{"type":"record","key":"any",
		"record":{"type":"object","required":["text"],"properties":{"text":{"type":"string","maxLength":%d}}}}}}`, most)))
	require.NoError(t, err)
	return l
}

// without is the program's lexicon of a record type that does not ask for a field.
func without(t require.TestingT, nsid syntax.NSID, field string) *lexicons.Lexicon {
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	var file map[string]any
	require.NoError(t, json.Unmarshal(catalog.Lexicon(nsid).Source, &file))
	record := file["defs"].(map[string]any)["main"].(map[string]any)["record"].(map[string]any)
	record["required"] = slices.DeleteFunc(record["required"].([]any), func(v any) bool { return v == field })
	raw, err := json.Marshal(file)
	require.NoError(t, err)
	l, err := lexicons.ParseLexicon(raw)
	require.NoError(t, err)
	return l
}

func ordered(set ...*lexicons.Lexicon) []*lexicons.Lexicon {
	slices.SortFunc(set, func(a, b *lexicons.Lexicon) int { return strings.Compare(string(a.NSID), string(b.NSID)) })
	return set
}

// settle judges again whatever is to be judged again.
func settle(t require.TestingT, x *index.Index) {
	for range 1000 {
		more, err := x.Revalidate(testContext(t))
		require.NoError(t, err)
		if !more {
			return
		}
	}
	require.Fail(t, "there is always more")
}

func stateOf(t *testing.T, x *index.Index, uri syntax.ATURI) index.State {
	t.Helper()
	rec, err := x.Record(t.Context(), admin, uri)
	require.NoError(t, err)
	return rec.State
}

// A record of an unknown type is kept as it is; when its lexicon comes, those
// that do not fit are quarantined; when that changes, they are released.
func TestLexiconComesAndChanges(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		require.NoError(t, x.Adopt(t.Context()))
		c, short := a.put(t, noteNSID, "short", map[string]any{"text": "fits"})
		apply(t, x, c)
		c, long := a.put(t, noteNSID, "long", map[string]any{"text": "does not fit", "via": strong(short)})
		apply(t, x, c)
		settle(t, x)
		require.Equal(t, index.StateOK, stateOf(t, x, long.URI))

		effects, err := x.TrySetLexicons(t.Context(), ordered(noteLexicon(t, 5)))
		require.NoError(t, err)
		require.Equal(t, []lexicons.Effect{{Collection: noteNSID, Seen: 2, Quarantined: 1, Examples: uris(long)}}, effects)
		require.NoError(t, x.SetLexicons(t.Context(), ordered(noteLexicon(t, 5))))
		// What arrives now is judged by it at once, what was here waits for its turn.
		c, late := a.put(t, noteNSID, "late", map[string]any{"text": "is late too"})
		apply(t, x, c)
		require.Equal(t, index.StateQuarantined, stateOf(t, x, late.URI))
		require.Equal(t, index.StateOK, stateOf(t, x, long.URI))
		status, err := x.Status(t.Context())
		require.NoError(t, err)
		require.Contains(t, status.Revalidating, noteNSID)
		settle(t, x)
		status, err = x.Status(t.Context())
		require.NoError(t, err)
		require.Empty(t, status.Revalidating)
		require.Equal(t, index.StateQuarantined, stateOf(t, x, long.URI))
		require.Equal(t, index.StateOK, stateOf(t, x, short.URI))
		_, err = x.Record(t.Context(), guest, long.URI)
		require.ErrorIs(t, err, index.ErrNotFound)
		found, err := x.Findings(t.Context(), admin, []syntax.ATURI{long.URI})
		require.NoError(t, err)
		require.Equal(t, []string{lexicons.CodeInvalidRecord}, codes(found[long.URI]))
		progress, err := x.Revalidations(t.Context())
		require.NoError(t, err)
		require.Contains(t, progress, index.Revalidation{Collection: noteNSID, Seen: 3, Quarantined: 1, RequestedAt: now, FinishedAt: now})

		effects, err = x.TrySetLexicons(t.Context(), ordered(noteLexicon(t, 50)))
		require.NoError(t, err)
		require.Equal(t, []lexicons.Effect{{Collection: noteNSID, Seen: 3, Released: 2}}, effects)
		require.NoError(t, x.SetLexicons(t.Context(), ordered(noteLexicon(t, 50))))
		settle(t, x)
		for _, ref := range []lexicons.StrongRef{short, long, late} {
			require.Equal(t, index.StateOK, stateOf(t, x, ref.URI))
		}
		found, err = x.Findings(t.Context(), admin, []syntax.ATURI{long.URI})
		require.NoError(t, err)
		require.Empty(t, found)
		was := dump(t, db)
		require.NoError(t, x.Reindex(t.Context()))
		require.Equal(t, was, dump(t, db))
	})
}

// Two processes on one database: a change that one of them makes holds for what
// the other applies next, and either goes on with the walk.
func TestLexiconChangesUnderAnotherProcess(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, other, a := newIndex(t, db), newIndex(t, db), newAuthor(ada)
		require.NoError(t, x.Adopt(t.Context()))
		c, early := a.put(t, noteNSID, "early", map[string]any{"text": "does not fit"})
		apply(t, other, c)
		require.NoError(t, x.SetLexicons(t.Context(), ordered(noteLexicon(t, 5))))
		c, late := a.put(t, noteNSID, "late", map[string]any{"text": "nor does this"})
		apply(t, other, c)
		require.Equal(t, index.StateQuarantined, stateOf(t, other, late.URI))
		settle(t, other)
		require.Equal(t, index.StateQuarantined, stateOf(t, x, early.URI))
		more, err := x.Revalidate(t.Context())
		require.NoError(t, err)
		require.False(t, more, "the other has done it all")
	})
}

// A walk that ends in the middle, with its process, goes on where it was: its
// position is committed with each page.
func TestRevalidationGoesOn(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, a := newIndex(t, db), newAuthor(ada)
		require.NoError(t, x.Adopt(t.Context()))
		const records = 230 // three pages
		var all []index.Event
		for n := range records {
			c, _ := a.put(t, noteNSID, fmt.Sprintf("n%03d", n), map[string]any{"text": strings.Repeat("x", n%4)})
			all = append(all, c)
		}
		require.NoError(t, x.Apply(t.Context(), "test", 0, all))
		require.NoError(t, x.SetLexicons(t.Context(), ordered(noteLexicon(t, 1))))
		progress := func() index.Revalidation {
			list, err := x.Revalidations(t.Context())
			require.NoError(t, err)
			for _, r := range list {
				if r.Collection == noteNSID {
					return r
				}
			}
			return index.Revalidation{}
		}
		more, err := x.Revalidate(t.Context())
		require.NoError(t, err)
		require.True(t, more)
		require.EqualValues(t, 100, progress().Seen)
		require.True(t, progress().FinishedAt.IsZero())

		settle(t, newIndex(t, db))
		// Those that went into quarantine stand behind the others in the order
		// of the walk, and are met a second time.
		require.EqualValues(t, 114, progress().Quarantined)
		require.False(t, progress().FinishedAt.IsZero())

		var listed []syntax.ATURI
		for page := (index.Page{Limit: 30}); ; {
			list, err := x.ListQuarantine(t.Context(), index.QuarantineFilter{Collection: noteNSID}, page)
			require.NoError(t, err)
			for _, r := range list.Items {
				require.Equal(t, index.StateQuarantined, r.State)
				listed = append(listed, r.URI)
			}
			if page.After = list.Next; page.After == nil {
				break
			}
		}
		require.Len(t, listed, 114)
		require.True(t, slices.IsSorted(listed))
		for _, c := range []struct {
			filter index.QuarantineFilter
			n      int
		}{
			{index.QuarantineFilter{DID: ada}, 100}, {index.QuarantineFilter{DID: "did:web:ada.tes"}, 0}, {index.QuarantineFilter{DID: bob}, 0},
			{index.QuarantineFilter{Collection: lexicons.ClaimNSID}, 0},
			{index.QuarantineFilter{Code: lexicons.CodeInvalidRecord}, 100}, {index.QuarantineFilter{Code: "other"}, 0},
		} {
			list, err := x.ListQuarantine(t.Context(), c.filter, index.Page{Limit: 100})
			require.NoError(t, err)
			require.Len(t, list.Items, c.n, "%+v", c.filter)
		}
	})
}

// Events, changes and pages of two processes at once end where a replay does.
func TestRevalidationBesideApplying(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x, other, a := newIndex(t, db), newIndex(t, db), newAuthor(ada)
		require.NoError(t, x.Adopt(t.Context()))
		var last *lexicons.StrongRef
		var events []index.Event
		for n := range 60 {
			value := observation("text", last)
			if n%3 == 0 {
				delete(value, "method")
			}
			c, ref := a.put(t, lexicons.ObservationNSID, key(n), value)
			events, last = append(events, c), &ref
		}
		loose := []*lexicons.Lexicon{without(t, lexicons.ObservationNSID, "method")}
		var all errgroup.Group
		all.Go(func() error {
			for _, e := range events {
				if err := x.Apply(t.Context(), "test", 0, []index.Event{e}); err != nil {
					return err
				}
			}
			return nil
		})
		all.Go(func() error {
			for n := range 12 {
				if err := other.SetLexicons(t.Context(), loose[:n%2]); err != nil {
					return err
				}
			}
			return nil
		})
		for _, walker := range []*index.Index{x, other} {
			all.Go(func() error {
				for range 40 {
					if _, err := walker.Revalidate(t.Context()); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, all.Wait())
		settle(t, other)
		was := dump(t, db)
		require.NoError(t, x.Reindex(t.Context()))
		require.Equal(t, was, dump(t, db))
		require.Contains(t, was["records"], "state:ok")
	})
}

// A program of another edition judges all again; one that was not replaced yet
// and wrote meanwhile leaves nothing that was judged by the old rules.
func TestEditionChanges(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		edition := func(s lexicons.Settings) *index.Index {
			catalog, err := lexicons.Load()
			require.NoError(t, err)
			x, err := index.New(index.Config{DB: db, Rules: lexicons.NewRules(catalog, s)})
			require.NoError(t, err)
			return x
		}
		old, a := edition(lexicons.Settings{}), newAuthor(ada)
		require.NoError(t, old.Adopt(t.Context()))
		leak := observation("the key is AKIA"+"QWERTYUIOPASDFGH", nil)
		c, first := a.put(t, lexicons.ObservationNSID, key(2), leak)
		apply(t, old, c)
		settle(t, old)
		said := func(x *index.Index, uri syntax.ATURI) []string {
			found, err := x.Findings(t.Context(), admin, []syntax.ATURI{uri})
			require.NoError(t, err)
			return codes(found[uri])
		}
		require.Contains(t, said(old, first.URI), lexicons.CodeSecretDetected)

		fresh := edition(lexicons.Settings{Secrets: lexicons.PolicyOff})
		require.NoError(t, fresh.Adopt(t.Context()))
		more, err := old.Revalidate(t.Context())
		require.NoError(t, err)
		require.False(t, more, "its edition does not hold any more")
		settle(t, fresh)
		require.NotContains(t, said(fresh, first.URI), lexicons.CodeSecretDetected)

		c, second := a.put(t, lexicons.ObservationNSID, key(3), leak)
		apply(t, old, c)
		require.Contains(t, said(fresh, second.URI), lexicons.CodeSecretDetected)
		settle(t, fresh)
		require.NotContains(t, said(fresh, second.URI), lexicons.CodeSecretDetected)
		more, err = fresh.Revalidate(t.Context())
		require.NoError(t, err)
		require.False(t, more)
	})
}

// What a former edition derived otherwise, such as the key of a repository before
// its spellings were brought together, is derived anew.
func TestEditionRenewsWhatRecordsAreFoundBy(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		catalog, err := lexicons.Load()
		require.NoError(t, err)
		edition := func(s lexicons.Settings) *index.Index {
			x, err := index.New(index.Config{DB: db, Rules: lexicons.NewRules(catalog, s)})
			require.NoError(t, err)
			return x
		}
		old, a := edition(lexicons.Settings{}), newAuthor(ada)
		value := session("2026-11-30T10:00:00.000Z", "m1", "active")
		value["repo"] = "git@GIT.example:Team/Tool.git"
		c, ref := a.put(t, lexicons.SessionNSID, key(1), value)
		apply(t, old, c)
		require.NoError(t, db.Write.Exec("UPDATE sessions SET repo_key = 'as it was spelled'").Error)

		fresh := edition(lexicons.Settings{Secrets: lexicons.PolicyOff})
		require.NoError(t, fresh.Adopt(t.Context()))
		settle(t, fresh)
		list, err := fresh.ListSessions(t.Context(), guest, index.SessionFilter{Repo: "https://git.example/team/tool"}, index.Page{})
		require.NoError(t, err)
		require.Len(t, list.Items, 1)
		require.Equal(t, ref.URI, list.Items[0].URI)
		require.Equal(t, "git.example/team/tool", list.Items[0].RepoKey)
	})
}

// Whenever the lexicons change, and however the walks are cut and woven with
// events, what comes of it at rest is what a replay of the journal makes under
// the lexicons of the end.
func TestRevalidationEndsWhereReindexDoes(t *testing.T) {
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		x := newIndex(t, db)
		require.NoError(t, x.Adopt(t.Context()))
		loose := []*lexicons.Lexicon{
			without(t, lexicons.ObservationNSID, "method"), without(t, lexicons.ChatSessionNSID, "createdAt"), without(t, lexicons.MessageNSID, "role"),
			without(t, lexicons.SessionNSID, "summary"), without(t, lexicons.ClassNSID, "description"), without(t, lexicons.SkillNSID, "description"),
		}
		states := map[string]bool{}
		rapid.Check(t, func(rt *rapid.T) {
			wipe(t.Context(), rt, db)
			require.NoError(rt, x.SetLexicons(t.Context(), nil))
			settle(rt, x)
			world := newFlawedWorld()
			choose := func() []*lexicons.Lexicon {
				var set []*lexicons.Lexicon
				for _, l := range loose {
					if rapid.Bool().Draw(rt, "loose") {
						set = append(set, l)
					}
				}
				if most := rapid.IntRange(0, 3).Draw(rt, "note"); most > 0 {
					set = append(set, noteLexicon(rt, most))
				}
				return ordered(set...)
			}
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				switch rapid.IntRange(0, 6).Draw(rt, "step") {
				case 0:
					require.NoError(rt, x.SetLexicons(t.Context(), choose()))
				case 1:
					_, err := x.Revalidate(t.Context())
					require.NoError(rt, err)
				case 2:
					_, err := x.RevalidateRecords(t.Context(), world.some(rt))
					require.NoError(rt, err)
				default:
					require.NoError(rt, x.Apply(t.Context(), "test", 0, world.events(rt)))
				}
			}
			settle(rt, x)
			was := dump(t, db)
			require.NoError(rt, x.Reindex(t.Context()))
			is := dump(t, db)
			for table := range derivedColumns {
				require.Equal(rt, was[table], is[table], table)
			}
			for _, s := range []index.State{index.StateOK, index.StateViolated, index.StateQuarantined, index.StateDeleted} {
				states[string(s)] = states[string(s)] || strings.Contains(was["records"], "state:"+string(s))
			}
		})
		require.Len(t, states, 4)
		for state, seen := range states {
			require.True(t, seen, state)
		}
	})
}
