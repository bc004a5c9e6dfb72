package index

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/klauspost/compress/zstd"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// ErrNotFound is returned by the queries for one thing that is not here, or
// not for this viewer.
var ErrNotFound = errors.New("not indexed")

// Judge validates a record that is already in some repo. *lexicons.Catalog does.
type Judge interface {
	Judge(rec *lexicons.Record, rkey syntax.RecordKey) lexicons.Verdict
}

// Rules finds what is to be said of a record. *lexicons.Rules does.
type Rules interface {
	Check(ctx context.Context, ch lexicons.Change, snap lexicons.Snapshot) ([]lexicons.Finding, error)
}

// Config is what an Index is made of.
type Config struct {
	DB    *migrations.DB
	Judge Judge
	Rules Rules
	Now   func() time.Time // the time of witnessing; nil is time.Now
}

// Index is the journal and what follows from it. Safe for concurrent use.
type Index struct {
	db    *migrations.DB
	judge Judge
	rules Rules
	now   func() time.Time

	pack   *zstd.Encoder // of proofs; both are used without a stream, and safe for concurrent use
	unpack *zstd.Decoder
}

// New makes an Index over a migrated appview database. It starts nothing.
func New(c Config) (*Index, error) {
	if c.DB == nil || c.Judge == nil || c.Rules == nil {
		return nil, errors.New("new index: want DB, Judge and Rules")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("new index: %w", err)
	}
	unpack, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxProof))
	if err != nil {
		return nil, fmt.Errorf("new index: %w", err)
	}
	return &Index{db: c.DB, judge: c.Judge, rules: c.Rules, now: c.Now, pack: pack, unpack: unpack}, nil
}
