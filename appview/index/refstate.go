package index

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// RefState is what became of a record that is named somewhere, as far as this
// index can tell: one set of words for every view (SEMANTICS 4.1).
type RefState string

// The states of a reference.
const (
	RefCurrent     RefState = "current"              // the pinned CID is the one that is shown
	RefChanged     RefState = "changed"              // the record is there with another CID
	RefDeleted     RefState = "deleted"              // its author deleted it
	RefPurged      RefState = "purged"               // an operator removed it for good
	RefQuarantined RefState = "quarantined"          // it fails its lexicon and is in no view
	RefWithheld    RefState = "withheld-from-viewer" // it may be there, not for whoever asks
	RefMissing     RefState = "missing"              // the repo is in step and it is not there
	RefNotIndexed  RefState = "not-indexed"          // the repo is not known here, or not in step
	RefUnreachable RefState = "unreachable"          // so it is, because its host or its DID does not answer
	RefCommitCID   RefState = "commit-cid"           // the CID is that of a commit of the repo
	RefMalformed   RefState = "malformed"            // no reference at all
)

// RefState is what became of the record itself, for whoever is shown it.
func (r *Record) RefState() RefState {
	switch r.State {
	case StateDeleted:
		if r.Purged {
			return RefPurged
		}
		return RefDeleted
	case StateQuarantined:
		return RefQuarantined
	}
	return RefCurrent
}

// RefStates tells what became of the target of each ref, by VersionKey, in four
// queries. At most MaxBatch refs.
func (x *Index) RefStates(ctx context.Context, v Viewer, refs []lexicons.StrongRef) (map[string]RefState, error) {
	uris := make([]syntax.ATURI, len(refs))
	dids := make([]syntax.DID, len(refs))
	for i, r := range refs {
		uris[i], dids[i] = r.URI, authorOf(r.URI)
	}
	records, err := x.standing(ctx, v, uris)
	if err != nil {
		return nil, err
	}
	repos, err := x.Repos(ctx, dids)
	if err != nil {
		return nil, err
	}
	purged, err := x.purgedVersions(ctx, refs)
	if err != nil {
		return nil, err
	}
	commits, err := x.commits(ctx, refs)
	if err != nil {
		return nil, err
	}
	out := make(map[string]RefState, len(refs))
	for i, r := range refs {
		key := VersionKey(r.URI, r.CID)
		t := refTarget{purged: purged[key], commit: commits[key]}
		t.record, t.held = records[r.URI]
		t.repo, t.known = repos[dids[i]]
		if v.Past() && t.repo.FirstSeen.After(v.Moment) {
			t.repo, t.known = Repo{}, false
		}
		out[key] = t.state(v, r)
	}
	return out, nil
}

// standing is what stands at uris, without content, for whoever asks: what may be
// said of it is decided after.
func (x *Index) standing(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI]Record, error) {
	out := make(map[syntax.ATURI]Record, len(uris))
	if len(uris) == 0 {
		return out, nil
	}
	if err := batch(len(uris)); err != nil {
		return nil, err
	}
	if v.Past() {
		return x.pastRecords(ctx, Viewer{Admin: true}.At(v.Moment), uris)
	}
	q := newQuery("t.uri, t.cid, t.state, NOT "+notTakenDown("t.uri")+" AS taken_down, "+isPurged("t.uri", "t.cid")+" AS purged", "records t")
	q.where("t.uri IN ?", uris)
	var rows []struct {
		URI       string `gorm:"column:uri"`
		CID       string `gorm:"column:cid"`
		State     string
		TakenDown bool
		Purged    bool
	}
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read what stands: %w", err)
	}
	for _, r := range rows {
		out[syntax.ATURI(r.URI)] = Record{CID: parseCID(r.CID), State: State(r.State), TakenDown: r.TakenDown, Purged: r.Purged}
	}
	return out, nil
}

// authorOf is the DID of a URI; a strongRef's authority is one, or it would not
// have parsed.
func authorOf(uri syntax.ATURI) syntax.DID {
	did, err := uri.Authority().AsDID()
	if err != nil {
		return ""
	}
	return did
}

// refTarget is what is known of the target of one reference.
type refTarget struct {
	record Record
	held   bool // there is a record, or the tombstone of one
	repo   Repo
	known  bool
	purged bool // the pinned version
	commit bool // the pinned CID is that of a commit of the repo
}

