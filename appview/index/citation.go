package index

import (
	"context"
	"fmt"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
)

// Checked is a citation with what came of checking it, in a world at rest.
type Checked struct {
	lexicons.Citation
	Tested    lexicons.Tested     // on the version that is pinned; CitationUnknown with ReasonNotHeld when that is not here
	Deleted   bool                // the target was
	Freshness lexicons.Freshness  // "" when nothing superseded the target
	Head      *lexicons.StrongRef // what the target's chain ends in, when that is something else; nil otherwise

	waits []*contentTest // for bytes that nobody has looked at yet
}

// contentTest is a test of the bytes behind a record.
type contentTest struct {
	did  syntax.DID
	test *lexicons.ContentTest
}

func (t *contentTest) key() contentKey {
	return contentKey{did: string(t.did), cid: t.test.Blob.CID.String(), test: t.test.Key()}
}

// contentKey names a test in the table of their outcomes.
type contentKey struct{ did, cid, test string }

// examineBatch bounds how many targets of a record are in memory at once.
const examineBatch = 32

// Examine checks citations of a record, in the order in which they come: its
// own or, as a dry run, those of one that nobody wrote yet. It takes no account
// of who asks: the caller shows nothing of a target that is not for its viewer.
// What depends on bytes that were not looked at is unknown.
func (x *Index) Examine(ctx context.Context, citing map[string]any, citations []lexicons.Citation) ([]Checked, error) {
	return examine(x.db.Read.WithContext(ctx), citing, citations)
}

func examine(db *gorm.DB, citing map[string]any, citations []lexicons.Citation) ([]Checked, error) {
	var out []Checked
	for part := range slices.Chunk(citations, examineBatch) {
		e, err := gather(db, part)
		if err != nil {
			return nil, fmt.Errorf("gather what is cited: %w", err)
		}
		for _, c := range part {
			out = append(out, e.check(citing, c))
		}
	}
	return out, nil
}

// evidence is what citations are checked against.
type evidence struct {
	pinned   map[string]map[string]any     // contents by versionKey
	deleted  map[string]bool               // targets
	heads    map[string]lexicons.StrongRef // by target, of those that are superseded
	current  map[string]map[string]any     // contents of heads by URI
	outcomes map[contentKey]lexicons.Tested
}

// gather reads it in four queries.
func gather(db *gorm.DB, citations []lexicons.Citation) (*evidence, error) {
	e := &evidence{
		pinned: map[string]map[string]any{}, deleted: map[string]bool{}, heads: map[string]lexicons.StrongRef{},
		current: map[string]map[string]any{}, outcomes: map[contentKey]lexicons.Tested{},
	}
	var uris, cids []string
	for _, c := range citations {
		if c.Target != nil {
			uris, cids = append(uris, string(c.Target.URI)), append(cids, c.Target.CID.String())
		}
	}
	if len(uris) == 0 {
		return e, nil
	}
	if err := e.gatherPinned(db, uris, cids); err != nil {
		return nil, err
	}
	if err := e.gatherHeads(db, uris); err != nil {
		return nil, err
	}
	return e, e.gatherOutcomes(db, citations)
}

// gatherPinned reads the pinned versions and which targets were deleted. What is
// quarantined is no evidence, nor is a message that is withheld.
func (e *evidence) gatherPinned(db *gorm.DB, uris, cids []string) error {
	var rows []struct {
		URI        string `gorm:"column:uri"`
		CID        string `gorm:"column:cid"`
		Collection string
		Record     []byte
	}
	err := db.Raw(`SELECT j.uri, j.cid, j.collection, j.record FROM journal j JOIN records r ON r.uri = j.uri
		WHERE j.uri IN ? AND j.cid IN ? AND j.record IS NOT NULL AND r.state IN ?`, uris, cids, live).Scan(&rows).Error
	if err != nil {
		return err
	}
	for _, r := range rows {
		if value := evidenceOf(r.Collection, r.Record); value != nil {
			e.pinned[versionKey(r.URI, r.CID)] = value
		}
	}
	var gone []string
	if err := db.Raw("SELECT uri FROM records WHERE uri IN ? AND state = ?", uris, string(StateDeleted)).Scan(&gone).Error; err != nil {
		return err
	}
	for _, uri := range gone {
		e.deleted[uri] = true
	}
	return nil
}

// evidenceOf reads stored content; nil when nothing of it may be shown.
func evidenceOf(collection string, content []byte) map[string]any {
	content = servable(collection, content)
	if content == nil {
		return nil
	}
	rec, err := lexicons.ParseCBOR(syntax.NSID(collection), content)
	if err != nil {
		return nil
	}
	return rec.Value
}

