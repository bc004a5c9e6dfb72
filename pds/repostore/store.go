package repostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
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
// that is meant for the client.
var (
	ErrRepoNotFound   = errors.New("repo not found")
	ErrRecordNotFound = errors.New("record not found")
	ErrRecordExists   = errors.New("record exists already")
	ErrInvalidSwap    = errors.New("swap does not match")
	ErrRepeatedPath   = errors.New("one batch writes a record twice")
	ErrTooManyWrites  = errors.New("too many writes in one batch")
	ErrCommitTooBig   = errors.New("commit is too big for the firehose")
	ErrBlobNotFound   = errors.New("blob not found")
	ErrBlobMimeType   = errors.New("blob has another MIME type")
	ErrBlobSize       = errors.New("blob has another size")
	// ErrRepoExists is CreateRepo's answer for a DID that has a repo.
	ErrRepoExists = errors.New("repo exists already")
)

// Errors that no client can mend.
var (
	// ErrContended says that other writers of the same repo won every attempt.
	ErrContended = errors.New("repostore: the repo changed at each attempt")
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
	Now         func() time.Time // time.Now when nil
}

// DefaultCachedNodes is some 20 MB of nodes.
const DefaultCachedNodes = 16_384

// Head is the newest commit of a repo.
type Head struct {
	Commit cid.Cid
	Rev    syntax.TID
	Data   cid.Cid // root of the MST
}

// recordURI is the AT URI of a record of did.
func recordURI(did syntax.DID, path string) syntax.ATURI {
	return syntax.ATURI(fmt.Sprintf("at://%s/%s", did, path))
}
