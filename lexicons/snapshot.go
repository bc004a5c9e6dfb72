package lexicons

import (
	"context"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
)

// Snapshot is all that a rule may know of the world: the state of the repos as
// the write under judgement will see it. Implemented by the host (what is
// stored plus what waits in the same batch) and by the index (what was
// witnessed). Every method answers nil, nil for "not there".
type Snapshot interface {
	// Record is the current record at uri.
	Record(ctx context.Context, uri syntax.ATURI) (*StoredRecord, error)
	// Tombstone tells that uri held a record that was deleted.
	Tombstone(ctx context.Context, uri syntax.ATURI) (*Tombstone, error)
	// LiveSuccessor is the head of the chain that descends from uri inside its
	// own repo, reached through tombstones too; nil when no live record descends from it.
	LiveSuccessor(ctx context.Context, uri syntax.ATURI) (*StrongRef, error)
	// Blob is the blob as the account uploaded it.
	Blob(ctx context.Context, did syntax.DID, c cid.Cid) (*StoredBlob, error)
}

// StoredRecord is a record as it stands in a repo.
type StoredRecord struct {
	URI  syntax.ATURI
	CID  cid.Cid
	CBOR []byte
}

// Tombstone remembers a deleted record: never its content, only what a chain
// needs to stay connected.
type Tombstone struct {
	URI        syntax.ATURI
	CID        cid.Cid
	DeletedAt  time.Time
	Supersedes *StrongRef
}

// StoredBlob is what the host knows of an uploaded blob.
type StoredBlob struct {
	CID      cid.Cid
	MimeType string
	Size     int64
}

// Action is what a write does to a record.
type Action string

// The three actions of a write.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Change is one write under judgement.
type Change struct {
	Action    Action
	DID       syntax.DID
	URI       syntax.ATURI
	RecordKey syntax.RecordKey
	Record    *Record       // nil on delete
	Prev      *StoredRecord // what stands there now; nil on create
	Now       time.Time
}
