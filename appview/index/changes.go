package index

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// ChangeKind says in what way a view changed.
type ChangeKind string

// The kinds of change.
const (
	ChangeCreated        ChangeKind = "created"        // a record is in the views that was not
	ChangeUpdated        ChangeKind = "updated"        // it has another version
	ChangeDeleted        ChangeKind = "deleted"        // its author deleted it
	ChangePurged         ChangeKind = "purged"         // its host removed it for good
	ChangeQuarantined    ChangeKind = "quarantined"    // it does not fit its lexicon: in no view any more
	ChangeReleased       ChangeKind = "released"       // it does after all
	ChangeTakenDown      ChangeKind = "takenDown"      // the operator of its host hides it
	ChangeRestored       ChangeKind = "restored"       // and does no longer
	ChangeHead           ChangeKind = "head"           // what led to an observation, the head of its chain, leads to another one
	ChangeFindingAdded   ChangeKind = "findingAdded"   // something is to be said of a record
	ChangeFindingRemoved ChangeKind = "findingRemoved" // and is not any more
	ChangeCitation       ChangeKind = "citation"       // what came of checking a citation of the record is something else
	ChangeSession        ChangeKind = "session"        // a session has another version: its state
	ChangeAccount        ChangeKind = "account"        // all of a repo came into the views or went
	ChangeReindexed      ChangeKind = "reindexed"      // any view may have changed
)

// ChangeKinds are all of them.
var ChangeKinds = []ChangeKind{
	ChangeCreated, ChangeUpdated, ChangeDeleted, ChangePurged, ChangeQuarantined, ChangeReleased, ChangeTakenDown, ChangeRestored,
	ChangeHead, ChangeFindingAdded, ChangeFindingRemoved, ChangeCitation, ChangeSession, ChangeAccount, ChangeReindexed,
}

// The changes of a citation that say most.
const (
	SupportGained = "gained" // it holds, and did not before
	SupportLost   = "lost"   // it held, and does no longer: on what it pins, or on what superseded that
)

// Change is something that somebody who was shown a view should know. It names
// records and never says what is in them, so that nothing of it has to be taken
// back when content is.
type Change struct {
	Seq        int64
	Kind       ChangeKind
	URI        syntax.ATURI // of the record whose view changed; at://<did> of ChangeAccount, "" of ChangeReindexed
	DID        syntax.DID
	Collection syntax.NSID // "" of ChangeAccount and ChangeReindexed
	CID        cid.Cid     // of the version that is shown, or was; undefined when there is none
	Rev        syntax.TID  // of the commit that has it; of the deletion when it was deleted
	At         time.Time   // when the transaction began

	Old, New *lexicons.StrongRef // of ChangeHead: the head before, and now; New is nil when nothing on the chain lives
	Code     string              // of a finding
	Severity lexicons.Severity   // of a finding
	Support  string              // of ChangeCitation: one of the constants, or ""
	Status   string              // of ChangeSession: active, ended, or "" for any other
	Version  int64               // of ChangeSession: how many versions were witnessed
	HandOver bool                // of ChangeSession: another machine, harness, branch or model than before
	Active   bool                // of ChangeAccount

	hidden bool   // for the operator alone
	needs  string // another collection that the viewer must see; anyCollection for all of them
}

// anyCollection is in Change.needs when it is not known what it follows from.
const anyCollection = "*"

// changeDetail is what is stored of a change beside the columns.
type changeDetail struct {
	Old      *ref   `json:"old,omitempty"`
	New      *ref   `json:"new,omitempty"`
	Code     string `json:"code,omitempty"`
	Severity string `json:"severity,omitempty"`
	Support  string `json:"support,omitempty"`
	Status   string `json:"status,omitempty"`
	Version  int64  `json:"version,omitempty"`
	HandOver bool   `json:"handOver,omitempty"`
	Active   bool   `json:"active,omitempty"`
}

