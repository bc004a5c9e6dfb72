package lexicons_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"herbarium.garden/lexicons"
)

const bar = "███"

func TestCompareMessages(t *testing.T) {
	ref := strongRef(observationURI(tid1))
	steps := message["steps"].([]any)
	withheld := map[string]any{"withheld": true, "text": "", "model": nil, "steps": nil}
	for _, c := range []struct {
		name     string
		old, now map[string]any // laid over the sample
		kinds    []lexicons.RewriteKind
		path     string // where it is refused; "-" for accepted
	}{
		{"nothing", nil, nil, nil, "-"},
		{"covered at the end", nil, map[string]any{"text": "The seeds in drawer four are " + bar}, kinds("redacted"), "-"},
		{"covered at the start", nil, map[string]any{"text": bar + " in drawer four are mustard."}, kinds("redacted"), "-"},
		{"covered twice", nil, map[string]any{"text": "The " + bar + " in " + bar + " four are mustard."}, kinds("redacted"), "-"},
		{"covered whole", nil, map[string]any{"text": bar}, kinds("redacted"), "-"},
		{"covered again", map[string]any{"text": "a " + bar + " b secret c"}, map[string]any{"text": "a " + bar + " b " + bar + " c"}, kinds("redacted"), "-"},
		{"a bar over a bar and more", map[string]any{"text": "a " + bar + " b"}, map[string]any{"text": "a " + bar}, kinds("redacted"), "-"},
		{"words removed without a bar", nil, map[string]any{"text": "The seeds are mustard."}, kinds("text-changed"), "/text"},
		{"a bar that covers nothing", nil, map[string]any{"text": "The " + bar + "seeds in drawer four are mustard."}, kinds("text-changed"), "/text"},
		{"a bar of two blocks", nil, map[string]any{"text": "The seeds in drawer four are ██"}, kinds("text-changed"), "/text"},
		{"reworded beside a bar", nil, map[string]any{"text": "The leeds in " + bar + " four are mustard."}, kinds("text-changed"), "/text"},
		{"pieces out of order", nil, map[string]any{"text": "The " + bar + "four" + bar + "seeds" + bar + "."}, kinds("text-changed"), "/text"},
		{"uncovered", map[string]any{"text": "a " + bar + " b"}, map[string]any{"text": "a secret b"}, kinds("unredacted"), "/text"},
		{"emptied", nil, map[string]any{"text": ""}, kinds("text-changed"), "/text"},

		{"withheld", nil, withheld, kinds("withheld"), "-"},
		{"revealed", withheld, nil, kinds("revealed", "other-changed"), "/withheld"},
		{"withheld and another role", nil, edit(withheld, map[string]any{"role": "user"}), kinds("withheld", "other-changed"), "/role"},

		{"a step removed", nil, map[string]any{"steps": steps[1:]}, kinds("steps-changed"), "-"},
		{"all steps removed", nil, map[string]any{"steps": nil}, kinds("steps-changed"), "-"},
		{"a step reworded", nil, map[string]any{"steps": []any{map[string]any{"tool": "open-drawer", "summary": "drawer five"}, steps[1]}}, kinds("steps-changed"), "/steps/0"},
		{"steps swapped", nil, map[string]any{"steps": []any{steps[1], steps[0]}}, kinds("steps-changed"), "/steps/1"},
		{"a step added", nil, map[string]any{"steps": append([]any{steps[0]}, steps...)}, kinds("steps-changed"), "/steps/1"},

		{"refs added", nil, map[string]any{"refs": []any{ref}}, kinds("refs-changed"), "-"},
		{"refs removed", map[string]any{"refs": []any{ref}}, nil, kinds("refs-changed"), "-"},
		{"mentions added", nil, map[string]any{"mentions": []any{string(other)}}, kinds("mentions-changed"), "-"},

		{"role", nil, map[string]any{"role": "user"}, kinds("other-changed"), "/role"},
		{"session", nil, map[string]any{"session": "at://" + string(author) + "/click.aligned.chat.session/" + tid2}, kinds("other-changed"), "/session"},
		{"createdAt", nil, map[string]any{"createdAt": "2026-02-24T00:00:01Z"}, kinds("other-changed"), "/createdAt"},
		{"model", nil, map[string]any{"model": "example/model-2"}, kinds("other-changed"), "/model"},
		{"model removed", nil, map[string]any{"model": nil}, kinds("other-changed"), "/model"},
		{"unknown field added", nil, map[string]any{"note": "x"}, kinds("other-changed"), "/note"},
		{"unknown field removed", map[string]any{"note": "x"}, nil, nil, "-"},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := record(t, lexicons.MessageNSID, edit(message, c.old)).Value
			now := record(t, lexicons.MessageNSID, edit(message, c.now)).Value
			got := lexicons.CompareMessages(old, now)
			require.Equal(t, c.kinds, got.Kinds)
			if c.path == "-" {
				require.Empty(t, got.Refused)
				return
			}
			require.NotEmpty(t, got.Refused)
			require.Equal(t, c.path, got.Path)
		})
	}
}

func kinds(names ...lexicons.RewriteKind) []lexicons.RewriteKind { return names }

// Whatever spans are covered, bars of an earlier redaction included, the result
// is a redaction; and a word that the old text does not have cannot come by one.
func TestRedactionProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", " ", "é", "🌱", bar}), 1, 30).Draw(t, "words")
		from := rapid.IntRange(0, len(words)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, len(words)).Draw(t, "to")
		old := strings.Join(words, "")
		now := strings.Join(words[:from], "") + bar + strings.Join(words[to:], "")

		got := lexicons.CompareMessages(map[string]any{"text": old}, map[string]any{"text": now})
		require.Empty(t, got.Refused, "%q -> %q", old, now)

		forged := now + "z"
		got = lexicons.CompareMessages(map[string]any{"text": old}, map[string]any{"text": forged})
		require.NotEmpty(t, got.Refused, "%q -> %q", old, forged)
	})
}
