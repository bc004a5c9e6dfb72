package index

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

type findingRow struct {
	URI        string `gorm:"column:uri"`
	Code       string
	Path       string
	CID        string `gorm:"column:cid"`
	Did        string
	Collection string
	Severity   string
	Message    string
	Repair     string
	At         string
}

const findingColumns = "t.uri, t.code, t.path, t.cid, t.did, t.collection, t.severity, t.message, t.repair, t.at"

func (r *findingRow) export() Finding {
	return Finding{
		Finding: lexicons.Finding{Code: r.Code, Severity: lexicons.Severity(r.Severity), Path: r.Path, Message: r.Message, Repair: r.Repair},
		URI:     syntax.ATURI(r.URI), DID: syntax.DID(r.Did), Collection: syntax.NSID(r.Collection),
		CID: parseCID(r.CID), At: textTime(r.At),
	}
}

// visibleFindings leaves out findings of records that the viewer may not see,
// and those on a record that it sees which tell of one that it does not.
func (q *query) visibleFindings(v Viewer) {
	q.visible(v)
	q.whereIf(!v.Admin, "EXISTS (SELECT 1 FROM records c WHERE c.uri = t.uri AND c.state <> ?)", string(StateQuarantined))
	for _, d := range dependent {
		q.whereIf(!v.Sees(d.of), "NOT (t.collection = ? AND t.code IN ?)", d.on, d.codes)
	}
	if v.Restricted() {
		leads, patterns := "1 = 0", []any{ofTargets}
		for _, collection := range v.Collections {
			leads += " OR r.target_uri LIKE ?"
			patterns = append(patterns, "at://%/"+string(collection)+"/%")
		}
		q.where("(t.code NOT IN ? OR EXISTS (SELECT 1 FROM refs r WHERE r.from_uri = t.uri AND r.path = t.path AND ("+leads+")))", patterns...)
	}
	q.whereIf(v.Restricted(), "(t.code NOT IN ? OR EXISTS (SELECT 1 FROM citations c WHERE c.from_uri = t.uri AND c.path = t.path AND c.target_collection IN ?))",
		ofCitations, v.Collections)
}

// dependent are the findings on records of one collection that follow from
// what stands, or does not stand, in another.
var dependent = []struct {
	on, of syntax.NSID
	codes  []string
}{
	{lexicons.MessageNSID, lexicons.ChatSessionNSID, []string{lexicons.CodeSessionMissing, lexicons.CodeOrphanTurns, lexicons.CodeTimeOrder}},
	{lexicons.ChatSessionNSID, lexicons.MessageNSID, []string{lexicons.CodeNoPublishedTurns}},
	{lexicons.ClassNSID, lexicons.SkillNSID, []string{lexicons.CodeToolCollision, lexicons.CodeEntryToolUnresolved}},
}

// ofTargets are the findings that follow from the state of what a record names
// at their path, whatever it is.
var ofTargets = []string{lexicons.CodeRefMissing, lexicons.CodeRefDrift}

// ofCitations are the findings that follow from what a record cites.
var ofCitations = []string{
	lexicons.CodeCitationFails, lexicons.CodeCitationAmbiguous, lexicons.CodeMisquote, lexicons.CodeEvidenceDeleted, lexicons.CodeEvidenceGone,
}

// findingKey is where in a list a finding stands beside its time and URI.
type findingKey [4]string // at, code, path, cid

func (r *findingRow) position() Position {
	b, _ := json.Marshal(findingKey{r.At, r.Code, r.Path, r.CID}) // strings always marshal
	return Position{Key: string(b), URI: r.URI}
}

// ListFindings lists findings, the newest first.
func (x *Index) ListFindings(ctx context.Context, v Viewer, f FindingFilter, p Page) (List[Finding], error) {
	q := newQuery(findingColumns, "findings t")
	q.whereIf(f.Code != "", "t.code = ?", clean(f.Code))
	q.whereIf(f.Severity != "", "t.severity = ?", string(f.Severity))
	q.whereIf(f.DID != "", "t.did = ?", f.DID)
	q.whereIf(f.URI != "", "t.uri = ?", f.URI)
	q.whereIf(f.Collection != "", "t.collection = ?", f.Collection)
	q.whereIf(!f.Since.IsZero(), "t.at >= ?", migrations.FormatTime(f.Since))
	q.visibleFindings(v)
	if p.After != nil {
		var k findingKey
		if err := json.Unmarshal([]byte(p.After.Key), &k); err != nil {
			return List[Finding]{}, fmt.Errorf("findings after %q: %w", p.After.Key, ErrPosition)
		}
		q.where("(t.at, t.uri, t.code, t.path, t.cid) < (?, ?, ?, ?, ?)", k[0], p.After.URI, k[1], k[2], k[3])
	}
	var rows []findingRow
	err := q.page(x.db.Read.WithContext(ctx), "t.at DESC, t.uri DESC, t.code DESC, t.path DESC, t.cid DESC", p, &rows)
	if err != nil {
		return List[Finding]{}, fmt.Errorf("list findings: %w", err)
	}
	return collect(rows, p, func(r *findingRow) (Finding, Position) { return r.export(), r.position() }), nil
}

// gravity orders severities in SQL.
var gravity = strings.Join([]string{
	"CASE t.severity WHEN '", string(lexicons.Violation), "' THEN 0 WHEN '", string(lexicons.Warning), "' THEN 1 ELSE 2 END",
}, "")

// Findings are the findings of uris, gravest first. At most MaxBatch URIs.
func (x *Index) Findings(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI][]Finding, error) {
	out := map[syntax.ATURI][]Finding{}
	if len(uris) == 0 {
		return out, nil
	}
	if err := batch(len(uris)); err != nil {
		return nil, err
	}
	q := newQuery(findingColumns, "findings t")
	q.where("t.uri IN ?", uris)
	q.visibleFindings(v)
	var rows []findingRow
	err := x.db.Read.WithContext(ctx).Raw(q.sql()+" ORDER BY t.uri, "+gravity+", t.code, t.path, t.cid", q.args...).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read findings: %w", err)
	}
	for i := range rows {
		f := rows[i].export()
		out[f.URI] = append(out[f.URI], f)
	}
	return out, nil
}