func (d changeDetail) encode() (string, error) {
	if d == (changeDetail{}) {
		return "", nil
	}
	b, err := json.Marshal(d)
	return string(b), err
}

// changeRow is a change as it is stored.
type changeRow struct {
	Seq        int64
	Kind       string
	URI        string `gorm:"column:uri"`
	Did        string
	Collection string
	CID        string `gorm:"column:cid"`
	Rev        string
	Detail     string
	Needs      string
	Hidden     bool
	At         string

	detail changeDetail
	about  []string // other records that the change names, or follows from
	shown  bool     // told although what it is about is hidden: the news is that it is
}

const changeColumns = "seq, kind, uri, did, collection, cid, rev, detail, needs, hidden, at"

func (r *changeRow) export() (Change, error) {
	var d changeDetail
	if r.Detail != "" {
		if err := json.Unmarshal([]byte(r.Detail), &d); err != nil {
			return Change{}, fmt.Errorf("detail of change %d: %w", r.Seq, err)
		}
	}
	return Change{
		Seq: r.Seq, Kind: ChangeKind(r.Kind), URI: syntax.ATURI(r.URI), DID: syntax.DID(r.Did), Collection: syntax.NSID(r.Collection),
		CID: parseCID(r.CID), Rev: syntax.TID(r.Rev), At: textTime(r.At),
		Old: d.Old.strong(), New: d.New.strong(), Code: d.Code, Severity: lexicons.Severity(d.Severity), Support: d.Support,
		Status: d.Status, Version: d.Version, HandOver: d.HandOver, Active: d.Active,
		hidden: r.Hidden, needs: r.Needs,
	}, nil
}

func (r *ref) strong() *lexicons.StrongRef {
	if r == nil {
		return nil
	}
	return &lexicons.StrongRef{URI: syntax.ATURI(r.URI), CID: parseCID(r.CID)}
}

// maxUntold bounds how many changes a transaction holds in memory.
const maxUntold = 1000

// tell notes a change for those who follow. A replay of the journal tells
// nothing: nothing happens in it.
func (w *writer) tell(c changeRow) error {
	if w.silent {
		return nil
	}
	r, err := w.repo(syntax.DID(c.Did))
	if err != nil {
		return err
	}
	c.Hidden = c.Hidden || !r.Active && !c.shown
	w.untold = append(w.untold, c)
	if len(w.untold) < maxUntold {
		return nil
	}
	return w.saveChanges()
}

// tellRecord notes what became of a record.
func (w *writer) tellRecord(kind ChangeKind, rec *recordRow, version, rev string, hidden bool) error {
	return w.tell(changeRow{
		Kind: string(kind), URI: rec.URI, Did: rec.Did, Collection: rec.Collection, CID: version, Rev: rev, Hidden: hidden,
	})
}

// tellVersion notes that a record has another version: was is what it was
// before, rec what it is.
func (w *writer) tellVersion(was, rec *recordRow, rev string) error {
	before, now := slices.Contains(live, was.State), slices.Contains(live, rec.State)
	switch {
	case before && now:
		return w.tellRecord(ChangeUpdated, rec, rec.CID, rev, false)
	case before:
		return w.tellRecord(ChangeQuarantined, rec, was.CID, "", false)
	case now && was.State == string(StateQuarantined):
		w.released[rec.uri()] = true
		return w.tellRecord(ChangeReleased, rec, rec.CID, rev, false)
	case now:
		return w.tellRecord(ChangeCreated, rec, rec.CID, rev, false)
	}
	return w.tellRecord(ChangeQuarantined, rec, rec.CID, rev, true)
}

// tellDeleted notes that a record is going; rec is what it still is.
func (w *writer) tellDeleted(rec *recordRow, rev string) error {
	kind := ChangeDeleted
	if w.purging {
		kind = ChangePurged
	}
	return w.tellRecord(kind, rec, "", rev, rec.State == string(StateQuarantined))
}

