package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// Bounds of what TrySetLexicons looks at and tells.
const (
	foreseePage     = 200    // records in one query
	foreseeRecords  = 20_000 // of all collections together
	foreseeExamples = 5      // of one collection
)

// TrySetLexicons tells what SetLexicons would do to the records that are here, a
// collection each of those that have any. It looks at so many records at most,
// changes nothing and holds up nobody.
func (x *Index) TrySetLexicons(ctx context.Context, set []*lexicons.Lexicon) ([]lexicons.Effect, error) {
	if err := x.library.Refresh(ctx); err != nil {
		return nil, err
	}
	plan := x.library.Foresee(set)
	var effects []lexicons.Effect
	left := foreseeRecords
	for _, collection := range plan.Concerned {
		e, err := x.foresee(ctx, plan.Catalog, collection, left)
		if err != nil {
			return nil, fmt.Errorf("foresee %s: %w", collection, err)
		}
		left -= int(e.Seen)
		if e.Seen > 0 || e.Partial {
			effects = append(effects, e)
		}
	}
	return effects, nil
}

// foresee judges at most limit records of a collection by another catalogue.
func (x *Index) foresee(ctx context.Context, catalog *lexicons.Catalog, collection syntax.NSID, limit int) (lexicons.Effect, error) {
	e := lexicons.Effect{Collection: collection}
	state, uri := firstJudged, ""
	for {
		var rows []struct {
			URI    string `gorm:"column:uri"`
			Rkey   string
			State  string
			Record []byte
		}
		// One more than may be judged tells whether there are more.
		page := min(foreseePage, limit-int(e.Seen)+1)
		err := x.db.Read.WithContext(ctx).Raw(`SELECT r.uri, r.rkey, r.state, j.record FROM records r JOIN journal j ON j.seq = r.seq
			WHERE r.collection = ? AND (r.state, r.uri) > (?, ?) ORDER BY r.state, r.uri LIMIT ?`, collection, state, uri, page).Scan(&rows).Error
		if err != nil {
			return e, err
		}
		for _, r := range rows {
			if int(e.Seen) == limit {
				e.Partial = true
				return e, nil
			}
			state, uri = r.State, r.URI
			e.Seen++
			_, verdict := judge(catalog, collection, syntax.RecordKey(r.Rkey), r.Record)
			switch was := r.State == string(StateQuarantined); {
			case was && !verdict.Quarantine:
				e.Released++
			case !was && verdict.Quarantine:
				e.Quarantined++
				if len(e.Examples) < foreseeExamples {
					e.Examples = append(e.Examples, syntax.ATURI(r.URI))
				}
			}
		}
		if len(rows) < page {
			return e, nil
		}
	}
}
