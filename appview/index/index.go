package index

import (
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/library"
	"herbarium.garden/migrations"
)

// ErrNotFound is returned by the queries for one thing that is not here, or
// not for this viewer.
var ErrNotFound = errors.New("not indexed")

// Config is what an Index is made of.
type Config struct {
	DB *migrations.DB
	// Rules judge the records, over the lexicons of the program; the index adds
	// those that it is told of (SetLexicons).
	Rules *lexicons.Rules
	Now   func() time.Time // the time of witnessing; nil is time.Now
}

// Index is the journal and what follows from it. Safe for concurrent use.
type Index struct {
	db      *migrations.DB
	library *library.Library
	edition string // of the rules
	now     func() time.Time

	changed chan struct{} // holds one ring

	pack   *zstd.Encoder // of proofs; both are used without a stream, and safe for concurrent use
	unpack *zstd.Decoder
}

// New makes an Index over a migrated appview database. It starts nothing.
func New(c Config) (*Index, error) {
	if c.DB == nil || c.Rules == nil {
		return nil, errors.New("new index: want DB and Rules")
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
	added, err := library.New(c.DB, c.Rules, c.Now)
	if err != nil {
		return nil, fmt.Errorf("new index: %w", err)
	}
	return &Index{db: c.DB, library: added, edition: c.Rules.Edition(), now: c.Now, changed: make(chan struct{}, 1), pack: pack, unpack: unpack}, nil
}