// tellHead notes that what led to old leads to head now; the zero ref for nothing.
func (w *writer) tellHead(old, head ref) error {
	uri := syntax.ATURI(old.URI)
	c := changeRow{
		Kind: string(ChangeHead), URI: old.URI, Did: string(authorOf(uri)), Collection: string(lexicons.ObservationNSID),
		detail: changeDetail{Old: &old},
	}
	if head.URI != "" {
		c.detail.New, c.about = &head, []string{head.URI}
	}
	return w.tell(c)
}

// tellSession notes the state of a session that has another version; before is
// what is still kept of the one that it replaces.
func (w *writer) tellSession(rec *recordRow, rev string, now lexicons.Session) error {
	if w.silent {
		return nil
	}
	var before []struct{ Harness, Machine, Branch, Model string }
	if err := w.tx.Raw("SELECT harness, machine, branch, model FROM sessions WHERE uri = ?", rec.URI).Scan(&before).Error; err != nil {
		return fmt.Errorf("read session %s: %w", rec.URI, err)
	}
	d := changeDetail{Version: rec.Versions}
	if now.Status == "active" || now.Status == "ended" {
		d.Status = now.Status
	}
	for _, b := range before {
		d.HandOver = another(b.Machine, indexKey(now.Machine)) || another(b.Harness, clean(now.Harness)) ||
			another(b.Branch, clean(now.Branch)) || another(b.Model, clean(now.Model))
	}
	return w.tell(changeRow{
		Kind: string(ChangeSession), URI: rec.URI, Did: rec.Did, Collection: rec.Collection, CID: rec.CID, Rev: rev, detail: d,
	})
}

// another tells that a session went from one to another, not that one is named
// for the first time.
func another(before, now string) bool { return before != "" && now != "" && before != now }

// judgement is a finding as far as it is told of.
type judgement struct {
	Code     string
	Path     string
	CID      string `gorm:"column:cid"`
	Severity string
}

// tellFindings notes by what the findings of a record differ: one change for
// each code, however often it stands there. Those of a record that is gone went
// with it.
func (w *writer) tellFindings(rec *recordRow, before, now []judgement) error {
	if w.silent {
		return nil
	}
	err := w.tellJudgements(ChangeFindingAdded, rec, now, before)
	if err != nil || rec.deleted() {
		return err
	}
	return w.tellJudgements(ChangeFindingRemoved, rec, before, now)
}

