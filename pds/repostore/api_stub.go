package repostore

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/pds/sequencer"
)

var errNotYet = errors.New("repostore: not built yet")

// Store is the repos of one PDS database.
type Store struct{}

// New checks the configuration. It starts nothing: writes wait until Run.
func New(cfg Config) (*Store, error) { return nil, errNotYet }

// Run is the committer. It ends with ctx, after which writes fail with ErrClosed.
func (s *Store) Run(ctx context.Context) error { return errNotYet }

// CreateRepo makes the empty repo of did with its first commit, inside the
// caller's transaction (tx). The caller appends the drafts (#commit, #sync),
// after #identity and #account, as the last statement of that transaction.
func (s *Store) CreateRepo(ctx context.Context, tx *gorm.DB, did syntax.DID, key atcrypto.PrivateKey) (Head, []sequencer.Draft, error) {
	return Head{}, nil, errNotYet
}

// DeleteRepo removes the repo of did with its records and blob rows, inside
// the caller's transaction (tx). Tombstones stay, and each record that the
// rules protect becomes one, so that a later repo of the same DID cannot
// revive it. A DID without a repo is not an error.
func (s *Store) DeleteRepo(ctx context.Context, tx *gorm.DB, did syntax.DID) error { return errNotYet }

// Apply writes a batch as one commit, or nothing of it. The caller has
// validated each record against its lexicon and run the stateless rules; here
// run the swaps, the blob checks and the stateful rules, on the state that the
// batch will see.
//
// Errors: those of this package, a *lexicons.Refused of the rules. When ctx
// ends first the error is ctx's, and the batch may still land.
func (s *Store) Apply(ctx context.Context, did syntax.DID, writes []Write, opts Options) (*Result, error) {
	return nil, errNotYet
}

// Head answers the repo's newest commit; ErrRepoNotFound.
func (s *Store) Head(ctx context.Context, did syntax.DID) (Head, error) { return Head{}, errNotYet }

// RepoInfo is one row of ListRepos.
type RepoInfo struct {
	DID syntax.DID
	Head
	// Cursor continues the list after this repo.
	Cursor int64
}

// ListRepos lists repos in order of creation, after cursor (0 for the first page).
func (s *Store) ListRepos(ctx context.Context, cursor int64, limit int) ([]RepoInfo, error) {
	return nil, errNotYet
}

// StoredRecord is a record as it stands in a repo.
type StoredRecord struct {
	RecordKey syntax.RecordKey
	CID       cid.Cid
	Rev       syntax.TID // of the commit that wrote it
	CBOR      []byte
}

// GetRecord answers one record; ErrRecordNotFound, ErrRepoNotFound.
func (s *Store) GetRecord(ctx context.Context, did syntax.DID, collection syntax.NSID, rkey syntax.RecordKey) (StoredRecord, error) {
	return StoredRecord{}, errNotYet
}

// ListRecords lists a collection by rkey, newest (greatest) first, or the
// other way round with reverse, after the rkey cursor ("" for the first page);
// ErrRepoNotFound.
func (s *Store) ListRecords(ctx context.Context, did syntax.DID, collection syntax.NSID, cursor syntax.RecordKey, reverse bool, limit int) ([]StoredRecord, error) {
	return nil, errNotYet
}

// Collections lists the collections that hold a record, sorted; ErrRepoNotFound.
func (s *Store) Collections(ctx context.Context, did syntax.DID) ([]syntax.NSID, error) {
	return nil, errNotYet
}

// Blob is an uploaded blob: what the bytes are, not where they lie.
type Blob struct {
	CID        cid.Cid
	MimeType   string
	Size       int64
	UploadedAt time.Time // of the last upload: the grace of an unreferenced blob counts from here
}

// AddBlob records an upload whose bytes are durable already. The blob is
// temporary until a record references it; uploading it again renews its grace.
// ErrRepoNotFound.
func (s *Store) AddBlob(ctx context.Context, did syntax.DID, b Blob) error { return errNotYet }

// GetBlob answers an uploaded blob and whether a record references it, without
// which it must not be served; ErrBlobNotFound, ErrRepoNotFound.
func (s *Store) GetBlob(ctx context.Context, did syntax.DID, c cid.Cid) (b Blob, referenced bool, err error) {
	return Blob{}, false, errNotYet
}

// ListBlobs lists the CIDs of referenced blobs, in the order of their bytes,
// after cursor (cid.Undef for the first page). With since, only those that a
// record written after that rev references. ErrRepoNotFound.
func (s *Store) ListBlobs(ctx context.Context, did syntax.DID, since syntax.TID, cursor cid.Cid, limit int) ([]cid.Cid, error) {
	return nil, errNotYet
}

// ExportCAR streams the repo as a CAR v1: the commit (its root) first, then
// nodes and records in depth-first pre-order, from one read transaction and in
// flat memory. With since, only blocks written after that rev. ErrRepoNotFound
// comes before the first byte.
func (s *Store) ExportCAR(ctx context.Context, did syntax.DID, since syntax.TID, w io.Writer) error {
	return errNotYet
}

// ProveRecord writes a CAR that proves what stands at a path: the commit, the
// MST nodes down to the path, and the record. For a path without a record it
// proves the absence. ErrRepoNotFound comes before the first byte.
func (s *Store) ProveRecord(ctx context.Context, did syntax.DID, collection syntax.NSID, rkey syntax.RecordKey, w io.Writer) error {
	return errNotYet
}