// gatherHeads reads what superseded the targets in the end.
func (e *evidence) gatherHeads(db *gorm.DB, uris []string) error {
	var rows []struct {
		Target  string
		HeadURI string `gorm:"column:head_uri"`
		CID     string `gorm:"column:cid"`
		Record  []byte
	}
	err := db.Raw(`SELECT n.uri AS target, b.head_uri, r.cid, j.record FROM chain_nodes n
		JOIN chain_branches b ON b.branch = n.branch JOIN records r ON r.uri = b.head_uri JOIN journal j ON j.seq = r.seq
		WHERE n.uri IN ? AND b.head_uri <> n.uri`, uris).Scan(&rows).Error
	if err != nil {
		return err
	}
	for _, r := range rows {
		e.heads[r.Target] = lexicons.StrongRef{URI: syntax.ATURI(r.HeadURI), CID: parseCID(r.CID)}
		if _, done := e.current[r.HeadURI]; !done {
			e.current[r.HeadURI] = evidenceOf(string(lexicons.ObservationNSID), r.Record)
		}
	}
	return nil
}

// gatherOutcomes reads what came of looking into blobs.
func (e *evidence) gatherOutcomes(db *gorm.DB, citations []lexicons.Citation) error {
	var dids, cids, tests []string
	for _, c := range citations {
		for _, t := range e.contentTests(c) {
			k := t.key()
			dids, cids, tests = append(dids, k.did), append(cids, k.cid), append(tests, k.test)
		}
	}
	if len(tests) == 0 {
		return nil
	}
	var rows []contentTestRow
	err := db.Raw("SELECT "+contentTestColumns+" FROM content_tests WHERE did IN ? AND cid IN ? AND test IN ?", dids, cids, tests).Scan(&rows).Error
	for i := range rows {
		e.outcomes[rows[i].key()] = rows[i].export()
	}
	return err
}

// contentTests are the tests of bytes that a citation needs.
func (e *evidence) contentTests(c lexicons.Citation) []*contentTest {
	if c.Target == nil {
		return nil
	}
	var needed []*contentTest
	head := e.heads[string(c.Target.URI)]
	for _, t := range []struct {
		uri   syntax.ATURI
		value map[string]any
	}{{c.Target.URI, e.pinned[VersionKey(c.Target.URI, c.Target.CID)]}, {head.URI, e.current[string(head.URI)]}} {
		if t.value == nil {
			continue
		}
		if _, test := c.Try(t.value); test != nil {
			needed = append(needed, &contentTest{did: authorOf(t.uri), test: test})
		}
	}
	return needed
}

// try tries a citation on one record, with what is known of the bytes behind it.
func (e *evidence) try(c lexicons.Citation, uri syntax.ATURI, value map[string]any) (lexicons.Tested, *contentTest) {
	tested, test := c.Try(value)
	if test == nil {
		return tested, nil
	}
	t := &contentTest{did: authorOf(uri), test: test}
	outcome, done := e.outcomes[t.key()]
	if !done {
		return lexicons.Tested{Verdict: lexicons.CitationUnknown, Haystack: lexicons.HaystackBlob, Reason: lexicons.ReasonUnread}, t
	}
	return test.Combine(tested, outcome), nil
}

func (e *evidence) check(citing map[string]any, c lexicons.Citation) Checked {
	out := Checked{Citation: c, Tested: lexicons.Tested{Verdict: lexicons.CitationUnknown, Reason: lexicons.ReasonNotHeld}}
	if c.Target == nil {
		return out
	}
	uri := string(c.Target.URI)
	out.Deleted = e.deleted[uri]
	var onPinned lexicons.Tested
	if value := e.pinned[VersionKey(c.Target.URI, c.Target.CID)]; value != nil {
		var waits *contentTest
		if onPinned, waits = e.try(c, c.Target.URI, value); waits != nil {
			out.waits = append(out.waits, waits)
		}
		out.Tested = c.Quoted(citing, onPinned)
	}
	head, superseded := e.heads[uri]
	if !superseded {
		return out
	}
	out.Head, out.Freshness = &head, lexicons.FreshUnknown
	if value := e.current[string(head.URI)]; value != nil {
		onHead, waits := e.try(c, head.URI, value)
		if waits != nil {
			out.waits = append(out.waits, waits)
		}
		out.Freshness = c.StillHolds(onPinned, onHead)
	}
	return out
}

// contentTestRow is the outcome of a test.
type contentTestRow struct {
	Did      string
	CID      string `gorm:"column:cid"`
	Test     string
	Verdict  string
	Reason   string
	AtStart  int64
	AtEnd    int64
	Selected string
}

const contentTestColumns = "did, cid, test, verdict, reason, at_start, at_end, selected"

func (r *contentTestRow) key() contentKey { return contentKey{did: r.Did, cid: r.CID, test: r.Test} }

func (r *contentTestRow) export() lexicons.Tested {
	return lexicons.Tested{
		Verdict: lexicons.CitationVerdict(r.Verdict), Haystack: lexicons.HaystackBlob, At: place(r.AtStart, r.AtEnd),
		Selected: r.Selected, Reason: r.Reason,
	}
}

// place is a stored range; nil for none.
func place(start, end int64) *lexicons.Span {
	if start < 0 {
		return nil
	}
	return &lexicons.Span{Start: start, End: end}
}

// bounds is a range as it is stored.
func bounds(at *lexicons.Span) (start, end int64) {
	if at == nil {
		return -1, -1
	}
	return at.Start, at.End
}
