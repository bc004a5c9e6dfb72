package lexicons_test

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// example shows one code: a record that has it, and one that does not. Both
// are laid over the sample of their type; what does not have it is the sample
// itself where nothing else is said.
type example struct {
	of       syntax.NSID // observation when empty
	has, not map[string]any
	// before is what stands at the record's key, laid over the sample: the
	// record is an update then.
	before map[string]any
	// stands is the rest of the world. It may complete has with references
	// into it, under their field.
	stands func(t testing.TB, w *world) map[string]any
	// notStands is the same for the record that does not have it; stands where it is nil.
	notStands func(t testing.TB, w *world) map[string]any
	settings  lexicons.Settings
	rkey      string
	content   string // bytes behind the record's blob
	json      string // instead of a record: what a client sends
	fine      string // and what it should
	cbor      string // hex: what another host holds
	hide      string // a secret, which no document repeats
	mode      lexicons.ValidationMode
}

// run judges one of the two records of an example as a host does, all stages.
func (e example) run(t testing.TB, has bool) []lexicons.Finding {
	t.Helper()
	if e.of == "" {
		e.of = lexicons.ObservationNSID
	}
	if e.json != "" || e.cbor != "" {
		return e.parse(has)
	}
	w := newWorld()
	with, stands, settings, mode := maps.Clone(e.has), e.stands, e.settings, e.mode
	rkey := tid2
	if e.rkey != "" && has {
		rkey = e.rkey
	}
	if !has {
		with, settings, mode = maps.Clone(e.not), lexicons.Settings{}, lexicons.ValidateKnown
		if e.notStands != nil {
			stands = e.notStands
		}
	}
	sample := samples[e.of]
	if e.before != nil {
		w.put(t, e.of, rkey, edit(sample, e.before))
		if !has && e.not == nil {
			with = e.before
		}
	}
	if stands != nil {
		for name, v := range stands(t, w) {
			if _, given := with[name]; !given {
				with = edit(with, map[string]any{name: v})
			}
		}
	}
	ch := change(t, e.of, rkey, edit(sample, with))
	if prev := w.records[ch.URI]; prev != nil {
		ch.Action, ch.Prev = lexicons.Update, prev
	}
	return e.judge(t, w, ch, settings, mode, has)
}

func (e example) judge(t testing.TB, w *world, ch lexicons.Change, settings lexicons.Settings, mode lexicons.ValidationMode, has bool) []lexicons.Finding {
	rules := lexicons.NewRules(catalog(t), settings)
	if _, err := catalog(t).Validate(ch.Record, ch.RecordKey, mode); err != nil {
		return refusedFindings(err)
	}
	found, err := rules.Check(context.Background(), ch, w)
	if err != nil {
		t.Fatal(err)
	}
	content := e.content
	if !has && e.content != "" {
		content = lexicons.ReadObservation(ch.Record.Value).Text
	}
	if content != "" {
		found = append(found, rules.CheckContent(ch, []byte(content))...)
	}
	return found
}

func (e example) parse(has bool) []lexicons.Finding {
	var err error
	switch {
	case !has && e.cbor != "":
		_, err = lexicons.ParseCBOR("com.example.note", unhex(fineCBOR))
	case e.cbor != "":
		_, err = lexicons.ParseCBOR("com.example.note", unhex(e.cbor))
	case has:
		_, err = lexicons.ParseJSON("com.example.note", []byte(e.json))
	default:
		_, err = lexicons.ParseJSON("com.example.note", []byte(e.fine))
	}
	return refusedFindings(err)
}

// fineCBOR is {"$type": "com.example.note"}.
const fineCBOR = "a1652474797065" + "70636f6d2e6578616d706c652e6e6f7465"

func unhex(s string) []byte {
	raw, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return raw
}

func refusedFindings(err error) []lexicons.Finding {
	var refused *lexicons.Refused
	if !errors.As(err, &refused) {
		return nil
	}
	return refused.Findings
}

// superseding is a world in which tid1 stands and the record supersedes it.
func superseding(changes map[string]any) func(testing.TB, *world) map[string]any {
	return func(t testing.TB, w *world) map[string]any {
		return map[string]any{"supersedes": w.put(t, lexicons.ObservationNSID, tid1, edit(observation, changes))}
	}
}

// uploaded is a world in which the account has the blob of the samples.
func uploaded(mime string, size int64) func(testing.TB, *world) map[string]any {
	return func(_ testing.TB, w *world) map[string]any {
		c, err := cid.Decode(blobCID)
		if err != nil {
			panic(err)
		}
		w.blobs[c] = &lexicons.StoredBlob{CID: c, MimeType: mime, Size: size}
		return nil
	}
}

// conversing is a world in which the conversation of the sample turn stands.
func conversing(t testing.TB, w *world) map[string]any {
	w.put(t, lexicons.ChatSessionNSID, tid1, chatSession)
	return nil
}

// nthTID is the n-th record key of a world, a second apart.
func nthTID(n int) string {
	return syntax.NewTIDFromTime(now.Add(time.Duration(n)*time.Second), 7).String()
}

// lineOf is a world with a line of classes, and the record's parent is the last.
func lineOf(n int) func(testing.TB, *world) map[string]any {
	return func(t testing.TB, w *world) map[string]any {
		bare := edit(class, map[string]any{"skills": []any{}})
		parent := w.put(t, lexicons.ClassNSID, nthTID(0), bare)
		for i := range n - 1 {
			parent = w.put(t, lexicons.ClassNSID, nthTID(i+1), edit(bare, map[string]any{"parent": parent}))
		}
		return map[string]any{"parent": parent, "skills": []any{}}
	}
}

// skilled is a world with skills laid over the sample, which the record names in field.
func skilled(field string, skills ...map[string]any) func(testing.TB, *world) map[string]any {
	return func(t testing.TB, w *world) map[string]any {
		var refs []any
		for i, s := range skills {
			refs = append(refs, w.put(t, lexicons.SkillNSID, nthTID(i), edit(skill, s)))
		}
		return map[string]any{field: refs}
	}
}

// examplesInLine is a world with skills each of which has the one before as its example.
func examplesInLine(n int) func(testing.TB, *world) map[string]any {
	return func(t testing.TB, w *world) map[string]any {
		refs := []any{}
		for i := range n {
			refs = []any{w.put(t, lexicons.SkillNSID, nthTID(i), edit(skill, map[string]any{"examples": refs}))}
		}
		return map[string]any{"examples": refs}
	}
}

func source(kind, value string) map[string]any {
	return map[string]any{"source": map[string]any{"kind": kind, "value": value}}
}

func citing(changes map[string]any) map[string]any {
	return map[string]any{"citations": []any{edit(citation(0, 24), changes)}}
}

func selecting(selector map[string]any) map[string]any {
	return citing(map[string]any{"selector": selector})
}
