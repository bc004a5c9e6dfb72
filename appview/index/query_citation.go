package index

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// Cited is a citation as it is listed with its target.
type Cited struct {
	From      syntax.ATURI
	Path      string // RFC 6901 pointer to the citation in From
	Relation  string // a very long one by its digest
	Target    lexicons.StrongRef
	Tested    lexicons.Tested // on the version that is pinned
	Freshness lexicons.Freshness
	Head      syntax.ATURI // what Freshness compares with; the target itself when nothing superseded it
}

type citedRow struct {
	FromURI   string `gorm:"column:from_uri"`
	Path      string
	Relation  string
	TargetURI string `gorm:"column:target_uri"`
	TargetCID string `gorm:"column:target_cid"`
	Verdict   string
	Reason    string
	Haystack  string
	AtStart   int64
	AtEnd     int64
	Freshness string
	HeadURI   string `gorm:"column:head_uri"`
}

func (r *citedRow) export() Cited {
	return Cited{
		From: syntax.ATURI(r.FromURI), Path: r.Path, Relation: r.Relation,
		Target: lexicons.StrongRef{URI: syntax.ATURI(r.TargetURI), CID: parseCID(r.TargetCID)},
		Tested: lexicons.Tested{
			Verdict: lexicons.CitationVerdict(r.Verdict), Haystack: lexicons.Haystack(r.Haystack), At: place(r.AtStart, r.AtEnd), Reason: r.Reason,
		},
		Freshness: lexicons.Freshness(r.Freshness), Head: syntax.ATURI(r.HeadURI),
	}
}

// cites leaves out what cites from where the viewer may not look.
func (q *query) cites(v Viewer) {
	q.whereIf(!v.Admin, "EXISTS (SELECT 1 FROM repos r WHERE r.did = t.from_did AND r.active) AND "+notTakenDown("t.from_uri"))
	q.whereIf(v.Restricted(), "EXISTS (SELECT 1 FROM records c WHERE c.uri = t.from_uri AND c.collection IN ?)", v.Collections)
}

// citedKey is where in a list a citation stands beside its URI.
type citedKey [2]string // relation, path

// CitedBy lists the citations of target, by relation, then citing URI and path.
func (x *Index) CitedBy(ctx context.Context, v Viewer, target syntax.ATURI, p Page) (List[Cited], error) {
	q := newQuery("t.from_uri, t.path, t.relation, t.target_uri, t.target_cid, t.verdict, t.reason, t.haystack, t.at_start, t.at_end, t.freshness, t.head_uri", "citations t")
	q.where("t.target_uri = ?", target)
	q.cites(v)
	if p.After != nil {
		var k citedKey
		if err := json.Unmarshal([]byte(p.After.Key), &k); err != nil {
			return List[Cited]{}, fmt.Errorf("citations of %s after %q: %w", target, p.After.Key, ErrPosition)
		}
		q.where("(t.relation, t.from_uri, t.path) > (?, ?, ?)", k[0], p.After.URI, k[1])
	}
	var rows []citedRow
	if err := q.page(x.db.Read.WithContext(ctx), "t.relation, t.from_uri, t.path", p, &rows); err != nil {
		return List[Cited]{}, fmt.Errorf("list citations of %s: %w", target, err)
	}
	return collect(rows, p, func(r *citedRow) (Cited, Position) {
		key, _ := json.Marshal(citedKey{r.Relation, r.Path}) // strings always marshal
		return r.export(), Position{Key: string(key), URI: r.FromURI}
	}), nil
}

// CitedCount is how many citations in one relation to a target have one verdict.
type CitedCount struct {
	Relation string
	Verdict  lexicons.CitationVerdict
	N        int64
}

// CountCitations counts the citations of one target.
func (x *Index) CountCitations(ctx context.Context, v Viewer, target syntax.ATURI) ([]CitedCount, error) {
	q := newQuery("t.relation, t.verdict, COUNT(*) AS n", "citations t")
	q.where("t.target_uri = ?", target)
	q.cites(v)
	var counts []CitedCount
	err := x.db.Read.WithContext(ctx).Raw(q.sql()+" GROUP BY t.relation, t.verdict ORDER BY t.relation, t.verdict", q.args...).Scan(&counts).Error
	if err != nil {
		return nil, fmt.Errorf("count citations of %s: %w", target, err)
	}
	return counts, nil
}

// Disputed counts, of targets, the records that contradict or correct each. At
// most MaxBatch URIs.
func (x *Index) Disputed(ctx context.Context, v Viewer, targets []syntax.ATURI) (map[syntax.ATURI]int64, error) {
	out := map[syntax.ATURI]int64{}
	if len(targets) == 0 {
		return out, nil
	}
	if err := batch(len(targets)); err != nil {
		return nil, err
	}
	q := newQuery("t.target_uri, COUNT(DISTINCT t.from_uri) AS n", "citations t")
	q.where("t.target_uri IN ? AND t.relation IN ?", targets, []string{lexicons.RelationContradicts, lexicons.RelationCorrects})
	q.cites(v)
	var rows []struct {
		TargetURI string `gorm:"column:target_uri"`
		N         int64
	}
	if err := x.db.Read.WithContext(ctx).Raw(q.sql()+" GROUP BY t.target_uri", q.args...).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("count disputes: %w", err)
	}
	for _, r := range rows {
		out[syntax.ATURI(r.TargetURI)] = r.N
	}
	return out, nil
}
