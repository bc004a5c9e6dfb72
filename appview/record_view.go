package appview

import (
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
)

// What the views of all record types have in common.

// findingView is garden.herbarium.defs#findingView.
type findingView struct {
	Code     string            `json:"code"`
	Severity lexicons.Severity `json:"severity"`
	Path     string            `json:"path"`
	Message  string            `json:"message"`
	Repair   string            `json:"repair,omitempty"`
	URI      syntax.ATURI      `json:"uri,omitempty"`
	CID      syntax.CID        `json:"cid,omitempty"`
	FoundAt  syntax.Datetime   `json:"foundAt,omitempty"`
}

// viewFinding leaves out the URI, which is that of the record around it.
func viewFinding(f index.Finding) findingView {
	return findingView{
		Code:     f.Code,
		Severity: f.Severity,
		Path:     f.Path,
		Message:  f.Message,
		Repair:   f.Repair,
		CID:      viewCID(f.CID),
		FoundAt:  datetime(f.At),
	}
}

func viewFindings(found []index.Finding) []findingView { return orEmpty(each(found, viewFinding)) }

// provenanceView is garden.herbarium.defs#provenanceView.
type provenanceView struct {
	Rev         syntax.TID      `json:"rev"`
	Commit      syntax.CID      `json:"commit,omitempty"`
	FirstSeenAt syntax.Datetime `json:"firstSeenAt"`
	Baseline    bool            `json:"baseline"`
}

func viewProvenance(r index.Record) *provenanceView {
	return &provenanceView{Rev: r.Rev, Commit: viewCID(r.Commit), FirstSeenAt: datetime(r.UpdatedAt), Baseline: r.Baseline}
}

// generatorView is garden.herbarium.defs#generatorView.
type generatorView struct {
	SelfReported   bool            `json:"selfReported"`
	Run            syntax.TID      `json:"run,omitempty"`
	RunStartedAt   syntax.Datetime `json:"runStartedAt,omitempty"`
	Device         string          `json:"device,omitempty"`
	Harness        string          `json:"harness,omitempty"`
	HarnessVersion string          `json:"harnessVersion,omitempty"`
	Model          string          `json:"model,omitempty"`
	Transcript     *refView        `json:"transcript,omitempty"`
}

func viewGenerator(g lexicons.Generator, refs *refTable) *generatorView {
	view := &generatorView{
		SelfReported:   true,
		Run:            g.Run,
		Device:         g.Device,
		Harness:        g.Harness,
		HarnessVersion: g.HarnessVersion,
		Model:          g.Model,
		Transcript:     refs.optional(g.Transcript),
	}
	if g.Run != "" {
		view.RunStartedAt = datetime(g.Run.Time())
	}
	return view
}

// sourceView is garden.herbarium.defs#sourceView.
type sourceView struct {
	Kind   string `json:"kind"`
	Value  string `json:"value"`
	Masked bool   `json:"masked,omitempty"`
}

func viewSource(s lexicons.Source) *sourceView {
	value, masked := lexicons.MaskCredentials(s.Value)
	return &sourceView{Kind: s.Kind, Value: value, Masked: masked}
}

// viewCID is the text of a CID; "" for the undefined one.
func viewCID(c cid.Cid) syntax.CID {
	if !c.Defined() {
		return ""
	}
	return syntax.CID(c.String())
}

// datetime is an instant as the views write it: RFC 3339 in UTC with
// milliseconds; "" for the zero time, and for one that UTC moves out of the
// years that the format can write.
func datetime(t time.Time) syntax.Datetime {
	if t = t.UTC(); t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return ""
	}
	return syntax.Datetime(t.Format("2006-01-02T15:04:05.000Z"))
}