func (t *refTarget) state(v Viewer, ref lexicons.StrongRef) RefState {
	switch {
	case !v.Sees(ref.URI.Collection()):
		return RefWithheld // whether it exists or not
	case (t.known && !t.repo.Active || t.record.TakenDown) && !v.Admin:
		return RefWithheld
	case t.purged:
		return RefPurged
	case t.commit && !v.Restricted(): // a repo's commits tell of all its writes
		return RefCommitCID
	case !t.held && t.repo.Unreachable != "":
		return RefUnreachable
	case !t.held && t.known && t.repo.Sync == SyncSynced:
		return RefMissing
	case !t.held:
		return RefNotIndexed
	}
	if state := t.record.RefState(); state != RefCurrent || t.record.CID.Equals(ref.CID) {
		return state
	}
	return RefChanged
}

// isPurged is the condition that a record, by its URI and CID, was purged: there
// or, as the same bytes, somewhere else.
func isPurged(uri, cid string) string {
	return "(EXISTS (SELECT 1 FROM purged p WHERE p.uri = " + uri + ") OR EXISTS (SELECT 1 FROM purged p WHERE p.cid = " + cid + "))"
}

// purgedVersions are those of refs that were purged, by VersionKey: a purge is
// of a version wherever it stands.
func (x *Index) purgedVersions(ctx context.Context, refs []lexicons.StrongRef) (map[string]bool, error) {
	out := map[string]bool{}
	if len(refs) == 0 {
		return out, nil
	}
	cids := make([]string, len(refs))
	for i, r := range refs {
		cids[i] = r.CID.String()
	}
	var found []string
	if err := x.db.Read.WithContext(ctx).Raw("SELECT DISTINCT cid FROM purged WHERE cid IN ?", cids).Scan(&found).Error; err != nil {
		return nil, fmt.Errorf("read what was purged: %w", err)
	}
	for i, r := range refs {
		out[VersionKey(r.URI, r.CID)] = slices.Contains(found, cids[i])
	}
	return out, nil
}

// commits are those of refs whose CID is that of a witnessed commit of the
// target's repo, by VersionKey: a host that answers a write with the wrong one
// of two CIDs.
func (x *Index) commits(ctx context.Context, refs []lexicons.StrongRef) (map[string]bool, error) {
	out := map[string]bool{}
	if len(refs) == 0 {
		return out, nil
	}
	marks := make([]int64, len(refs))
	for i, r := range refs {
		marks[i] = commitMark(string(authorOf(r.URI)), r.CID.String())
	}
	var found []int64
	if err := x.db.Read.WithContext(ctx).Raw("SELECT mark FROM commit_marks WHERE mark IN ?", marks).Scan(&found).Error; err != nil {
		return nil, fmt.Errorf("read commits: %w", err)
	}
	witnessed := make(map[int64]bool, len(found))
	for _, mark := range found {
		witnessed[mark] = true
	}
	for i, r := range refs {
		out[VersionKey(r.URI, r.CID)] = witnessed[marks[i]]
	}
	return out, nil
}

// commitMark stands for a commit of a repo. An index over whole CIDs would be
// ten times as large and just as random; two commits that share their mark by
// chance would have to meet in one reference to be noticed.
func commitMark(did, commit string) int64 {
	sum := sha256.Sum256([]byte(did + " " + commit))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // all 64 bits are wanted, whatever they count as
}

// maxMarks is how many marks are written at a time.
const maxMarks = 500

// markCommit remembers the commit of a journal row.
func (w *writer) markCommit(row *journalRow) error {
	if row.CommitCID == "" || w.marked == row.Did+" "+row.CommitCID {
		return nil
	}
	w.marked = row.Did + " " + row.CommitCID
	if w.marks = append(w.marks, commitMark(row.Did, row.CommitCID)); len(w.marks) < maxMarks {
		return nil
	}
	return w.saveMarks()
}

// saveMarks writes the marks of the commits so far.
func (w *writer) saveMarks() error {
	if len(w.marks) == 0 {
		return nil
	}
	args := make([]any, len(w.marks))
	for i, mark := range w.marks {
		args[i] = mark
	}
	w.marks = w.marks[:0]
	values := strings.Repeat(", (?)", len(args))[2:]
	if err := w.tx.Exec("INSERT INTO commit_marks (mark) VALUES "+values+" ON CONFLICT DO NOTHING", args...).Error; err != nil {
		return fmt.Errorf("note commits: %w", err)
	}
	return nil
}
