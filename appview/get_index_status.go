package appview

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

type getIndexStatusParams struct {
	DID syntax.DID `param:"did"`
}

type getIndexStatusOutput struct {
	AsOf        syntax.Datetime   `json:"asOf"`
	Journal     int64             `json:"journal"`
	Sources     []sourceStatus    `json:"sources"`
	Repos       repoCounts        `json:"repos"`
	Collections []collectionCount `json:"collections"`
	// Revalidating are collections.
	Revalidating []syntax.NSID `json:"revalidating,omitempty"`
	Repo         *repoStatus   `json:"repo,omitempty"`
}

// sourceStatus is garden.herbarium.getIndexStatus#source.
type sourceStatus struct {
	Name      string          `json:"name"`
	Cursor    int64           `json:"cursor"`
	UpdatedAt syntax.Datetime `json:"updatedAt,omitempty"`
}

// repoCounts is garden.herbarium.getIndexStatus#repoCounts.
type repoCounts struct {
	Total          int64 `json:"total"`
	Pending        int64 `json:"pending"`
	Synced         int64 `json:"synced"`
	Desynchronized int64 `json:"desynchronized"`
	Inactive       int64 `json:"inactive"`
}

// collectionCount is garden.herbarium.defs#collectionCount.
type collectionCount struct {
	Collection syntax.NSID `json:"collection"`
	Records    int64       `json:"records"`
}

// repoStatus is garden.herbarium.getIndexStatus#repoStatus.
type repoStatus struct {
	DID         syntax.DID      `json:"did"`
	State       string          `json:"state"`
	Because     string          `json:"because,omitempty"`
	Active      bool            `json:"active,omitempty"`
	Status      string          `json:"status,omitempty"`
	Rev         syntax.TID      `json:"rev,omitempty"`
	Commit      syntax.CID      `json:"commit,omitempty"`
	FirstSeenAt syntax.Datetime `json:"firstSeenAt,omitempty"`
	UpdatedAt   syntax.Datetime `json:"updatedAt,omitempty"`
	Handle      syntax.Handle   `json:"handle,omitempty"`
}

func (a *Appview) getIndexStatus(ctx context.Context, _ xrpc.Viewer, p getIndexStatusParams) (*getIndexStatusOutput, error) {
	status, counted, err := a.counts.get(a.now(), func() (*index.Status, error) { return a.index.Status(ctx) })
	if err != nil {
		return nil, err
	}
	out := viewIndexStatus(status)
	out.AsOf = datetime(counted)
	if p.DID == "" {
		return out, nil
	}
	repo, err := a.index.Repo(ctx, p.DID)
	if err != nil && !errors.Is(err, index.ErrNotFound) {
		return nil, err
	}
	out.Repo = viewRepoStatus(p.DID, repo)
	return out, nil
}

// statusAge is how long counts are good for: they go through all records, and
// anybody who may read may ask for them in a loop.
const statusAge = 2 * time.Second

// statusCache holds the last counts. Its mutex is held while counting, so that
// one caller counts and the others wait for it.
type statusCache struct {
	mu      sync.Mutex
	status  *index.Status // guarded by mu, as is counted
	counted time.Time
}

func (c *statusCache) get(now time.Time, count func() (*index.Status, error)) (*index.Status, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status != nil && now.Sub(c.counted) < statusAge {
		return c.status, c.counted, nil
	}
	status, err := count()
	if err != nil {
		return nil, time.Time{}, err
	}
	c.status, c.counted = status, now
	return status, now, nil
}

func viewIndexStatus(s *index.Status) *getIndexStatusOutput {
	out := &getIndexStatusOutput{
		Journal: s.Journal, Revalidating: s.Revalidating,
		Repos: repoCounts{
			Pending:        s.Repos[index.SyncPending],
			Synced:         s.Repos[index.SyncSynced],
			Desynchronized: s.Repos[index.SyncDesynchronized],
			Inactive:       s.Inactive,
			Total:          s.Inactive,
		},
		Sources: orEmpty(each(s.Sources, func(s index.SourceStatus) sourceStatus {
			return sourceStatus{Name: s.Name, Cursor: s.Cursor, UpdatedAt: datetime(s.UpdatedAt)}
		})),
		Collections: viewCounts(s.Records),
	}
	for _, n := range s.Repos {
		out.Repos.Total += n
	}
	return out
}

// viewRepoStatus tells how far a repo is indexed; repo is nil when nothing is known of it.
func viewRepoStatus(did syntax.DID, repo *index.Repo) *repoStatus {
	if repo == nil {
		return &repoStatus{DID: did, State: string(index.RefNotIndexed)}
	}
	return &repoStatus{
		DID:         repo.DID,
		State:       string(repo.Sync),
		Because:     repo.SyncError,
		Active:      repo.Active,
		Status:      repo.Status,
		Rev:         repo.Rev,
		Commit:      viewCID(repo.Commit),
		FirstSeenAt: datetime(repo.FirstSeen),
		UpdatedAt:   datetime(repo.UpdatedAt),
		Handle:      repo.Handle,
	}
}
