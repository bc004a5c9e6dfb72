package appview

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

// maxRecordRefs is how many references of a record are looked up.
const maxRecordRefs = 100

type getRecordParams struct {
	atLeast
	URI syntax.ATURI `param:"uri"`
	CID syntax.CID   `param:"cid"`
}

type getRecordOutput struct {
	freshness
	URI        syntax.ATURI    `json:"uri"`
	CID        syntax.CID      `json:"cid,omitempty"`
	Author     actorView       `json:"author"`
	Collection syntax.NSID     `json:"collection"`
	State      index.RefState  `json:"state"`
	CurrentCID syntax.CID      `json:"currentCid,omitempty"`
	DeletedAt  syntax.Datetime `json:"deletedAt,omitempty"`
	Value      json.RawMessage `json:"value,omitempty"`
	Masked     []string        `json:"masked,omitempty"`
	Refs       []recordRef     `json:"refs,omitempty"`
	Others     []otherVersion  `json:"otherVersions,omitempty"`
	OthersCap  bool            `json:"otherVersionsCapped,omitempty"`
	Findings   []findingView   `json:"findings"`
	Provenance *provenanceView `json:"provenance,omitempty"`
}

// recordRef is garden.herbarium.getRecord#recordRef.
type recordRef struct {
	Path string  `json:"path"`
	Ref  refView `json:"ref"`
}

func (a *Appview) getRecord(ctx context.Context, xv xrpc.Viewer, p getRecordParams) (*getRecordOutput, error) {
	uri, err := a.recordURI(ctx, p.URI, "")
	if err != nil {
		return nil, err
	}
	v := a.viewer(xv)
	record, err := a.index.Record(ctx, v, uri)
	if errors.Is(err, index.ErrNotFound) {
		return nil, a.notFound(ctx, v, uri)
	}
	if err != nil {
		return nil, err
	}
	shown, err := a.pinnedRecord(ctx, v, *record, p.CID)
	if err != nil {
		return nil, err
	}
	found, err := a.index.Findings(ctx, v, []syntax.ATURI{uri})
	if err != nil {
		return nil, err
	}
	value := decodeRecord(*shown)
	located := strongRefs(value, maxRecordRefs)
	var named []lexicons.StrongRef
	for _, l := range located {
		if l.malformed == "" {
			named = append(named, l.ref)
		}
	}
	refs, err := a.refs(ctx, v, named)
	if err != nil {
		return nil, err
	}
	who, err := a.actors(ctx, []syntax.DID{record.DID})
	if err != nil {
		return nil, err
	}
	others, err := a.index.OtherVersions(ctx, v, uri, index.Page{Limit: index.MaxLimit})
	if err != nil {
		return nil, err
	}
	out := viewRecord(*record, *shown, value, found[uri], located, refs, who)
	out.Others, out.OthersCap = viewOtherVersions(*record, others), others.Next != nil
	return out, nil
}

// pinnedRecord is record in the version that want names; record itself when
// want is "". A version that is not held is RecordNotFound.
func (a *Appview) pinnedRecord(ctx context.Context, v index.Viewer, record index.Record, want syntax.CID) (*index.Record, error) {
	if want == "" || want == viewCID(record.CID) || record.State == index.StateDeleted {
		return &record, nil
	}
	pin, err := cid.Decode(string(want))
	if err != nil {
		return nil, xrpc.InvalidRequest("cid: %v", lexicons.FormatError("cid", string(want)))
	}
	ref := lexicons.StrongRef{URI: record.URI, CID: pin}
	versions, err := a.index.PinnedVersions(ctx, v, []lexicons.StrongRef{ref})
	if err != nil {
		return nil, err
	}
	version, held := versions[index.VersionKey(ref.URI, ref.CID)]
	if !held || version.CBOR == nil {
		e := xrpc.Errorf(400, "RecordNotFound", lexicons.CodeVersionNotHeld+": this index holds no version %s of %s; the latest is %s", want, record.URI, record.CID)
		e.Findings = []lexicons.Finding{{Code: lexicons.CodeVersionNotHeld, Severity: lexicons.Info, Message: e.Message}}
		return nil, e
	}
	record.CID, record.CBOR = version.CID, version.CBOR
	record.Rev, record.Commit = version.Rev, version.Commit
	record.Baseline, record.UpdatedAt = version.Baseline, version.WitnessedAt
	return &record, nil
}

func viewRecord(latest, shown index.Record, value map[string]any, found []index.Finding, located []locatedRef, refs *refTable, who actors) *getRecordOutput {
	out := &getRecordOutput{
		URI:        shown.URI,
		CID:        viewCID(shown.CID),
		Author:     who.of(shown.URI),
		Collection: shown.Collection,
		State:      latest.RefState(),
		Findings:   []findingView{},
	}
	if latest.State == index.StateDeleted {
		out.DeletedAt = datetime(latest.DeletedAt)
		return out
	}
	if shown.CID != latest.CID {
		out.State, out.CurrentCID = index.RefChanged, viewCID(latest.CID)
	}
	for _, f := range found {
		if !f.CID.Defined() || f.CID == shown.CID {
			out.Findings = append(out.Findings, viewFinding(f))
		}
	}
	out.Provenance = viewProvenance(shown)
	if value == nil { // a withheld turn: the index hands out none of it
		out.Masked = []string{""}
		return out
	}
	masked, where := maskedValue(value)
	out.Value, out.Masked = viewValue(masked), where
	out.Refs = each(located, func(l locatedRef) recordRef {
		if l.malformed != "" {
			shown, _ := lexicons.MaskCredentials(l.malformed)
			return recordRef{Path: l.path, Ref: refView{URI: shown, State: index.RefMalformed}}
		}
		return recordRef{Path: l.path, Ref: refs.view(l.ref)}
	})
	return out
}
