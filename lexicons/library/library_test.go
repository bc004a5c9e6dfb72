package library_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/library"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// eachDatabase runs a test on both databases, in both dialects: the tables are one.
func eachDatabase(t *testing.T, fn func(t *testing.T, db *migrations.DB)) {
	t.Helper()
	for _, name := range []migrations.Database{migrations.PDS, migrations.Appview} {
		t.Run(string(name), func(t *testing.T) { dbtest.Each(t, name, fn) })
	}
}

func open(t *testing.T, db *migrations.DB) *library.Library {
	t.Helper()
	catalog, err := lexicons.Load()
	require.NoError(t, err)
	l, err := library.New(db, lexicons.NewRules(catalog, lexicons.Settings{}), func() time.Time { return noon })
	require.NoError(t, err)
	return l
}

// recordType is a lexicon of a record type with a field of at most so many bytes.
func recordType(t *testing.T, nsid string, most int) *lexicons.Lexicon {
	t.Helper()
	l, err := lexicons.ParseLexicon([]byte(fmt.Sprintf(`{"lexicon":1,"id":%q,"defs":{"main":{"type":"record","key":"any",
		"record":{"type":"object","properties":{"text":{"type":"string","maxLength":%d}}}}}}`, nsid, most)))
	require.NoError(t, err)
	return l
}

func put(ls ...*lexicons.Lexicon) lexicons.Proposal { return lexicons.Proposal{Put: ls} }

func change(t *testing.T, l *library.Library, p lexicons.Proposal) *lexicons.Plan {
	t.Helper()
	plan, err := l.Change(t.Context(), p, false)
	require.NoError(t, err)
	return plan
}

func added(l *library.Library) []syntax.NSID {
	var nsids []syntax.NSID
	for _, a := range l.Current().Catalog.Added() {
		nsids = append(nsids, a.NSID)
	}
	return nsids
}

func TestChangeIsKeptAndReachesOthers(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db *migrations.DB) {
		l, replica := open(t, db), open(t, db)
		before := l.Current()
		require.Empty(t, change(t, l, put(recordType(t, "com.example.a", 1), recordType(t, "com.example.b", 1))).Problems)
		require.Equal(t, []syntax.NSID{"com.example.a", "com.example.b"}, added(l))
		require.True(t, l.Current().Rules.Catalog().Known("com.example.a"), "the rules see it too")
		require.False(t, before.Catalog.Known("com.example.a"), "what was given out stays")

		require.Empty(t, added(replica), "not before it looks")
		require.NoError(t, replica.Refresh(t.Context()))
		require.Equal(t, added(l), added(replica))
		require.Equal(t, l.Current().Generation, replica.Current().Generation)

		restarted := open(t, db)
		entries, err := restarted.Added(t.Context())
		require.NoError(t, err)
		require.Len(t, entries, 2)
		require.Equal(t, noon, entries[0].AddedAt)
		require.True(t, entries[0].InForce)
		require.Equal(t, recordType(t, "com.example.a", 1).Source, entries[0].Source)
		require.Empty(t, change(t, restarted, lexicons.Proposal{Remove: []syntax.NSID{"com.example.a"}}).Problems)
		require.NoError(t, l.Refresh(t.Context()))
		require.Equal(t, []syntax.NSID{"com.example.b"}, added(l))
	})
}

// What is refused, tried or there already changes nothing, and makes no replica look.
func TestChangeThatIsNone(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db *migrations.DB) {
		l := open(t, db)
		change(t, l, put(recordType(t, "com.example.a", 2)))
		was := l.Current()
		plan, err := l.Change(t.Context(), put(recordType(t, "com.example.b", 1)), true)
		require.NoError(t, err)
		require.Contains(t, plan.Concerned, syntax.NSID("com.example.b"))
		require.NotEmpty(t, change(t, l, put(recordType(t, "com.example.a", 1))).Problems)
		require.Empty(t, change(t, l, put(recordType(t, "com.example.a", 2))).Problems)
		require.Same(t, was, l.Current())
	})
}

// Inside a transaction a library is what that transaction sees; nothing of one
// that is rolled back is ever given out.
func TestAssumeInsideATransaction(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db *migrations.DB) {
		l := open(t, db)
		change(t, l, put(recordType(t, "com.example.a", 1), recordType(t, "com.example.b", 1)))
		undone := errors.New("undone")
		set := []*lexicons.Lexicon{recordType(t, "com.example.b", 2), recordType(t, "com.example.c", 1)}
		for _, end := range []error{undone, nil} {
			err := db.Tx(t.Context(), func(tx *gorm.DB) error {
				plan, err := l.Assume(tx, set)
				require.NoError(t, err)
				require.Subset(t, plan.Concerned, []syntax.NSID{"com.example.a", "com.example.b", "com.example.c"}, "in whatever way they changed")
				return end
			})
			require.ErrorIs(t, err, end)
			require.Equal(t, []syntax.NSID{"com.example.a", "com.example.b"}, added(l), "not before a look behind the commit")
			same, err := l.Holds(t.Context(), set)
			require.NoError(t, err)
			require.Equal(t, end == nil, same)
		}
		require.Equal(t, []syntax.NSID{"com.example.b", "com.example.c"}, added(l))
		was := l.Current()
		require.NoError(t, db.Tx(t.Context(), func(tx *gorm.DB) error {
			plan, err := l.Assume(tx, set)
			require.Empty(t, plan.Concerned)
			return err
		}))
		require.NoError(t, l.Refresh(t.Context()))
		require.Same(t, was, l.Current(), "to assume what is there is no change")
	})
}

// Changes that cross come one after the other, each planned on what the one
// before left.
func TestChangesThatCross(t *testing.T) {
	eachDatabase(t, func(t *testing.T, db *migrations.DB) {
		libraries := []*library.Library{open(t, db), open(t, db)}
		const each = 8
		var done sync.WaitGroup
		errs := make([]error, 2*each)
		for n := range errs {
			l := recordType(t, fmt.Sprintf("com.example.type%d", n), 1)
			done.Go(func() { _, errs[n] = libraries[n%2].Change(t.Context(), put(l), false) })
		}
		done.Wait()
		require.NoError(t, errors.Join(errs...))
		for _, l := range libraries {
			require.NoError(t, l.Refresh(t.Context()))
			require.Len(t, added(l), 2*each)
			require.EqualValues(t, 2*each, l.Current().Generation)
		}
	})
}