// tellJudgements tells of those that are in one list and not in the other.
func (w *writer) tellJudgements(kind ChangeKind, rec *recordRow, in, other []judgement) error {
	type news struct{ code, severity, needs string }
	had := make(map[judgement]bool, len(other))
	for _, j := range other {
		had[j] = true
	}
	targets := targetsOf{w: w, of: rec.URI}
	var all []news
	for _, j := range in {
		if had[j] {
			continue
		}
		needs, err := targets.followsFrom(rec, j)
		if err != nil {
			return err
		}
		all = append(all, news{j.Code, j.Severity, needs})
	}
	slices.SortFunc(all, func(a, b news) int {
		return cmp.Or(cmp.Compare(a.code, b.code), cmp.Compare(a.severity, b.severity), cmp.Compare(a.needs, b.needs))
	})
	// Of a record in quarantine the operator alone is told what was found.
	hidden := rec.State == string(StateQuarantined) || kind == ChangeFindingRemoved && w.released[rec.uri()]
	for _, n := range slices.Compact(all) {
		err := w.tell(changeRow{
			Kind: string(kind), URI: rec.URI, Did: rec.Did, Collection: rec.Collection, Needs: n.needs,
			Hidden: hidden, detail: changeDetail{Code: n.code, Severity: n.severity},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// targetsOf is what a record names and cites, read when somebody asks.
type targetsOf struct {
	w     *writer
	of    string
	refs  map[string]syntax.ATURI // by path; nil until read
	cited map[string]syntax.ATURI
}

// followsFrom is the other collection that a finding follows from; see
// visibleFindings.
func (t *targetsOf) followsFrom(rec *recordRow, j judgement) (string, error) {
	for _, d := range dependent {
		if rec.Collection == string(d.on) && slices.Contains(d.codes, j.Code) {
			return string(d.of), nil
		}
	}
	targets, table := &t.refs, "refs"
	switch {
	case slices.Contains(ofTargets, j.Code):
	case slices.Contains(ofCitations, j.Code):
		targets, table = &t.cited, "citations"
	default:
		return "", nil
	}
	if *targets == nil {
		var rows []struct {
			Path      string
			TargetURI syntax.ATURI `gorm:"column:target_uri"`
		}
		if err := t.w.tx.Raw("SELECT path, target_uri FROM "+table+" WHERE from_uri = ?", t.of).Scan(&rows).Error; err != nil {
			return "", fmt.Errorf("look for what findings on %s follow from: %w", t.of, err)
		}
		*targets = make(map[string]syntax.ATURI, len(rows))
		for _, r := range rows {
			(*targets)[r.Path] = r.TargetURI
		}
	}
	if target, named := (*targets)[j.Path]; named {
		return string(target.Collection()), nil
	}
	return anyCollection, nil // the record named something else then
}

// standing is what came of checking one citation.
type standing struct {
	Path      string
	TargetURI string `gorm:"column:target_uri"`
	TargetCID string `gorm:"column:target_cid"`
	Verdict   string
	Freshness string
	HeadURI   string `gorm:"column:head_uri"`
}

func (s standing) holds() bool {
	return lexicons.CitationVerdict(s.Verdict).Holds() && lexicons.Freshness(s.Freshness) != lexicons.FreshGone
}

// tellCitations notes which citations of a record came to stand otherwise than
// before: one change for each target. Those that the record did not have are no
// news beside its new version.
func (w *writer) tellCitations(rec *recordRow, before, now []standing) error {
	type news struct{ target, support string }
	told, had := map[news]bool{}, make(map[string]standing, len(before))
	for _, b := range before {
		had[b.Path] = b
	}
	for _, n := range now {
		was, known := had[n.Path]
		if !known || was.TargetURI != n.TargetURI || was.TargetCID != n.TargetCID || was.Verdict == n.Verdict && was.Freshness == n.Freshness {
			continue
		}
		c := changeRow{
			Kind: string(ChangeCitation), URI: rec.URI, Did: rec.Did, Collection: rec.Collection,
			Needs: string(syntax.ATURI(n.TargetURI).Collection()),
		}
		switch held, holds := was.holds(), n.holds(); {
		case holds && !held:
			c.detail.Support = SupportGained
		case held && !holds:
			c.detail.Support = SupportLost
		}
		about := news{n.TargetURI, c.detail.Support}
		if told[about] {
			continue
		}
		told[about] = true
		// Whether the target has some words is not for whoever may not read it.
		c.about = []string{n.TargetURI, n.HeadURI}
		if err := w.tell(c); err != nil {
			return err
		}
	}
	return nil
}

// completeChanges looks up what those who told of a change did not know: which
// version of the record is shown, and whether it or another one that they name may be
// seen. Of the record's own repo they knew.
func (w *writer) completeChanges() error {
	var wanting, named []string
	for i := range w.untold {
		c := &w.untold[i]
		named = append(append(named, c.URI), c.about...)
		if c.CID == "" && !slices.Contains(gone, ChangeKind(c.Kind)) {
			wanting = append(wanting, c.URI)
		}
	}
	shown := map[string]struct{ cid, rev string }{}
	for part := range slices.Chunk(compact(wanting), MaxBatch) {
		var rows []struct {
			URI string `gorm:"column:uri"`
			CID string `gorm:"column:cid"`
			Rev string
		}
		if err := w.tx.Raw("SELECT r.uri, r.cid, j.rev FROM records r JOIN journal j ON j.seq = r.seq WHERE r.uri IN ?", part).Scan(&rows).Error; err != nil {
			return fmt.Errorf("complete changes: %w", err)
		}
		for _, r := range rows {
			shown[r.URI] = struct{ cid, rev string }{r.CID, r.Rev}
		}
	}
	down, asleep, err := w.withheld(named)
	if err != nil {
		return fmt.Errorf("complete changes: %w", err)
	}
	for i := range w.untold {
		c := &w.untold[i]
		if v, ok := shown[c.URI]; ok && c.CID == "" && !slices.Contains(gone, ChangeKind(c.Kind)) {
			c.CID, c.Rev = v.cid, v.rev
		}
		if !c.shown {
			c.Hidden = c.Hidden || down[c.URI] || slices.ContainsFunc(c.about, func(uri string) bool {
				return down[uri] || asleep[authorOf(syntax.ATURI(uri))]
			})
		}
	}
	return nil
}

// withheld are those of uris that were taken down, and those of their authors
// whose repos are not active.
func (w *writer) withheld(uris []string) (down map[string]bool, asleep map[syntax.DID]bool, err error) {
	down, asleep = map[string]bool{}, map[syntax.DID]bool{}
	uris = compact(uris)
	var dids []string
	for _, uri := range uris {
		dids = append(dids, string(authorOf(syntax.ATURI(uri))))
	}
	for part := range slices.Chunk(uris, MaxBatch) {
		var rows []string
		if err := w.tx.Raw("SELECT uri FROM takedowns WHERE uri IN ?", part).Scan(&rows).Error; err != nil {
			return nil, nil, err
		}
		for _, uri := range rows {
			down[uri] = true
		}
	}
	for part := range slices.Chunk(compact(dids), MaxBatch) {
		var rows []syntax.DID
		if err := w.tx.Raw("SELECT did FROM repos WHERE did IN ? AND NOT active", part).Scan(&rows).Error; err != nil {
			return nil, nil, err
		}
		for _, did := range rows {
			asleep[did] = true
		}
	}
	for did, r := range w.repos { // as it will be stored
		asleep[did] = !r.Active
	}
	return down, asleep, nil
}

// gone are the kinds after which no version is shown.
var gone = []ChangeKind{ChangeDeleted, ChangePurged, ChangeTakenDown, ChangeAccount, ChangeReindexed}

func compact(s []string) []string {
	slices.Sort(s)
	return slices.Compact(s)
}

// tellReindexed notes, at the end of a replay, that any view may be another one:
// a program that judges otherwise may have made it.
func (w *writer) tellReindexed() error {
	w.untold = append(w.untold[:0], changeRow{Kind: string(ChangeReindexed)})
	return w.saveChanges()
}

// changesAtOnce are the numbers of changes that one statement inserts: few, so
// that the prepared statements stay few.
var changesAtOnce = [...]int{32, 4, 1}

// saveChanges gives what was told so far its seqs, in order, and stores it. The
// lock of the index makes the order that of commit.
func (w *writer) saveChanges() error {
	if len(w.untold) == 0 {
		return nil
	}
	if err := w.completeChanges(); err != nil {
		return err
	}
	rest := w.untold
	for _, size := range changesAtOnce {
		for len(rest) >= size {
			var values []any
			for _, c := range rest[:size] {
				detail, err := c.detail.encode()
				if err != nil {
					return err
				}
				w.changeSeq = max(w.changeSeq+1, w.now.UnixMicro())
				values = append(values, w.changeSeq, c.Kind, c.URI, c.Did, c.Collection, c.CID, c.Rev, detail, c.Needs, c.Hidden, migrations.FormatTime(w.now))
			}
			rows := strings.Repeat(", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", size)[2:]
			if err := w.tx.Exec("INSERT INTO changes ("+changeColumns+") VALUES "+rows, values...).Error; err != nil {
				return fmt.Errorf("save changes: %w", err)
			}
			rest = rest[size:]
		}
	}
	w.untold = w.untold[:0]
	return w.tx.Exec("UPDATE index_state SET change_seq = ? WHERE id = 1", w.changeSeq).Error
}
