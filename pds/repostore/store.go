package repostore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/sequencer"
)

// Limits of a commit, which relays hold a firehose event to.
const (
	MaxWrites      = 200       // writes in one commit
	MaxCommitBytes = 2_000_000 // bytes of the event's CAR
)

// Errors of reads and writes. An error that wraps one of these has a message
// that is meant for the client. What a record says wrongly of its blobs is a
// *lexicons.Refused, as everything that the rules find.
var (
	ErrRepoNotFound   = errors.New("repo not found")
	ErrRecordNotFound = errors.New("record not found")
	ErrRecordExists   = errors.New("record exists already")
	ErrInvalidSwap    = errors.New("swap does not match")
	ErrRepeatedPath   = errors.New("one batch writes a record twice")
	ErrTooManyWrites  = errors.New("too many writes in one batch")
	ErrCommitTooBig   = errors.New("commit is too big for the firehose")
	ErrBlobNotFound   = errors.New("blob not found")
	// ErrRepoExists is CreateRepo's answer for a DID that has a repo.
	ErrRepoExists = errors.New("repo exists already")
	// ErrBadCAR is Import's answer for a file that is not a whole, canonical and signed repo of the DID.
	ErrBadCAR = errors.New("the CAR cannot be imported")
)

// Errors that no client can mend.
var (
	// ErrContended says that other writers of the same repo won every attempt.
	ErrContended = errors.New("repostore: the repo changed at each attempt")
	// ErrImportSlow says that an import's transaction took longer than it may
	// keep others waiting.
	ErrImportSlow = errors.New("repostore: the import took too long")
	// ErrCorrupt says that stored bytes are not what their CID says.
	ErrCorrupt = errors.New("repostore: stored repo is corrupt")
	// ErrClosed says that the committer does not run any more.
	ErrClosed = errors.New("repostore: closed")
)

// KeySource answers the signing key of a hosted DID. It is asked once per
// commit, so it should remember.
type KeySource interface {
	SigningKey(ctx context.Context, did syntax.DID) (atcrypto.PrivateKey, error)
}

// Config is what a Store is made of. DB, Sequencer, Rules and Keys are required.
type Config struct {
	DB        *migrations.DB
	Sequencer *sequencer.Sequencer
	Rules     *lexicons.Rules
	Keys      KeySource

	// CachedNodes bounds the decoded MST nodes kept in memory; DefaultCachedNodes when zero.
	CachedNodes int
	// SpoolDir is where CARs lie while they are imported; that of the system when empty.
	SpoolDir string
	Now      func() time.Time // time.Now when nil
}

// DefaultCachedNodes is some 20 MB of nodes.
const DefaultCachedNodes = 16_384

// cachedNodeBytes is the largest node that is cached. A node has some 400
// bytes; only keys ground for it make one so large, and they slow down their
// own repo, not the others.
const cachedNodeBytes = 4 << 10

// maxExports bounds the exports that run at once. Each holds a connection for
// as long as its client reads.
const maxExports = 4

// maxImports bounds the imports that run at once. Each may hold 50 MB (see
// maxImportBlocks), and as much disk as its CAR has bytes.
const maxImports = 2

// cachedHeads bounds the heads of idle repos kept in memory.
const cachedHeads = 4096

// Head is the newest commit of a repo.
type Head struct {
	Commit cid.Cid
	Rev    syntax.TID
	Data   cid.Cid // root of the MST
}

// Store is the repos of one PDS database.
type Store struct {
	db        *migrations.DB
	sequencer *sequencer.Sequencer
	rules     *lexicons.Rules
	keys      KeySource
	now       func() time.Time

	nodes   *lru.Cache[cid.Cid, *storedNode] // by content: never stale
	queue   queue
	exports chan struct{} // has room for maxExports tokens
	imports chan struct{} // has room for maxImports tokens
	spool   string        // directory

	mu     sync.Mutex
	actors map[syntax.DID]*actor           // of DIDs that write just now; guarded by mu
	heads  *lru.Cache[syntax.DID, repoRow] // of those that did lately; a stale one costs a retry

	transactions, commits, conflicts atomic.Int64
}

// New checks the configuration. It starts nothing: writes wait until Run.
func New(cfg Config) (*Store, error) {
	switch {
	case cfg.DB == nil:
		return nil, errors.New("new repostore: no database")
	case cfg.Sequencer == nil:
		return nil, errors.New("new repostore: no sequencer")
	case cfg.Rules == nil:
		return nil, errors.New("new repostore: no rules")
	case cfg.Keys == nil:
		return nil, errors.New("new repostore: no key source")
	case cfg.CachedNodes < 0:
		return nil, fmt.Errorf("new repostore: CachedNodes is %d", cfg.CachedNodes)
	}
	if cfg.CachedNodes == 0 {
		cfg.CachedNodes = DefaultCachedNodes
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	nodes, err := lru.New[cid.Cid, *storedNode](cfg.CachedNodes)
	if err != nil {
		return nil, fmt.Errorf("new repostore: %w", err)
	}
	heads, err := lru.New[syntax.DID, repoRow](cachedHeads)
	if err != nil {
		return nil, fmt.Errorf("new repostore: %w", err)
	}
	return &Store{
		db: cfg.DB, sequencer: cfg.Sequencer, rules: cfg.Rules, keys: cfg.Keys, now: cfg.Now,
		nodes: nodes, heads: heads, actors: map[syntax.DID]*actor{},
		queue: queue{wake: make(chan struct{}, 1)}, exports: make(chan struct{}, maxExports),
		imports: make(chan struct{}, maxImports), spool: cfg.SpoolDir,
	}, nil
}

// remember caches a node.
func (s *Store) remember(n *storedNode) {
	if len(n.block) <= cachedNodeBytes {
		s.nodes.Add(n.cid, n)
	}
}

// Stats counts what the committer has done since New.
type Stats struct {
	Commits      int64 // commits that landed
	Transactions int64 // that carried them: fewer, when writes came together
	Conflicts    int64 // chains of commits dropped because another process had moved the head
}

// Stats answers the counters.
func (s *Store) Stats() Stats {
	return Stats{Commits: s.commits.Load(), Transactions: s.transactions.Load(), Conflicts: s.conflicts.Load()}
}

// recordURI is the AT URI of a record of did.
func recordURI(did syntax.DID, path string) syntax.ATURI {
	return syntax.ATURI("at://" + string(did) + "/" + path)
}
