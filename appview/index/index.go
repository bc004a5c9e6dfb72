package index

import (
	"context"
	"errors"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

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
}

// New makes an Index over a migrated appview database. It starts nothing.
func New(c Config) (*Index, error) {
	if c.DB == nil || c.Judge == nil || c.Rules == nil {
		return nil, errors.New("new index: want DB, Judge and Rules")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Index{db: c.DB, judge: c.Judge, rules: c.Rules, now: c.Now}, nil
}

// Apply takes in events of a source, in order, and moves the source's cursor:
// one transaction. Events that were applied before change nothing.
func (x *Index) Apply(ctx context.Context, source string, cursor int64, events []Event) error {
	return nil
}

// Reindex builds the derived tables again from the journal, in one
// transaction: readers see the old ones until it commits.
func (x *Index) Reindex(ctx context.Context) error { return nil }

// Record is the record at uri, its tombstone included. ErrNotFound when it was never witnessed.
func (x *Index) Record(ctx context.Context, v Viewer, uri syntax.ATURI) (*Record, error) {
	return nil, ErrNotFound
}

// Records are those of uris that are held here, tombstones included, in one
// query. At most 1,000 URIs.
func (x *Index) Records(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI]Record, error) {
	return nil, nil
}

// Versions are the witnessed versions of uri, the oldest first; Position.Key is the seq.
func (x *Index) Versions(ctx context.Context, v Viewer, uri syntax.ATURI, p Page) (List[Version], error) {
	return List[Version]{}, nil
}

// VersionKey names one version of a record.
func VersionKey(uri syntax.ATURI, c cid.Cid) string { return string(uri) + " " + c.String() }

// PinnedVersions are the versions that refs pin and that are held here, by
// VersionKey, current or not. At most 1,000 refs.
func (x *Index) PinnedVersions(ctx context.Context, v Viewer, refs []lexicons.StrongRef) (map[string]Version, error) {
	return nil, nil
}

// RefStates tells what became of the target of each ref, by VersionKey. At most 1,000 refs.
func (x *Index) RefStates(ctx context.Context, v Viewer, refs []lexicons.StrongRef) (map[string]RefState, error) {
	return nil, nil
}

// Observation is the observation at uri. ErrNotFound for a tombstone.
func (x *Index) Observation(ctx context.Context, v Viewer, uri syntax.ATURI) (*Observation, error) {
	return nil, ErrNotFound
}

// Chain is where the observation at uri, or its tombstone, stands.
func (x *Index) Chain(ctx context.Context, v Viewer, uri syntax.ATURI) (*Chain, error) {
	return nil, ErrNotFound
}

// ChainMembers are the members of the chain of uri in order of position, then URI.
func (x *Index) ChainMembers(ctx context.Context, v Viewer, uri syntax.ATURI, p Page) (List[Member], error) {
	return List[Member]{}, nil
}

// ListObservations lists observations, the newest (SortAt) first.
func (x *Index) ListObservations(ctx context.Context, v Viewer, f ObservationFilter, p Page) (List[Observation], error) {
	return List[Observation]{}, nil
}

// Observations hydrates: those of uris that are shown to v, in one query. At most 1,000 URIs.
func (x *Index) Observations(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI]Observation, error) {
	return nil, nil
}

// Session is the session at uri. Its versions come from Versions.
func (x *Index) Session(ctx context.Context, v Viewer, uri syntax.ATURI) (*Session, error) {
	return nil, ErrNotFound
}

// ListSessions lists sessions, the last updated (SortAt) first.
func (x *Index) ListSessions(ctx context.Context, v Viewer, f SessionFilter, p Page) (List[Session], error) {
	return List[Session]{}, nil
}

// Class resolves the class at uri: at most three queries per parent.
func (x *Index) Class(ctx context.Context, v Viewer, uri syntax.ATURI) (*Resolution, error) {
	return nil, ErrNotFound
}

// ListClasses lists classes by name, then URI.
func (x *Index) ListClasses(ctx context.Context, v Viewer, f ClassFilter, p Page) (List[Class], error) {
	return List[Class]{}, nil
}

// Conversation is the chat session at uri.
func (x *Index) Conversation(ctx context.Context, v Viewer, uri syntax.ATURI) (*Conversation, error) {
	return nil, ErrNotFound
}

// Turns are the turns of a conversation by its own author in order of record
// key; Foreign lists those from other repos instead.
func (x *Index) Turns(ctx context.Context, v Viewer, session syntax.ATURI, foreign bool, p Page) (List[Turn], error) {
	return List[Turn]{}, nil
}

// OpeningTurns are, by conversation, the first turn of its own author that is
// by the user, not withheld and not without text: what an untitled
// conversation is called by. One query; at most 1,000 URIs.
func (x *Index) OpeningTurns(ctx context.Context, v Viewer, sessions []syntax.ATURI) (map[syntax.ATURI]Turn, error) {
	return nil, nil
}

// ListConversations lists conversations, the last active (SortAt) first.
func (x *Index) ListConversations(ctx context.Context, v Viewer, f ConversationFilter, p Page) (List[Conversation], error) {
	return List[Conversation]{}, nil
}

// ListFindings lists findings, the newest first.
func (x *Index) ListFindings(ctx context.Context, v Viewer, f FindingFilter, p Page) (List[Finding], error) {
	return List[Finding]{}, nil
}

// Findings are the findings of uris, gravest first. At most 1,000 URIs.
func (x *Index) Findings(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI][]Finding, error) {
	return nil, nil
}

// ReferencesTo lists the records that name target, by URI; kind "" for all kinds.
func (x *Index) ReferencesTo(ctx context.Context, v Viewer, target syntax.ATURI, kind ReferenceKind, p Page) (List[Reference], error) {
	return List[Reference]{}, nil
}

// Blobs are the blobs that the records at uris name. At most 1,000 URIs.
func (x *Index) Blobs(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI][]Blob, error) {
	return nil, nil
}

// Repos are those of dids that are known here. At most 1,000 DIDs.
func (x *Index) Repos(ctx context.Context, dids []syntax.DID) (map[syntax.DID]Repo, error) {
	return nil, nil
}

// Repo is what is known of a DID. ErrNotFound when nothing is.
func (x *Index) Repo(ctx context.Context, did syntax.DID) (*Repo, error) { return nil, ErrNotFound }

// ResolveHandle finds the DID that a handle was last verified for.
func (x *Index) ResolveHandle(ctx context.Context, h syntax.Handle) (syntax.DID, error) {
	return "", ErrNotFound
}

// Status is how the index is doing.
func (x *Index) Status(ctx context.Context) (*Status, error) { return &Status{}, nil }

// Cursor is how far a source was applied; 0 when it never was.
func (x *Index) Cursor(ctx context.Context, source string) (int64, error) { return 0, nil }
