package appview

import (
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// otherVersion is garden.herbarium.defs#otherVersion.
type otherVersion struct {
	CID      syntax.CID      `json:"cid"`
	How      string          `json:"how"` // the code of the finding
	Commit   syntax.CID      `json:"commit,omitempty"`
	Rev      syntax.TID      `json:"rev"`
	SeenAt   syntax.Datetime `json:"seenAt"`
	Source   string          `json:"source"`
	Baseline bool            `json:"baseline"`
	InRepo   bool            `json:"inRepo"`
	Held     bool            `json:"held"`
}

// viewOtherVersions lists what was put in the place of an observation, each
// with the signed commit that carried it: who keeps that commit can show that
// the author, and nobody else, wrote another version.
func viewOtherVersions(r index.Record, others index.List[index.Version]) []otherVersion {
	how := lexicons.CodeEdited
	return each(others.Items, func(v index.Version) otherVersion {
		if v.Action == lexicons.Create { // after the first seen, so what was there had been deleted
			how = lexicons.CodeRkeyReused
		}
		return otherVersion{
			CID: viewCID(v.CID), How: how, Commit: viewCID(v.Commit), Rev: v.Rev, SeenAt: datetime(v.WitnessedAt),
			Source: v.Source, Baseline: v.Baseline, InRepo: v.CID == r.RepoCID, Held: v.CBOR != nil && r.State != index.StateDeleted,
		}
	})
}
