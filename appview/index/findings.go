package index

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
)

// own are findings of the rules that the index makes itself: the rules judge a
// write at its moment, the index what remains of it in a world at rest.
var own = map[string]bool{
	lexicons.CodeForked:       true,
	lexicons.CodeEdited:       true,
	lexicons.CodeRkeyReused:   true,
	lexicons.CodeRewritten:    true,
	lexicons.CodeBlobNotFound: true, // what was uploaded is known to the host alone
}

// Bounds of what a finding may hold, in bytes.
const (
	maxFindingPath    = 300
	maxFindingMessage = 2000
)

// settleFindings computes anew the findings of every record that changed, and
// of those that name something that came, changed or went.
func (w *writer) settleFindings(ctx context.Context) error {
	if err := w.spread(); err != nil {
		return err
	}
	for _, uri := range slices.Sorted(maps.Keys(w.restale)) {
		if err := w.settleRecord(ctx, uri); err != nil {
			return fmt.Errorf("findings of %s: %w", uri, err)
		}
	}
	return nil
}

// spread marks those who name a moved target, the classes that inherit from
// one of them, and the skills whose examples lead to one.
func (w *writer) spread() error {
	stale, err := w.referrers(slices.Collect(maps.Keys(w.moved)), "")
	if err != nil {
		return err
	}
	if err := w.spreadThrough(stale, lexicons.ClassNSID, RefParent, MaxParents); err != nil {
		return err
	}
	return w.spreadThrough(stale, lexicons.SkillNSID, RefExample, lexicons.MaxExampleHops)
}

// spreadThrough follows references of one kind between records of one
// collection back to those who make them.
func (w *writer) spreadThrough(stale []syntax.ATURI, of syntax.NSID, kind ReferenceKind, hops int) error {
	for range hops {
		var targets []syntax.ATURI
		for _, uri := range stale {
			if uri.Collection() == of {
				targets = append(targets, uri)
			}
		}
		var err error
		if stale, err = w.referrers(targets, kind); err != nil || len(stale) == 0 {
			return err
		}
	}
	return nil
}

// referrers marks as stale the records that name targets, and returns those
// that were not marked before.
func (w *writer) referrers(targets []syntax.ATURI, kind ReferenceKind) ([]syntax.ATURI, error) {
	var fresh []syntax.ATURI
	slices.Sort(targets)
	for part := range slices.Chunk(targets, MaxBatch) {
		q := newQuery("DISTINCT t.from_uri", "refs t")
		q.where("t.target_uri IN ?", part)
		q.whereIf(kind != "", "t.kind = ?", string(kind))
		var from []string
		if err := q.all(w.tx, &from); err != nil {
			return nil, fmt.Errorf("find who refers to what moved: %w", err)
		}
		for _, uri := range from {
			if !w.restale[syntax.ATURI(uri)] {
				fresh = append(fresh, syntax.ATURI(uri))
			}
			w.restale[syntax.ATURI(uri)] = true
		}
	}
	return fresh, nil
}

