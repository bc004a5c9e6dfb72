package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// RecordCounts counts the live records of repos by collection, those of
// collections that v may know of, in one query over an index. Inactive repos
// are counted too. At most MaxBatch DIDs.
func (x *Index) RecordCounts(ctx context.Context, v Viewer, dids []syntax.DID) (map[syntax.DID]map[syntax.NSID]int64, error) {
	out := make(map[syntax.DID]map[syntax.NSID]int64, len(dids))
	if len(dids) == 0 {
		return out, nil
	}
	if err := batch(len(dids)); err != nil {
		return nil, err
	}
	var rows []struct {
		Did        string
		Collection string
		N          int64
	}
	q := newQuery("did, collection, COUNT(*) AS n", "records t")
	q.where("t.did IN ? AND t.state IN ?", dids, live)
	q.whereIf(!v.Admin, notTakenDown("t.uri"))
	q.whereIf(v.Restricted(), "t.collection IN ?", v.Collections)
	err := x.db.Read.WithContext(ctx).Raw(q.sql()+" GROUP BY did, collection", q.args...).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("count records: %w", err)
	}
	for _, r := range rows {
		did := syntax.DID(r.Did)
		if out[did] == nil {
			out[did] = map[syntax.NSID]int64{}
		}
		out[did][syntax.NSID(r.Collection)] = r.N
	}
	return out, nil
}

// Trait is something that observations say of what made them.
type Trait string

// The traits. Each is the name of a column.
const (
	TraitDevice  Trait = "device"
	TraitHarness Trait = "harness"
	TraitModel   Trait = "model"
	TraitRun     Trait = "run"
)

// Usage is a value of a trait and how many observations carry it.
type Usage struct {
	Name         string
	Observations int64
}

// Usage tells the values of a trait in the observations of a repo: runs the
// latest first, the others the most used first. At most limit of them.
func (x *Index) Usage(ctx context.Context, v Viewer, did syntax.DID, trait Trait, limit int) ([]Usage, error) {
	order := "observations DESC, name"
	switch trait {
	case TraitDevice, TraitHarness, TraitModel:
	case TraitRun:
		order = "name DESC"
	default:
		return nil, fmt.Errorf("usage: no trait %q", trait)
	}
	column := "t." + string(trait)
	q := newQuery(column+" AS name, COUNT(*) AS observations", "observations t")
	q.where("t.did = ? AND "+column+" <> ''", did)
	q.visible(v, lexicons.ObservationNSID)
	var usage []Usage
	err := x.db.Read.WithContext(ctx).Raw(q.sql()+" GROUP BY "+column+" ORDER BY "+order+" LIMIT ?", append(q.args, limit)...).Scan(&usage).Error
	if err != nil {
		return nil, fmt.Errorf("usage of %s by %s: %w", trait, did, err)
	}
	return usage, nil
}
