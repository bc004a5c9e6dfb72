package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Links are references from records (out) or to them, at most most, by the record
// that makes each, in one query; more tells that there are others. Only those that a
// shown record makes. At most MaxBatch URIs.
func (x *Index) Links(ctx context.Context, v Viewer, uris []syntax.ATURI, out bool, most int) (links []Reference, more bool, err error) {
	if len(uris) == 0 {
		return nil, false, nil
	}
	if err := batch(len(uris)); err != nil {
		return nil, false, err
	}
	end := "target_uri"
	if out {
		end = "from_uri"
	}
	q := newQuery("t.from_uri, t.path, t.kind, t.target_uri, t.target_cid", "refs t")
	q.where("t."+end+" IN ?", uris)
	q.whereIf(!v.Admin, "EXISTS (SELECT 1 FROM repos r WHERE r.did = t.from_did AND r.active) AND "+notTakenDown("t.from_uri"))
	q.whereIf(v.Restricted(), "EXISTS (SELECT 1 FROM records c WHERE c.uri = t.from_uri AND c.collection IN ?)", v.Collections)
	// A turn that is withheld, and one of a stranger, refers to nothing that is shown.
	q.where("NOT EXISTS (SELECT 1 FROM messages m WHERE m.uri = t.from_uri AND (m.withheld OR m.foreigner))")
	var rows []struct {
		FromURI   string `gorm:"column:from_uri"`
		Path      string
		Kind      string
		TargetURI string `gorm:"column:target_uri"`
		TargetCID string `gorm:"column:target_cid"`
	}
	err = x.db.Read.WithContext(ctx).Raw(q.sql()+" ORDER BY t."+end+", t.from_uri, t.path LIMIT ?", append(q.args, most+1)...).Scan(&rows).Error
	if err != nil {
		return nil, false, fmt.Errorf("read links: %w", err)
	}
	if len(rows) > most {
		rows, more = rows[:most], true
	}
	for _, r := range rows {
		links = append(links, Reference{
			From: syntax.ATURI(r.FromURI), Kind: ReferenceKind(r.Kind), Path: r.Path, Target: syntax.ATURI(r.TargetURI), CID: parseCID(r.TargetCID),
		})
	}
	return links, more, nil
}
