package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// How a past state is read. Every version that was witnessed is a row of the
// journal with its moment, and nothing is done to a row later but to take its
// content away. So what stood at a URI at a time is the last of its rows until
// then, and what stood around it follows from those. Content that was deleted or
// taken away since is not there for the past either: where it stood is a
// tombstone, with the time at which it went.

// ErrPastTooLong is returned for the past of a chain that is too long to be
// put together again.
var ErrPastTooLong = errors.New("chain too long")

// At is the same viewer, who asks for what the index knew at a moment: the zero
// time is now. Records, versions, references between them, chains, sessions and
// classes know of it; lists of findings, citations and counts do not.
func (v Viewer) At(moment time.Time) Viewer {
	v.Moment = moment
	return v
}

// Past tells that the viewer asks for a past state.
func (v Viewer) Past() bool { return !v.Moment.IsZero() }

// until narrows to what was there at the viewer's moment, by a column that says
// since when.
func (q *query) until(v Viewer, column string) {
	q.whereIf(v.Past(), column+" <= ?", migrations.FormatTime(v.Moment))
}

// pastRecordRow is a record with its journal row of a moment.
type pastRecordRow struct {
	Full        fullRecordRow `gorm:"embedded"`
	ThenCID     string        `gorm:"column:then_cid"`
	ThenRepoCID string        `gorm:"column:then_repo_cid"`
	ThenAction  string
	ThenAt      string
}

// lastThen is a column of the last row of t's URI until a moment, its one argument.
func lastThen(column string) string {
	return "(SELECT k." + column + " FROM journal k WHERE k.uri = t.uri AND k.witnessed_at <= ? ORDER BY k.seq DESC LIMIT 1)"
}

// pastRecords is Records for a viewer who asks for the past. Which version of an
// observation is shown never changes; of anything else it is the last one then.
func (x *Index) pastRecords(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI]Record, error) {
	moment := migrations.FormatTime(v.Moment)
	q := newQuery(`t.uri, t.did, t.collection, t.rkey, t.cid, t.repo_cid, t.seq, t.state, t.violated, t.baseline, t.versions, t.indexed_at, t.updated_at, t.deleted_at,
			j.rev, j.commit_cid, j.record, j.cid AS then_cid, j.action AS then_action, j.witnessed_at AS then_at,
			`+lastThen("cid")+` AS then_repo_cid,
			NOT `+notTakenDown("t.uri")+` AS taken_down, `+isPurged("t.uri", "j.cid")+` AS purged`,
		`records t JOIN journal j ON j.seq = CASE WHEN t.collection = ? THEN t.seq
			ELSE `+lastThen("seq")+` END`)
	q.args = append(q.args, moment, string(lexicons.ObservationNSID), moment)
	q.where("t.uri IN ?", uris)
	q.until(v, "t.indexed_at")
	q.visible(v)
	var rows []pastRecordRow
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read past records: %w", err)
	}
	out := make(map[syntax.ATURI]Record, len(rows))
	for i := range rows {
		rec := x.exportPast(&rows[i])
		if rec.State != StateQuarantined || v.Admin {
			out[rec.URI] = rec
		}
	}
	return out, nil
}

func (x *Index) exportPast(r *pastRecordRow) Record {
	rec := r.Full.export()
	rec.RepoCID = parseCID(r.ThenRepoCID)
	if rec.Collection == lexicons.ObservationNSID {
		return rec
	}
	wasShown := rec.CID.Equals(parseCID(r.ThenCID))
	rec.CID, rec.UpdatedAt = parseCID(r.ThenCID), textTime(r.ThenAt)
	switch {
	case r.ThenAction == string(lexicons.Delete):
		rec.State, rec.DeletedAt = StateDeleted, rec.UpdatedAt
	case rec.CBOR == nil && rec.Collection != lexicons.MessageNSID: // deleted since
		rec.State = StateDeleted
	case wasShown && rec.State != StateDeleted:
	default:
		rec.State, rec.DeletedAt = StateOK, time.Time{}
		if _, verdict := judge(x.library.Current().Catalog, rec.Collection, rec.RecordKey, r.Full.Record); verdict.Quarantine {
			rec.State = StateQuarantined
		}
	}
	return rec
}

// pastSession is Session for a viewer who asks for the past.
func (x *Index) pastSession(ctx context.Context, v Viewer, uri syntax.ATURI) (*Session, error) {
	rec, err := x.Record(ctx, v, uri)
	if err != nil {
		return nil, err
	}
	s := &Session{Record: *rec}
	parsed, err := lexicons.ParseCBOR(lexicons.SessionNSID, rec.CBOR)
	if err != nil {
		return s, nil //nolint:nilerr // a tombstone
	}
	c := lexicons.ReadSession(parsed.Value)
	s.Title, s.Status, s.Harness, s.Machine, s.Cwd, s.Repo = clean(c.Title), clean(c.Status), clean(c.Harness), clean(c.Machine), clean(c.Cwd), clean(c.Repo)
	s.RepoKey, s.Branch, s.Model = indexKey(RepoKey(c.Repo)), clean(c.Branch), clean(c.Model)
	s.WrittenAt, s.StartedAt = c.UpdatedAt, c.StartedAt
	s.SortAt = textTime(earlier(timeText(c.UpdatedAt), migrations.FormatTime(rec.UpdatedAt)))
	q := newQuery("COUNT(*)", "journal t")
	q.where("t.uri = ? AND t.seq > (SELECT COALESCE(MAX(d.seq), 0) FROM journal d WHERE d.uri = t.uri AND d.action = ? AND d.witnessed_at <= ?)",
		uri, string(lexicons.Delete), migrations.FormatTime(v.Moment))
	q.until(v, "t.witnessed_at")
	if err := q.all(x.db.Read.WithContext(ctx), &s.Versions); err != nil {
		return nil, fmt.Errorf("count versions of %s: %w", uri, err)
	}
	return s, nil
}

// turnBack makes listed sessions, and their order, what they were at the viewer's
// moment. Which are on the page is as of now.
func (x *Index) turnBack(ctx context.Context, v Viewer, sessions []Session) error {
	for i := range sessions {
		past, err := x.pastSession(ctx, v, sessions[i].URI)
		if err != nil {
			return err
		}
		sessions[i] = *past
	}
	slices.SortFunc(sessions, func(a, b Session) int {
		return cmp.Or(b.SortAt.Compare(a.SortAt), strings.Compare(string(b.URI), string(a.URI)))
	})
	return nil
}

// pastClass is class for a viewer who asks for the past.
func (x *Index) pastClass(ctx context.Context, v Viewer, uri syntax.ATURI) (*Class, error) {
	rec, err := x.Record(ctx, v, uri)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &Class{Record: *rec}
	parsed, err := lexicons.ParseCBOR(lexicons.ClassNSID, rec.CBOR)
	if err != nil {
		return c, nil //nolint:nilerr // a tombstone
	}
	content := lexicons.ReadClass(parsed.Value)
	c.Name, c.Parent, c.Skills, c.Malformed = clean(content.Name), content.Parent, content.Skills, content.MalformedParent
	c.SortAt = textTime(earlier(timeText(content.CreatedAt), migrations.FormatTime(rec.UpdatedAt)))
	return c, nil
}
