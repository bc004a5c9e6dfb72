package index

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-varint"

	"herbarium.garden/lexicons"
)

// journalRow is one witnessed operation.
type journalRow struct {
	Seq         int64
	Source      string
	Did         string
	Rev         string
	CommitCID   string `gorm:"column:commit_cid"`
	URI         string `gorm:"column:uri"`
	Collection  string
	Rkey        string
	Action      string
	CID         string `gorm:"column:cid"`
	Prev        string
	Baseline    bool
	WitnessedAt string
	Facts       string
	Record      []byte
}

const journalColumns = "seq, source, did, rev, commit_cid, uri, collection, rkey, action, cid, prev, baseline, witnessed_at, facts, record"

func (r *journalRow) uri() syntax.ATURI       { return syntax.ATURI(r.URI) }
func (r *journalRow) collection() syntax.NSID { return syntax.NSID(r.Collection) }

// facts are what the journal keeps of a record when its content goes: without
// them a tombstone could not connect its chain, nor a replay know how a
// message was rewritten.
type facts struct {
	Supersedes *ref     `json:"supersedes,omitempty"`
	ObservedAt string   `json:"observedAt,omitempty"` // of an observation, as a stored time
	Rewrites   []string `json:"rewrites,omitempty"`
}

type ref struct {
	URI string `json:"uri"`
	CID string `json:"cid"`
}

func (f facts) encode() (string, error) {
	if f.Supersedes == nil && f.Rewrites == nil && f.ObservedAt == "" {
		return "", nil
	}
	b, err := json.Marshal(f)
	return string(b), err
}

func decodeFacts(s string) (facts, error) {
	var f facts
	if s == "" {
		return f, nil
	}
	if err := json.Unmarshal([]byte(s), &f); err != nil {
		return f, fmt.Errorf("facts of a journal row: %w", err)
	}
	return f, nil
}

// factsOf reads them while the content, and of a message the content that it
// replaces, is still there.
func (w *writer) factsOf(row *journalRow, was *recordRow) (facts, error) {
	var f facts
	if row.Action == string(lexicons.Delete) {
		return f, nil
	}
	rec := w.parse(row)
	if rec == nil {
		return f, nil
	}
	switch row.collection() {
	case lexicons.ObservationNSID:
		o := lexicons.ReadObservation(rec.Value)
		f.ObservedAt = timeText(o.ObservedAt)
		if s := o.Supersedes; s != nil && len(s.URI) <= MaxURILength {
			f.Supersedes = &ref{URI: clean(string(s.URI)), CID: s.CID.String()}
		}
	case lexicons.MessageNSID:
		if was == nil || was.State == string(StateDeleted) {
			return f, nil
		}
		old, err := w.shown(was)
		if err != nil {
			return f, err
		}
		if before, err := lexicons.ParseCBOR(row.collection(), old.Record); err == nil {
			for _, kind := range lexicons.CompareMessages(before.Value, rec.Value).Kinds {
				f.Rewrites = append(f.Rewrites, string(kind))
			}
		}
	}
	return f, nil
}

// append writes the row and learns its seq.
func (w *writer) append(row *journalRow) error {
	err := w.tx.Raw(`INSERT INTO journal (source, did, rev, commit_cid, uri, collection, rkey, action, cid, prev, baseline, witnessed_at, facts, record)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq`,
		row.Source, row.Did, row.Rev, row.CommitCID, row.URI, row.Collection, row.Rkey, row.Action,
		row.CID, row.Prev, row.Baseline, row.WitnessedAt, row.Facts, row.Record).Scan(&row.Seq).Error
	if err != nil {
		return fmt.Errorf("append to journal: %w", err)
	}
	return nil
}

// forget nulls the content of a URI's versions up to and including seq. That
// they were there stays.
func (w *writer) forget(uri syntax.ATURI, seq int64) error {
	err := w.tx.Exec("UPDATE journal SET record = NULL WHERE uri = ? AND seq <= ? AND record IS NOT NULL", uri, seq).Error
	if err != nil {
		return fmt.Errorf("forget content of %s: %w", uri, err)
	}
	return nil
}

// provable tells whether the operations hold a record that a proof may be
// asked for later.
func provable(ops []Operation) bool {
	return slices.ContainsFunc(ops, func(op Operation) bool {
		return op.Action != lexicons.Delete && (op.Collection == lexicons.ObservationNSID || op.Collection == lexicons.ClaimNSID)
	})
}

// maxProof bounds what a stored bundle unpacks to, in bytes: the whole tree of a big repo.
const maxProof = 1 << 30

// keepProof stores the signed commit and the MST nodes that came with it as
// one compressed bundle per commit. Every node on the path to a new record is
// new in that commit, so a table of single nodes by CID would share next to
// nothing and pay for an index in random order.
func (w *writer) keepProof(at commitAt, blocks []Block) error {
	if len(blocks) == 0 {
		return nil
	}
	var b bytes.Buffer
	for _, block := range blocks {
		b.Write(varint.ToUvarint(uint64(block.CID.ByteLen() + len(block.Data))))
		b.Write(block.CID.Bytes())
		b.Write(block.Data)
	}
	err := w.tx.Exec("INSERT INTO proofs (did, rev, commit_cid, blocks) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		at.did, at.rev, at.cid.String(), w.x.pack.EncodeAll(b.Bytes(), nil)).Error
	if err != nil {
		return fmt.Errorf("keep proof: %w", err)
	}
	return nil
}

// parseProof is the reverse of what keepProof packs.
func (x *Index) parseProof(packed []byte) ([]Block, error) {
	raw, err := x.unpack.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("stored proof: %w", err)
	}
	var blocks []Block
	for len(raw) > 0 {
		size, n, err := varint.FromUvarint(raw)
		if err != nil {
			return nil, fmt.Errorf("stored proof: %w", err)
		}
		if left := len(raw) - n; size > uint64(left) {
			return nil, fmt.Errorf("stored proof: section of %d bytes, %d are left", size, left)
		}
		section := raw[n : n+int(size)]
		raw = raw[n+int(size):]
		m, c, err := cid.CidFromBytes(section)
		if err != nil {
			return nil, fmt.Errorf("stored proof: %w", err)
		}
		blocks = append(blocks, Block{CID: c, Data: section[m:]})
	}
	return blocks, nil
}
