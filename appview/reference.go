package appview

import (
	"context"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// refView is garden.herbarium.defs#refView.
type refView struct {
	URI        string         `json:"uri"`
	CID        syntax.CID     `json:"cid,omitempty"`
	State      index.RefState `json:"state"`
	CurrentCID syntax.CID     `json:"currentCid,omitempty"`
	Held       bool           `json:"held,omitempty"`
	Superseded bool           `json:"superseded,omitempty"`
	Label      string         `json:"label,omitempty"`
}

// refTable tells what became of strong references: all that the refs of one
// view need, hydrated together.
type refTable struct {
	states       map[string]index.RefState // by index.VersionKey
	versions     map[string]index.Version  // that are pinned and not current, by index.VersionKey
	records      map[syntax.ATURI]index.Record
	observations map[syntax.ATURI]index.Observation // of the records, those that are observations
	decoded      map[syntax.ATURI]map[string]any    // records that were looked into; a view names the same ones again and again
}

// value is the content of a record of the table, decoded once.
func (t *refTable) value(uri syntax.ATURI) map[string]any {
	value, known := t.decoded[uri]
	if !known {
		value = decodeRecord(t.records[uri])
		t.decoded[uri] = value
	}
	return value
}

// refs hydrates references, a thousand at a time.
func (a *Appview) refs(ctx context.Context, v index.Viewer, refs []lexicons.StrongRef) (*refTable, error) {
	t := &refTable{
		states:       map[string]index.RefState{},
		versions:     map[string]index.Version{},
		records:      map[syntax.ATURI]index.Record{},
		observations: map[syntax.ATURI]index.Observation{},
		decoded:      map[syntax.ATURI]map[string]any{},
	}
	for part := range batches(refs) {
		states, err := a.index.RefStates(ctx, v, part)
		if err != nil {
			return nil, err
		}
		// Where the pinned version is the current one, the record has its content.
		others := slices.DeleteFunc(slices.Clone(part), func(r lexicons.StrongRef) bool {
			return states[index.VersionKey(r.URI, r.CID)] == index.RefCurrent
		})
		versions, err := a.index.PinnedVersions(ctx, v, others)
		if err != nil {
			return nil, err
		}
		targets := distinct(each(part, func(r lexicons.StrongRef) syntax.ATURI { return r.URI }))
		records, err := a.index.Records(ctx, v, targets)
		if err != nil {
			return nil, err
		}
		if !v.Past() { // of a past state it is not said whether it had been superseded
			observations, err := a.index.Observations(ctx, v, ofCollection(targets, lexicons.ObservationNSID))
			if err != nil {
				return nil, err
			}
			merge(t.observations, observations)
		}
		merge(t.states, states)
		merge(t.versions, versions)
		merge(t.records, records)
	}
	return t, nil
}

func ofCollection(uris []syntax.ATURI, collection syntax.NSID) []syntax.ATURI {
	var out []syntax.ATURI
	for _, uri := range uris {
		if uri.Collection() == collection {
			out = append(out, uri)
		}
	}
	return out
}

func merge[K comparable, V any](into, from map[K]V) {
	for k, v := range from {
		into[k] = v
	}
}

// view is what became of one reference. A state that the index did not tell is
// not-indexed: silence is no proof of absence.
func (t *refTable) view(ref lexicons.StrongRef) refView {
	key := index.VersionKey(ref.URI, ref.CID)
	view := refView{URI: string(ref.URI), CID: syntax.CID(ref.CID.String()), State: index.RefNotIndexed}
	if state, ok := t.states[key]; ok {
		view.State = state
	}
	switch view.State {
	case index.RefCurrent, index.RefChanged, index.RefCommitCID:
	default:
		return view // nothing of its content is told
	}
	record, known := t.records[ref.URI]
	if known && record.CBOR != nil {
		view.Label = labelOfValue(ref.URI.Collection(), t.value(ref.URI))
		if record.CID != ref.CID {
			view.CurrentCID = syntax.CID(record.CID.String())
		}
		view.Held = record.CID == ref.CID
	}
	if o, known := t.observations[ref.URI]; known {
		view.Superseded = !o.Head
	}
	if pinned, ok := t.versions[key]; ok && pinned.CBOR != nil {
		view.Held = true
	}
	return view
}

// optional is view of a reference that may be absent. A nil table shows no
// reference at all: lists do not look them up.
func (t *refTable) optional(ref *lexicons.StrongRef) *refView {
	if ref == nil || t == nil {
		return nil
	}
	view := t.view(*ref)
	return &view
}

// exactly is the content of the very version that ref pins; nil when it is not held.
func (t *refTable) exactly(ref lexicons.StrongRef) map[string]any {
	if version, ok := t.versions[index.VersionKey(ref.URI, ref.CID)]; ok && version.CBOR != nil {
		return decode(ref.URI.Collection(), version.CBOR)
	}
	if record, ok := t.records[ref.URI]; ok && record.CID == ref.CID {
		return t.value(ref.URI)
	}
	return nil
}

// content is that of the version that ref pins or, where it is not held, of the
// one that is there now; nil for none.
func (t *refTable) content(ref lexicons.StrongRef) map[string]any {
	if value := t.exactly(ref); value != nil {
		return value
	}
	return t.value(ref.URI)
}

// labelOf names a record for a link: its title or name, the source of an
// observation. A message has no label, for its words may be taken away.
func labelOf(r index.Record) string { return labelOfValue(r.Collection, decodeRecord(r)) }

func labelOfValue(collection syntax.NSID, value map[string]any) string {
	label := ""
	switch collection { // the one field: to read all the references of a record costs more than all else here
	case lexicons.ObservationNSID:
		source, _ := value["source"].(map[string]any)
		label, _ = source["value"].(string)
		label, _ = lexicons.MaskCredentials(label)
	case lexicons.SessionNSID, lexicons.ChatSessionNSID:
		label, _ = value["title"].(string)
	case lexicons.ClassNSID, lexicons.SkillNSID:
		label, _ = value["name"].(string)
	case lexicons.ClaimNSID:
		label, _ = value["text"].(string)
	}
	return shorten(oneLine(firstBytes(label, 16*refLabelLength)), refLabelLength)
}

// decodeRecord reads the bytes of a record; nil for a tombstone.
func decodeRecord(r index.Record) map[string]any { return decode(r.Collection, r.CBOR) }

// decode reads stored bytes. The index only keeps what it could read, so what
// cannot be read shows as a record without fields and breaks no view.
func decode(collection syntax.NSID, raw []byte) map[string]any {
	if raw == nil {
		return nil
	}
	record, err := lexicons.ParseCBOR(collection, raw)
	if err != nil {
		return nil
	}
	return record.Value
}

// strongRef is com.atproto.repo.strongRef in JSON.
type strongRef struct {
	URI syntax.ATURI `json:"uri"`
	CID syntax.CID   `json:"cid"`
}

func viewStrongRef(ref lexicons.StrongRef) strongRef {
	return strongRef{URI: ref.URI, CID: syntax.CID(ref.CID.String())}
}
