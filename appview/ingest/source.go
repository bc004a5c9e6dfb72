package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// RawEvent is one event as its source keeps it.
type RawEvent struct {
	Seq   int64
	Frame []byte // a whole message of com.atproto.sync.subscribeRepos: header and body
}

// Source is where events come from: the host's own sequencer in process, or a
// foreign host by websocket. One event after another, seq strictly rising.
type Source interface {
	// Name is the stable name under which the cursor is kept.
	Name() string
	// ReadFrom returns up to limit events after cursor, none at the end. It
	// returns an *OutdatedCursorError when events after cursor are gone.
	ReadFrom(ctx context.Context, cursor int64, limit int) ([]RawEvent, error)
	// Wait blocks until there may be an event after cursor, or ctx ends.
	Wait(ctx context.Context, cursor int64) error
}

// OutdatedCursorError says that the source no longer has all events after the
// cursor. Oldest is the cursor from which it is complete.
type OutdatedCursorError struct{ Oldest int64 }

func (e *OutdatedCursorError) Error() string {
	return fmt.Sprintf("events after the cursor are gone; complete from %d", e.Oldest)
}

// HostedRepo is a repo as its host lists it.
type HostedRepo struct {
	DID    syntax.DID
	Active bool
	Status string // when not active
}

// ErrRepoGone is returned by FetchRepo for a repo that its host does not serve
// (deleted, deactivated, taken down): there is nothing to resync from now.
var ErrRepoGone = errors.New("the host does not serve the repo")

// RepoFetcher gets whole repos from the host behind a Source.
type RepoFetcher interface {
	// FetchRepo opens the repo as a CAR file (com.atproto.sync.getRepo).
	FetchRepo(ctx context.Context, did syntax.DID) (io.ReadCloser, error)
	// ListRepos lists up to limit of the host's repos (com.atproto.sync.listRepos)
	// from a cursor, "" for the first page. next is "" after the last one.
	ListRepos(ctx context.Context, cursor string, limit int) (repos []HostedRepo, next string, err error)
}