func (w *writer) settleRecord(ctx context.Context, uri syntax.ATURI) error {
	rec, err := w.record(uri)
	if err != nil || rec == nil {
		return err
	}
	found, err := w.findings(ctx, rec)
	if err != nil {
		return err
	}
	delete(w.parsed, versionKey(rec.URI, rec.CID)) // settled: a reindex must not hold the whole journal
	var before, now []judgement
	if !w.fresh[uri] {
		if err := w.tx.Raw("DELETE FROM findings WHERE uri = ? RETURNING code, path, cid, severity", uri).Scan(&before).Error; err != nil {
			return err
		}
	}
	for _, f := range found {
		j := judgement{cut(clean(f.Code), 100), cut(clean(f.Path), maxFindingPath), f.cid, string(f.Severity)}
		now = append(now, j)
		err := w.tx.Exec(`INSERT INTO findings (uri, code, path, cid, did, collection, severity, message, repair, at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			uri, j.Code, j.Path, j.CID, rec.Did, rec.Collection,
			j.Severity, cut(clean(f.Message), maxFindingMessage), cut(clean(f.Repair), maxFindingMessage), f.at).Error
		if err != nil {
			return err
		}
	}
	return w.tellFindings(rec, before, now)
}

// noted is a finding with the version that it concerns.
type noted struct {
	lexicons.Finding
	cid string
	at  string
}

// findings are all that is to be said of a record as it stands, in a world
// that has come to rest: nothing here depends on what arrived first, the
// history of the record itself excepted.
func (w *writer) findings(ctx context.Context, rec *recordRow) ([]noted, error) {
	var found []noted
	add := func(f lexicons.Finding) {
		found = append(found, noted{Finding: f, cid: rec.CID, at: rec.UpdatedAt})
	}
	if rec.Violated {
		violations, err := w.violations(rec)
		if err != nil {
			return nil, err
		}
		found = append(found, violations...)
	}
	if rec.deleted() {
		return found, nil
	}
	row, err := w.shown(rec)
	if err != nil || row.Record == nil {
		return found, err
	}
	parsed := w.parse(row)
	for _, f := range w.verdicts[versionKey(row.URI, row.CID)].Findings {
		add(f)
	}
	if parsed == nil || rec.State == string(StateQuarantined) {
		return found, nil // the rules take a record as valid
	}
	ch, err := w.change(row, rec, parsed)
	if err != nil {
		return nil, err
	}
	checked, err := w.held.Rules.Check(ctx, ch, &snapshot{tx: w.tx, of: parsed})
	if err != nil {
		return nil, err
	}
	for _, f := range checked {
		if !own[f.Code] {
			add(f)
		}
	}
	checkedCitations, err := w.settleCitations(rec, parsed.Value)
	if err != nil {
		return nil, err
	}
	for _, f := range citationFindings(checkedCitations) {
		add(f)
	}
	beside, err := w.besideFindings(rec, row, parsed)
	if err != nil {
		return nil, err
	}
	for _, f := range beside {
		add(f)
	}
	return found, nil
}

// shown is the journal row of what is shown of a record.
func (w *writer) shown(rec *recordRow) (*journalRow, error) {
	if row, ok := w.rows[rec.Seq]; ok {
		return row, nil
	}
	var row journalRow
	err := w.tx.Raw("SELECT "+journalColumns+" FROM journal WHERE seq = ?", rec.Seq).Scan(&row).Error
	if err != nil {
		return nil, fmt.Errorf("read journal row %d: %w", rec.Seq, err)
	}
	return &row, nil
}

// change puts a record before the rules as the write that made it.
func (w *writer) change(row *journalRow, rec *recordRow, parsed *lexicons.Record) (lexicons.Change, error) {
	ch := lexicons.Change{
		Action: lexicons.Action(row.Action), DID: syntax.DID(row.Did), URI: row.uri(),
		RecordKey: syntax.RecordKey(row.Rkey), Record: parsed, Now: textTime(row.WitnessedAt),
	}
	if row.Action != string(lexicons.Update) {
		return ch, nil
	}
	// A message's older versions are forgotten; how it was rewritten is a fact of the journal.
	if row.collection() == lexicons.MessageNSID || row.collection() == lexicons.ObservationNSID {
		ch.Action = lexicons.Create
		return ch, nil
	}
	var before []journalRow
	err := w.tx.Raw("SELECT "+journalColumns+" FROM journal WHERE uri = ? AND seq < ? ORDER BY seq DESC LIMIT 1", row.URI, row.Seq).Scan(&before).Error
	if err != nil {
		return ch, err
	}
	if len(before) == 0 || before[0].Record == nil {
		ch.Action = lexicons.Create
		return ch, nil
	}
	ch.Prev = &lexicons.StoredRecord{URI: row.uri(), CID: parseCID(before[0].CID), CBOR: before[0].Record}
	return ch, nil
}

// violations lists the other versions of an observation.
func (w *writer) violations(rec *recordRow) ([]noted, error) {
	var versions []journalRow
	err := w.tx.Raw("SELECT seq, uri, action, cid, rev, commit_cid, witnessed_at FROM journal WHERE uri = ? ORDER BY seq", rec.URI).Scan(&versions).Error
	if err != nil {
		return nil, err
	}
	var found []noted
	deleted := false
	for _, v := range versions {
		switch {
		case v.Action == string(lexicons.Delete):
			deleted = true
		case deleted:
			found = append(found, noted{cid: v.CID, at: v.WitnessedAt, Finding: lexicons.Finding{
				Code: lexicons.CodeRkeyReused, Severity: lexicons.Violation,
				Message: fmt.Sprintf("the record key was used again after its observation was deleted, by %s in commit %s", v.CID, v.CommitCID),
			}})
		case v.CID != rec.CID:
			found = append(found, noted{cid: v.CID, at: v.WitnessedAt, Finding: lexicons.Finding{
				Code: lexicons.CodeEdited, Severity: lexicons.Violation,
				Message: fmt.Sprintf("an observation is never edited: first seen as %s, changed to %s in commit %s", rec.CID, v.CID, v.CommitCID),
			}})
		}
	}
	return found, nil
}

// chainFindings are those that follow from where an observation stands.
func (w *writer) chainFindings(rec *recordRow) ([]lexicons.Finding, error) {
	nodes, err := w.nodes("uri = ?", rec.URI)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	n := &nodes[0]
	var found []lexicons.Finding
	if n.Forked {
		found = append(found, lexicons.Finding{Code: lexicons.CodeForked, Severity: lexicons.Warning, Path: "/supersedes",
			Message: "another observation that lives supersedes " + n.TargetURI + " too"})
	}
	if n.Bereft {
		found = append(found, lexicons.Finding{Code: lexicons.CodeSuccessorDeleted, Severity: lexicons.Info,
			Message: "what superseded this observation was deleted; it is the head of its chain again"})
	}
	return found, nil
}

// findingsOf are the findings in an error of the lexicons' parser.
func findingsOf(err error) []lexicons.Finding {
	var refused *lexicons.Refused
	if errors.As(err, &refused) && len(refused.Findings) > 0 {
		return refused.Findings
	}
	return []lexicons.Finding{{Code: lexicons.CodeInvalidRecord, Severity: lexicons.Violation, Message: err.Error()}}
}

// snapshot is the index as a rule sees it: the world at rest, without the
// record under judgement's own chain, on which the index reports itself.
type snapshot struct {
	tx *gorm.DB
	of *lexicons.Record
}

var _ lexicons.Snapshot = (*snapshot)(nil)

// Record is the record shown at uri; a quarantined one is not there.
func (s *snapshot) Record(_ context.Context, uri syntax.ATURI) (*lexicons.StoredRecord, error) {
	var rows []struct {
		CID    string `gorm:"column:cid"`
		Record []byte
	}
	err := s.tx.Raw("SELECT r.cid, j.record FROM records r JOIN journal j ON j.seq = r.seq WHERE r.uri = ? AND r.state IN ?",
		uri, live).Scan(&rows).Error
	if err != nil || len(rows) == 0 || rows[0].Record == nil {
		return nil, err
	}
	return &lexicons.StoredRecord{URI: uri, CID: parseCID(rows[0].CID), CBOR: rows[0].Record}, nil
}

// Tombstone tells that uri held a record that was deleted.
func (s *snapshot) Tombstone(_ context.Context, uri syntax.ATURI) (*lexicons.Tombstone, error) {
	var rows []struct {
		CID       string `gorm:"column:cid"`
		DeletedAt string
		TargetURI *string `gorm:"column:target_uri"`
		TargetCID *string `gorm:"column:target_cid"`
	}
	err := s.tx.Raw(`SELECT r.cid, r.deleted_at, n.target_uri, n.target_cid FROM records r
		LEFT JOIN chain_nodes n ON n.uri = r.uri WHERE r.uri = ? AND r.state = ?`, uri, string(StateDeleted)).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	t := &lexicons.Tombstone{URI: uri, CID: parseCID(rows[0].CID), DeletedAt: textTime(rows[0].DeletedAt)}
	if rows[0].TargetURI != nil && *rows[0].TargetURI != "" {
		t.Supersedes = &lexicons.StrongRef{URI: syntax.ATURI(*rows[0].TargetURI), CID: parseCID(*rows[0].TargetCID)}
	}
	return t, nil
}

// LiveSuccessor is always nil: in a world at rest the record under judgement
// may be that successor itself, and a fork is the chain's own finding.
func (s *snapshot) LiveSuccessor(context.Context, syntax.ATURI) (*lexicons.StrongRef, error) {
	return nil, nil
}

// Blob is the blob as the record under judgement says it is: what was uploaded
// is known to the host alone, and looked at when the blob is fetched.
func (s *snapshot) Blob(_ context.Context, _ syntax.DID, c cid.Cid) (*lexicons.StoredBlob, error) {
	for _, b := range s.of.Blobs {
		if b.CID == c {
			return &lexicons.StoredBlob{CID: c, MimeType: b.MimeType, Size: b.Size}, nil
		}
	}
	return nil, nil
}

// rewriteSeverity: taking away is the author's right, saying something else in
// an old turn is not.
func rewriteSeverity(how []string) lexicons.Severity {
	for _, h := range how {
		switch lexicons.RewriteKind(h) {
		case lexicons.RewriteRevealed, lexicons.RewriteUnredacted, lexicons.RewriteTextChanged, lexicons.RewriteOther:
			return lexicons.Violation
		}
	}
	return lexicons.Info
}
