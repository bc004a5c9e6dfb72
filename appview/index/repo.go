package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/migrations"
)

// repoRow is what is known of one DID, and whether this transaction changed it.
type repoRow struct {
	Did       string
	Handle    string
	Active    bool
	Status    string
	Rev       string
	CommitCID string `gorm:"column:commit_cid"`
	DataCID   string `gorm:"column:data_cid"`
	Sync      string
	SyncError string
	FirstSeen string
	// Unreachable is with what its host or DID failed; '' while they answer.
	Unreachable string
	UpdatedAt   string

	changed bool
}

const repoColumns = "did, handle, active, status, rev, commit_cid, data_cid, sync, sync_error, unreachable, first_seen, updated_at"

func (r *repoRow) advance(rev syntax.TID, commit, data cid.Cid) {
	r.Rev, r.CommitCID, r.DataCID = string(rev), cidText(commit), cidText(data)
	r.Sync, r.SyncError, r.Unreachable, r.changed = string(SyncSynced), "", "", true
}

func (r *repoRow) export() Repo {
	return Repo{
		DID: syntax.DID(r.Did), Handle: syntax.Handle(r.Handle), Active: r.Active, Status: r.Status,
		Rev: syntax.TID(r.Rev), Commit: parseCID(r.CommitCID), Data: parseCID(r.DataCID),
		Sync: SyncState(r.Sync), SyncError: r.SyncError, Unreachable: r.Unreachable,
		FirstSeen: textTime(r.FirstSeen), UpdatedAt: textTime(r.UpdatedAt),
	}
}

// repo is the row of did, made when this is the first that is heard of it.
func (w *writer) repo(did syntax.DID) (*repoRow, error) {
	if r, ok := w.repos[did]; ok {
		return r, nil
	}
	var rows []repoRow
	if err := w.tx.Raw("SELECT "+repoColumns+" FROM repos WHERE did = ?", did).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read repo %s: %w", did, err)
	}
	var r *repoRow
	if len(rows) > 0 {
		r = &rows[0]
	} else {
		r = &repoRow{Did: string(did), Active: true, Sync: string(SyncPending), FirstSeen: migrations.FormatTime(w.now), changed: true}
	}
	w.repos[did] = r
	return r, nil
}

func (w *writer) saveRepo(r *repoRow) error {
	return w.tx.Exec(`INSERT INTO repos (`+repoColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (did) DO UPDATE SET handle = excluded.handle, active = excluded.active, status = excluded.status,
			rev = excluded.rev, commit_cid = excluded.commit_cid, data_cid = excluded.data_cid,
			sync = excluded.sync, sync_error = excluded.sync_error, unreachable = excluded.unreachable, updated_at = excluded.updated_at`,
		r.Did, r.Handle, r.Active, r.Status, r.Rev, r.CommitCID, r.DataCID, r.Sync, r.SyncError, r.Unreachable, r.FirstSeen,
		migrations.FormatTime(w.now)).Error
}

// Repo is what is known of a DID. ErrNotFound when nothing is.
func (x *Index) Repo(ctx context.Context, did syntax.DID) (*Repo, error) {
	repos, err := x.Repos(ctx, []syntax.DID{did})
	if err != nil {
		return nil, err
	}
	r, ok := repos[did]
	if !ok {
		return nil, fmt.Errorf("repo %s: %w", did, ErrNotFound)
	}
	return &r, nil
}

// Repos are those of dids that are known here. At most MaxBatch DIDs.
func (x *Index) Repos(ctx context.Context, dids []syntax.DID) (map[syntax.DID]Repo, error) {
	out := make(map[syntax.DID]Repo, len(dids))
	if len(dids) == 0 {
		return out, nil
	}
	if err := batch(len(dids)); err != nil {
		return nil, err
	}
	var rows []repoRow
	if err := x.db.Read.WithContext(ctx).Raw("SELECT "+repoColumns+" FROM repos WHERE did IN ?", dids).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read repos: %w", err)
	}
	for i := range rows {
		out[syntax.DID(rows[i].Did)] = rows[i].export()
	}
	return out, nil
}

// ListRepos lists repos by DID, those in one sync state when sync is not "";
// a repo that is not active waits for nothing, so it is not among the pending.
// To a restricted viewer only an active repo is known that holds a record which
// that viewer may read.
func (x *Index) ListRepos(ctx context.Context, v Viewer, sync SyncState, p Page) (List[Repo], error) {
	q := newQuery(repoColumns, "repos t")
	q.whereIf(v.Restricted(), "t.active AND EXISTS (SELECT 1 FROM records c WHERE c.did = t.did AND c.collection IN ? AND c.state IN ?)", v.Collections, live)
	q.whereIf(sync != "", "t.sync = ?", sync)
	q.whereIf(sync == SyncPending, "t.active")
	if p.After != nil {
		q.where("t.did > ?", p.After.URI)
	}
	var rows []repoRow
	if err := q.page(x.db.Read.WithContext(ctx), "t.did", p, &rows); err != nil {
		return List[Repo]{}, fmt.Errorf("list repos: %w", err)
	}
	return collect(rows, p, func(r *repoRow) (Repo, Position) {
		return r.export(), Position{URI: r.Did}
	}), nil
}

// ResolveHandle finds the DID that a handle was last verified for.
func (x *Index) ResolveHandle(ctx context.Context, h syntax.Handle) (syntax.DID, error) {
	var dids []string
	err := x.db.Read.WithContext(ctx).Raw("SELECT did FROM repos WHERE handle = ? ORDER BY updated_at DESC, did LIMIT 1", h.Normalize()).Scan(&dids).Error
	if err != nil {
		return "", fmt.Errorf("resolve handle %s: %w", h, err)
	}
	if len(dids) == 0 {
		return "", fmt.Errorf("resolve handle %s: %w", h, ErrNotFound)
	}
	return syntax.DID(dids[0]), nil
}
