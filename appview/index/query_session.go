package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

type sessionRow struct {
	URI       string `gorm:"column:uri"`
	Title     string
	Status    string
	Harness   string
	Machine   string
	Cwd       string
	Repo      string
	RepoKey   string
	Branch    string
	Model     string
	WrittenAt string
	StartedAt string
	SortAt    string
	Versions  int64
}

const sessionColumns = "t.uri, t.title, t.status, t.harness, t.machine, t.cwd, t.repo, t.repo_key, t.branch, t.model, t.written_at, t.started_at, t.sort_at, c.versions"

const sessionTables = "sessions t JOIN records c ON c.uri = t.uri"

func (r *sessionRow) export() Session {
	return Session{
		Record: Record{URI: syntax.ATURI(r.URI)},
		Title:  r.Title, Status: r.Status, Harness: r.Harness, Machine: r.Machine, Cwd: r.Cwd,
		Repo: r.Repo, RepoKey: r.RepoKey, Branch: r.Branch, Model: r.Model, Versions: r.Versions,
		WrittenAt: textTime(r.WrittenAt), StartedAt: textTime(r.StartedAt), SortAt: textTime(r.SortAt),
	}
}

// Session is the session at uri. Its versions come from Versions.
func (x *Index) Session(ctx context.Context, v Viewer, uri syntax.ATURI) (*Session, error) {
	if v.Past() {
		return x.pastSession(ctx, v, uri)
	}
	found, err := x.Sessions(ctx, v, []syntax.ATURI{uri})
	if err != nil {
		return nil, err
	}
	return one(found, uri)
}

// Sessions are those of uris that are shown to v. At most MaxBatch URIs.
func (x *Index) Sessions(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI]Session, error) {
	out := make(map[syntax.ATURI]Session, len(uris))
	if len(uris) == 0 {
		return out, nil
	}
	if err := batch(len(uris)); err != nil {
		return nil, err
	}
	q := newQuery(sessionColumns, sessionTables)
	q.where("t.uri IN ?", uris)
	q.visible(v, lexicons.SessionNSID)
	var rows []sessionRow
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	items := make([]Session, len(rows))
	for i := range rows {
		items[i] = rows[i].export()
	}
	if err := hydrate(ctx, x, v, items, func(s *Session) *Record { return &s.Record }); err != nil {
		return nil, err
	}
	for _, s := range items {
		out[s.URI] = s
	}
	return out, nil
}

// ListSessions lists sessions, the last updated (SortAt) first.
func (x *Index) ListSessions(ctx context.Context, v Viewer, f SessionFilter, p Page) (List[Session], error) {
	q := newQuery(sessionColumns, sessionTables)
	q.whereIf(len(f.DIDs) > 0, "t.did IN ?", f.DIDs)
	q.whereIf(f.RecordKey != "", "t.rkey = ?", f.RecordKey)
	q.whereIf(f.Repo != "", "t.repo_key = ?", indexKey(RepoKey(f.Repo)))
	q.whereIf(f.Branch != "", "t.branch = ?", clean(f.Branch))
	q.whereIf(f.Machine != "", "t.machine = ?", indexKey(f.Machine))
	q.whereIf(f.Harness != "", "t.harness = ?", clean(f.Harness))
	q.whereIf(f.Model != "", "t.model = ?", clean(f.Model))
	q.whereIf(f.Status != "", "t.status = ?", indexKey(f.Status))
	q.between(f.Since, f.Until)
	q.until(v, "c.indexed_at")
	q.visible(v, lexicons.SessionNSID)
	q.before(p, "t.sort_at")
	var rows []sessionRow
	if err := q.page(x.db.Read.WithContext(ctx), "t.sort_at DESC, t.uri DESC", p, &rows); err != nil {
		return List[Session]{}, fmt.Errorf("list sessions: %w", err)
	}
	list := collect(rows, p, func(r *sessionRow) (Session, Position) {
		return r.export(), Position{Key: r.SortAt, URI: r.URI}
	})
	if v.Past() {
		return list, x.turnBack(ctx, v, list.Items)
	}
	return list, hydrate(ctx, x, v, list.Items, func(s *Session) *Record { return &s.Record })
}
