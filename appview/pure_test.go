package appview_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview"
	"herbarium.garden/lexicons"
)

func TestDerivedState(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status   string
		age      time.Duration
		state    string
		inferred bool
		because  string
	}{
		"just now":             {"active", 0, "active", true, "last updated 0 s ago, less than 30 min"},
		"a clock that runs on": {"active", -time.Hour, "active", true, "last updated 0 s ago, less than 30 min"},
		"almost half an hour":  {"active", 30*time.Minute - time.Second, "active", true, "last updated 29 min ago, less than 30 min"},
		"half an hour":         {"active", 30 * time.Minute, "idle", true, "last updated 30 min ago, more than 30 min and less than 24 h"},
		"a day":                {"active", 24 * time.Hour, "stale", true, "says active, but was last updated 24 h ago, more than 24 h"},
		"a week":               {"active", 7 * 24 * time.Hour, "stale", true, "says active, but was last updated 7 d ago, more than 24 h"},
		"ended stays ended":    {"ended", 7 * 24 * time.Hour, "ended", false, "the session says that it ended"},
		"nothing said":         {"", 0, "unknown", false, "the session states no status"},
		"something else said":  {"paused", 0, "unknown", false, `the session states a status that is not known here: "paused"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state, inferred, because := appview.Derive(test.status, noon.Add(-test.age), noon)
			require.Equal(t, test.state, state)
			require.Equal(t, test.inferred, inferred)
			require.Equal(t, test.because, because)
		})
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	family := "\U0001F468\u200D\U0001F469\u200D\U0001F467" // one user-perceived character of eighteen bytes
	for name, test := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short":                    {"abc", 3, "abc"},
		"cut":                      {"abcd", 3, "abc…"},
		"no space before the dots": {"ab cd", 3, "ab…"},
		"never inside a cluster":   {family + family, 1, family + "…"},
		"combining marks":          {"e\u0301e\u0301", 1, "e\u0301…"},
		"empty":                    {"", 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, appview.Shorten(test.text, test.limit))
		})
	}
	require.Equal(t, "one two", appview.Excerpt("one\r\n\x00two\n"))
	require.Equal(t, "first", appview.FirstLine(" \n\tfirst \nsecond"))
	require.Empty(t, appview.FirstLine("\n \n"))
}

func TestMaskCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://user:pw@host/a":                  "https://***@host/a",
		"https://token@host/a":                    "https://***@host/a",
		"HTTPS://token@host":                      "HTTPS://***@host",
		"https://u:p@w@host/a":                    "https://***@host/a",
		"https://u:p/w@host/a":                    "https://***@host/a",
		"https://u:p#w@host/a":                    "https://***@host/a",
		"ssh://git@host/a":                        "ssh://git@host/a",
		"ssh://git:pw@host/a":                     "ssh://***@host/a",
		"git@host:a/b.git":                        "git@host:a/b.git",
		"https://host/@user":                      "https://host/@user",
		"https://host:8443/@user":                 "https://host:8443/@user",
		"https://[::1]:80/@user":                  "https://[::1]:80/@user",
		"https://host/a?to=a@b":                   "https://host/a?to=a@b",
		"curl https://a:b@x 'https://c:d@y/'":     "curl https://***@x 'https://***@y/'",
		"mail a@b, see https://host":              "mail a@b, see https://host",
		"https://***@host":                        "https://***@host",
		"nothing":                                 "nothing",
		"postgres://app:pw@db/x and redis://:p@r": "postgres://***@db/x and redis://***@r",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got, masked := appview.MaskCredentials(text)
			require.Equal(t, want, got)
			require.Equal(t, text != want, masked)
		})
	}
}

func TestDiffTexts(t *testing.T) {
	t.Parallel()
	lines := func(n int, word string) string { return strings.Repeat(word+"\n", n) }
	t.Run("same", func(t *testing.T) {
		t.Parallel()
		d := appview.DiffTexts("a\n", "a\n")
		require.Empty(t, d.Unified)
		require.Zero(t, d.Added+d.Removed)
	})
	t.Run("line numbers count the common start", func(t *testing.T) {
		t.Parallel()
		d := appview.DiffTexts(lines(100, "x")+"a\n"+lines(50, "y"), lines(100, "x")+"b\nc\n"+lines(50, "y"))
		require.Equal(t, "@@ -98,7 +98,8 @@\n x\n x\n x\n-a\n+b\n+c\n y\n y\n y\n", d.Unified)
		require.Equal(t, 2, d.Added)
		require.Equal(t, 1, d.Removed)
	})
	t.Run("from nothing", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, "@@ -0,0 +1,2 @@\n+a\n+b\n", appview.DiffTexts("", "a\nb").Unified)
		require.Equal(t, "@@ -1 +0,0 @@\n-a\n", appview.DiffTexts("a\n", "").Unified)
	})
	t.Run("too many lines are not compared", func(t *testing.T) {
		t.Parallel()
		d := appview.DiffTexts(lines(1500, "a"), lines(1500, "b"))
		require.True(t, d.Truncated)
		require.Empty(t, d.Unified)
	})
	t.Run("a long diff is cut at a line", func(t *testing.T) {
		t.Parallel()
		d := appview.DiffTexts(lines(900, strings.Repeat("é", 40)), lines(900, strings.Repeat("ü", 40)))
		require.True(t, d.Truncated)
		require.LessOrEqual(t, len(d.Unified), appview.MaxDiffBytes)
		require.True(t, strings.HasSuffix(d.Unified, "\n"))
		require.Equal(t, 900, d.Added, "what was cut is still counted")
	})
	t.Run("one long line is cut between characters", func(t *testing.T) {
		t.Parallel()
		for pad := range 4 {
			d := appview.DiffTexts("a", strings.Repeat("x", pad)+strings.Repeat("\U0001F331", appview.MaxDiffBytes))
			require.True(t, d.Truncated)
			require.True(t, utf8.ValidString(d.Unified))
		}
	})
	t.Run("what differs is compared up to a limit of lines", func(t *testing.T) {
		t.Parallel()
		around := lines(3000, "the same")
		d := appview.DiffTexts(around+lines(appview.MaxDiffLines, "a")+around, around+lines(appview.MaxDiffLines, "b")+around)
		require.Equal(t, appview.MaxDiffLines, d.Added)
		require.Equal(t, appview.MaxDiffLines, d.Removed)
		for _, texts := range [][2]string{
			{around + lines(appview.MaxDiffLines+1, "a"), around + "b\n"},
			{"b\n" + around, lines(appview.MaxDiffLines+1, "a") + around},
		} {
			d := appview.DiffTexts(texts[0], texts[1])
			require.True(t, d.Truncated)
			require.Zero(t, d.Added+d.Removed, "not compared at all")
		}
	})
}

func TestResumeCommandQuotesEverything(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		session lexicons.Session
		want    string
	}{
		"plain":               {lexicons.Session{Cwd: "/a/b", Branch: "main", Harness: "claude"}, "cd -- /a/b && git switch main && claude --resume run-1"},
		"a hostile directory": {lexicons.Session{Cwd: "/a'; rm -rf ~; '"}, `cd -- '/a'\''; rm -rf ~; '\'''`},
		"substitutions":       {lexicons.Session{Cwd: "$(id)", Branch: "`id`"}, "cd -- '$(id)' && git switch '`id`'"},
		"a leading dash":      {lexicons.Session{Cwd: "-x"}, "cd -- '-x'"},
		"an option branch":    {lexicons.Session{Cwd: "/a", Branch: "--orphan"}, ""},
		"a line feed":         {lexicons.Session{Cwd: "/a\nid"}, ""},
		"no directory":        {lexicons.Session{Branch: "main"}, ""},
		"unknown harness":     {lexicons.Session{Cwd: "/a", Harness: "x; id"}, "cd -- /a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, note := appview.ResumeCommand(test.session, "run-1")
			require.Equal(t, test.want, got)
			if got == "" {
				require.NotEmpty(t, note, "no command without a reason")
			}
		})
	}
}

func TestMaskedValueLeavesTheRecordAlone(t *testing.T) {
	t.Parallel()
	record := map[string]any{"text": "words", "note": []any{map[string]any{"a/b": "https://u:p@h"}}, "remote": "https://u:p@h"}
	shown, where := appview.MaskedValue(record)
	require.Equal(t, []string{"/note/0/a~1b", "/remote"}, where)
	require.Equal(t, map[string]any{"text": "words", "note": []any{map[string]any{"a/b": "https://***@h"}}, "remote": "https://***@h"}, shown)
	require.Equal(t, "https://u:p@h", record["remote"])
}
