package lexicons

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
)

const (
	MaxRecordJSON = 1_000_000
	MaxRecordCBOR = 1 << 20
	MaxDepth      = 64
)

// ParseJSON reads a record from JSON; an absent $type is filled in with
// collection, any other $type is refused. The error is a *Refused.
func ParseJSON(collection syntax.NSID, raw []byte) (*Record, error) {
	v, err := atdata.UnmarshalJSON(raw)
	if err != nil {
		return nil, &Refused{Findings: []Finding{{Code: "InvalidRecord", Severity: Violation, Message: err.Error(), Refusal: "InvalidRequest"}}}
	}
	return ParseValue(collection, v)
}

// ParseCBOR reads a record from DAG-CBOR and keeps the bytes as they are. The error is a *Refused.
func ParseCBOR(collection syntax.NSID, raw []byte) (*Record, error) {
	v, err := atdata.UnmarshalCBOR(raw)
	if err != nil {
		return nil, &Refused{Findings: []Finding{{Code: "InvalidRecord", Severity: Violation, Message: err.Error(), Refusal: "InvalidRequest"}}}
	}
	return ParseValue(collection, v)
}

// ParseValue makes a Record of a value that ParseObject read as part of a
// larger body. value becomes the record's own.
func ParseValue(collection syntax.NSID, value map[string]any) (*Record, error) {
	if _, ok := value["$type"]; !ok {
		value["$type"] = string(collection)
	}
	b, err := atdata.MarshalCBOR(value)
	if err != nil {
		return nil, err
	}
	c, err := cid.V1Builder{Codec: cid.DagCBOR, MhType: 0x12}.Sum(b)
	if err != nil {
		return nil, err
	}
	return &Record{Collection: collection, Value: value, CBOR: b, CID: c}, nil
}

// ParseObject reads one JSON object of at most limit bytes into atproto data,
// with every check of the data model, for bodies that are not records or hold
// records inside. The error is a *Refused.
func ParseObject(raw []byte, limit int) (map[string]any, error) { return atdata.UnmarshalJSON(raw) }

// Enforced reports whether writes to collection are always validated:
// validate:false on one of them is ValidationRequired.
func Enforced(collection syntax.NSID) bool { return false }

// Validate checks rec and its record key as the mode of the write demands.
// The error is a *Refused.
func (c *Catalog) Validate(rec *Record, rkey syntax.RecordKey, mode ValidationMode) (ValidationStatus, error) {
	return StatusUnknown, nil
}

// CheckValue validates v against one schema definition; relative references
// in it resolve against base. Paths of the findings start at pointer "".
func (c *Catalog) CheckValue(base syntax.NSID, def any, v any) []Finding { return nil }

// Rules is the rules engine: pure, safe for concurrent use.
type Rules struct{}

// NewRules makes the engine.
func NewRules(cat *Catalog, s Settings) *Rules { return &Rules{} }

// CheckRecord runs the rules that need only the change itself.
func (r *Rules) CheckRecord(ch Change) []Finding { return nil }

// CheckState runs the rules that need the state that the write will see:
// ch.Prev and snap. It does not repeat CheckRecord.
func (r *Rules) CheckState(ctx context.Context, ch Change, snap Snapshot) ([]Finding, error) {
	return nil, nil
}

// Check is CheckRecord and CheckState together.
func (r *Rules) Check(ctx context.Context, ch Change, snap Snapshot) ([]Finding, error) {
	return nil, nil
}

// CheckBatch runs the rules about one batch as a whole; the changes are of one repo, in order.
// Paths start with /writes/<index>.
func (r *Rules) CheckBatch(changes []Change) []Finding { return nil }

// RefusedBy is the *Refused of findings when one of them refuses, else nil.
func RefusedBy(findings []Finding) error { return nil }

// Verdict is what an index does with a record that it witnessed.
type Verdict struct {
	Findings   []Finding
	Quarantine bool
}

// Judge validates a record that is already in some repo.
func (c *Catalog) Judge(rec *Record, rkey syntax.RecordKey) Verdict { return Verdict{} }
