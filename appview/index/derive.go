package index

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// recordRow is the current state of one URI.
type recordRow struct {
	URI        string `gorm:"column:uri"`
	Did        string
	Collection string
	Rkey       string
	CID        string `gorm:"column:cid"`
	RepoCID    string `gorm:"column:repo_cid"`
	Seq        int64
	State      string
	Violated   bool
	Baseline   bool
	Versions   int64
	IndexedAt  string
	UpdatedAt  string
	DeletedAt  string
}

const recordColumns = "uri, did, collection, rkey, cid, repo_cid, seq, state, violated, baseline, versions, indexed_at, updated_at, deleted_at"

func (r *recordRow) uri() syntax.ATURI { return syntax.ATURI(r.URI) }

func (r *recordRow) deleted() bool { return r.State == string(StateDeleted) }

// record reads the state of uri; nil when it was never witnessed.
func (w *writer) record(uri syntax.ATURI) (*recordRow, error) {
	if rec, ok := w.records[uri]; ok {
		return rec, nil
	}
	var rows []recordRow
	if err := w.tx.Raw("SELECT "+recordColumns+" FROM records WHERE uri = ?", uri).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read record %s: %w", uri, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return &rows[0], nil
}

func (w *writer) saveRecord(r *recordRow) error {
	err := w.tx.Exec(`INSERT INTO records (`+recordColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (uri) DO UPDATE SET cid = excluded.cid, repo_cid = excluded.repo_cid, seq = excluded.seq,
			state = excluded.state, violated = excluded.violated, versions = excluded.versions,
			updated_at = excluded.updated_at, deleted_at = excluded.deleted_at`,
		r.URI, r.Did, r.Collection, r.Rkey, r.CID, r.RepoCID, r.Seq, r.State, r.Violated, r.Baseline, r.Versions,
		r.IndexedAt, r.UpdatedAt, r.DeletedAt).Error
	if err != nil {
		return fmt.Errorf("save record %s: %w", r.URI, err)
	}
	w.records[syntax.ATURI(r.URI)] = r
	return nil
}

// parse reads the content of a journal row once per transaction and judges it;
// nil when there is none or when it is no atproto data. That a row's content is
// gone says nothing of another row with the same CID: a replay meets the first
// life of a record before its second.
func (w *writer) parse(row *journalRow) *lexicons.Record {
	if row.Record == nil {
		return nil
	}
	key := versionKey(row.URI, row.CID)
	if rec, ok := w.parsed[key]; ok {
		return rec
	}
	rec, verdict := judge(w.held.Catalog, row.collection(), syntax.RecordKey(row.Rkey), row.Record)
	w.parsed[key], w.verdicts[key] = rec, verdict
	return rec
}

// judge parses and judges the content of a record. Content that is gone is
// neither good nor bad.
func judge(catalog *lexicons.Catalog, collection syntax.NSID, rkey syntax.RecordKey, content []byte) (*lexicons.Record, lexicons.Verdict) {
	if content == nil {
		return nil, lexicons.Verdict{}
	}
	rec, err := lexicons.ParseCBOR(collection, content)
	if err != nil {
		return nil, lexicons.Verdict{Findings: findingsOf(err), Quarantine: true}
	}
	return rec, catalog.Judge(rec, rkey)
}

// derive moves the derived tables on by one row of the journal. rec is the
// state before it. It reads nothing but the derived tables and the row, so
// that a replay of the journal ends in the same state.
func (w *writer) derive(row *journalRow, rec *recordRow) error {
	w.restale[row.uri()] = true
	if err := w.markCommit(row); err != nil {
		return err
	}
	if row.Action == string(lexicons.Delete) {
		return w.deriveDelete(row, rec)
	}
	if row.collection() == lexicons.ObservationNSID && rec != nil {
		return w.deriveViolation(row, rec)
	}
	return w.deriveVersion(row, rec)
}

// deriveVersion makes the row's content the record.
func (w *writer) deriveVersion(row *journalRow, rec *recordRow) error {
	parsed := w.parse(row)
	if rec == nil {
		rec = &recordRow{
			URI: row.URI, Did: row.Did, Collection: row.Collection, Rkey: row.Rkey,
			Baseline: row.Baseline, IndexedAt: row.WitnessedAt,
		}
		w.fresh[row.uri()] = true
	}
	was := *rec
	rec.CID, rec.RepoCID, rec.Seq = row.CID, row.CID, row.Seq
	rec.UpdatedAt, rec.DeletedAt = row.WitnessedAt, ""
	rec.Versions++
	rec.State = string(StateOK)
	if w.verdicts[versionKey(row.URI, row.CID)].Quarantine {
		rec.State = string(StateQuarantined)
	}
	if concerns, err := w.concernsReferrers(&was, rec, parsed); err != nil {
		return err
	} else if concerns {
		w.moved[row.uri()] = true
	}
	if err := w.saveRecord(rec); err != nil {
		return err
	}
	if err := w.tellVersion(&was, rec, row.Rev); err != nil {
		return err
	}
	if row.collection() == lexicons.SessionNSID && parsed != nil && rec.State == string(StateOK) {
		if err := w.tellSession(rec, row.Rev, lexicons.ReadSession(parsed.Value)); err != nil {
			return err
		}
	}
	if rec.Versions > 1 {
		if err := w.clear(rec); err != nil {
			return err
		}
	}
	shown := rec.State == string(StateOK)
	head := false
	if row.collection() == lexicons.ObservationNSID {
		var err error
		if head, err = w.addNode(row, shown); err != nil {
			return err
		}
	}
	if parsed == nil || !shown {
		return nil
	}
	return w.fill(row, rec, parsed, head)
}

// concernsReferrers tells whether those who name a record may have other
// findings after it changed from was to rec. Turns name their conversation,
// not a version of it: only its start concerns them, a new title none.
func (w *writer) concernsReferrers(was, rec *recordRow, parsed *lexicons.Record) (bool, error) {
	if was.State != rec.State || was.CID == rec.CID {
		return was.State != rec.State, nil
	}
	if rec.Collection != string(lexicons.ChatSessionNSID) || parsed == nil {
		return true, nil
	}
	var started []string
	if err := w.tx.Raw("SELECT created_at FROM conversations WHERE uri = ?", rec.URI).Scan(&started).Error; err != nil {
		return false, fmt.Errorf("read conversation %s: %w", rec.URI, err)
	}
	return len(started) == 0 || started[0] != timeText(lexicons.ReadChatSession(parsed.Value).CreatedAt), nil
}

// deriveViolation notes that an observation was edited, or its key used again:
// what was first seen stays.
func (w *writer) deriveViolation(row *journalRow, rec *recordRow) error {
	rec.RepoCID = row.CID
	if row.CID != rec.CID || rec.deleted() {
		w.moved[row.uri()] = true // somebody may cite just this version
		rec.Violated = true
		if rec.State == string(StateOK) {
			rec.State = string(StateViolated)
		}
	}
	rec.Versions++
	return w.saveRecord(rec)
}

// deriveDelete leaves a tombstone.
func (w *writer) deriveDelete(row *journalRow, rec *recordRow) error {
	if rec == nil {
		return nil // it was never here
	}
	w.moved[row.uri()] = true
	if rec.deleted() { // a record under a key that was used again
		rec.RepoCID = ""
		return w.saveRecord(rec)
	}
	if err := w.tellDeleted(rec, row.Rev); err != nil {
		return err
	}
	if row.collection() == lexicons.ObservationNSID {
		if err := w.buryNode(row.uri()); err != nil {
			return err
		}
	}
	if err := w.clear(rec); err != nil {
		return err
	}
	rec.State, rec.RepoCID, rec.DeletedAt, rec.Versions = string(StateDeleted), "", row.WitnessedAt, 0
	return w.saveRecord(rec)
}

// clear removes what was derived from a record's content.
func (w *writer) clear(rec *recordRow) error {
	tables := []string{"blob_refs"}
	switch syntax.NSID(rec.Collection) {
	case lexicons.ObservationNSID:
		var runs []string
		if err := w.tx.Raw("SELECT run FROM observations WHERE uri = ?", rec.URI).Scan(&runs).Error; err != nil {
			return err
		}
		for _, run := range runs {
			if err := w.markRun(rec.Did, run); err != nil {
				return err
			}
		}
		tables = append(tables, "observations")
	case lexicons.SessionNSID:
		tables = append(tables, "sessions")
	case lexicons.ClassNSID:
		tables = append(tables, "classes")
	case lexicons.SkillNSID:
		if err := w.markNamesake(rec.uri()); err != nil {
			return err
		}
		tables = append(tables, "skills")
	case lexicons.ChatSessionNSID:
		tables = append(tables, "conversations")
	case lexicons.MessageNSID:
		var was []string
		if err := w.tx.Raw("SELECT session_uri FROM messages WHERE uri = ?", rec.URI).Scan(&was).Error; err != nil {
			return err
		}
		for _, uri := range was {
			w.recount[syntax.ATURI(uri)] = true
			if err := w.markTurn(rec.URI, uri); err != nil {
				return err
			}
		}
		tables = append(tables, "messages")
	}
	for _, table := range tables {
		if err := w.tx.Exec("DELETE FROM "+table+" WHERE uri = ?", rec.URI).Error; err != nil {
			return fmt.Errorf("clear %s of %s: %w", table, rec.URI, err)
		}
	}
	if err := w.dropWords(rec.URI); err != nil {
		return err
	}
	for _, table := range []string{"refs", "citations"} {
		if err := w.tx.Exec("DELETE FROM "+table+" WHERE from_uri = ?", rec.URI).Error; err != nil {
			return fmt.Errorf("clear %s of %s: %w", table, rec.URI, err)
		}
	}
	return nil
}

// fill derives rows from a record that is in the views. head is about an
// observation: whether it is the head of its branch.
func (w *writer) fill(row *journalRow, rec *recordRow, parsed *lexicons.Record, head bool) error {
	var err error
	switch row.collection() {
	case lexicons.ObservationNSID:
		err = w.fillObservation(row, rec, lexicons.ReadObservation(parsed.Value), head)
	case lexicons.SessionNSID:
		err = w.fillSession(row, lexicons.ReadSession(parsed.Value))
	case lexicons.ClassNSID:
		err = w.fillClass(row, lexicons.ReadClass(parsed.Value))
	case lexicons.SkillNSID:
		err = w.fillSkill(row, lexicons.ReadSkill(parsed.Value))
	case lexicons.ChatSessionNSID:
		err = w.fillConversation(row, lexicons.ReadChatSession(parsed.Value))
	case lexicons.MessageNSID:
		err = w.fillMessage(row, lexicons.ReadMessage(parsed.Value))
	}
	if err != nil {
		return fmt.Errorf("derive %s: %w", row.URI, err)
	}
	if err := w.addWords(row, rec, parsed); err != nil {
		return err
	}
	for _, b := range parsed.Blobs {
		err := w.tx.Exec("INSERT INTO blob_refs (uri, cid, did, mime, size) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			row.URI, b.CID.String(), row.Did, clean(b.MimeType), b.Size).Error
		if err != nil {
			return fmt.Errorf("note blobs of %s: %w", row.URI, err)
		}
	}
	for _, r := range references(parsed) {
		err := w.tx.Exec("INSERT INTO refs (from_uri, path, kind, from_did, target_uri, target_cid) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
			row.URI, r.path, string(r.kind), row.Did, r.uri, r.cid).Error
		if err != nil {
			return fmt.Errorf("note references of %s: %w", row.URI, err)
		}
	}
	return nil
}

func (w *writer) fillObservation(row *journalRow, rec *recordRow, o lexicons.Observation, head bool) error {
	observed := timeText(o.ObservedAt)
	err := w.tx.Exec(`INSERT INTO observations
		(uri, did, source_kind, source_value, source_key, method, run, device, harness, model, observed_at, created_at, head, sort_at, text)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		row.URI, row.Did, clean(o.Source.Kind), clean(o.Source.Value), indexKey(o.Source.Value), indexKey(o.Method), string(o.Generator.Run),
		indexKey(o.Generator.Device), clean(o.Generator.Harness), indexKey(o.Generator.Model),
		observed, timeText(o.CreatedAt), head, earlier(observed, rec.IndexedAt), clean(o.Text)).Error
	if err != nil {
		return err
	}
	return w.markRun(row.Did, string(o.Generator.Run))
}

func (w *writer) fillSession(row *journalRow, s lexicons.Session) error {
	written := timeText(s.UpdatedAt)
	return w.tx.Exec(`INSERT INTO sessions
		(uri, did, rkey, title, status, harness, machine, cwd, repo, repo_key, branch, model, written_at, started_at, sort_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		row.URI, row.Did, row.Rkey, clean(s.Title), indexKey(s.Status), clean(s.Harness), indexKey(s.Machine), clean(s.Cwd),
		clean(s.Repo), indexKey(RepoKey(s.Repo)), clean(s.Branch), clean(s.Model),
		written, timeText(s.StartedAt), earlier(written, row.WitnessedAt)).Error
}

func (w *writer) fillClass(row *journalRow, c lexicons.Class) error {
	var parent ref
	if c.Parent != nil {
		parent = ref{URI: clean(string(c.Parent.URI)), CID: c.Parent.CID.String()}
	}
	return w.tx.Exec(`INSERT INTO classes (uri, did, name, name_key, parent_uri, parent_cid, sort_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		row.URI, row.Did, clean(c.Name), indexKey(c.Name), parent.URI, parent.CID,
		earlier(timeText(c.CreatedAt), row.WitnessedAt)).Error
}

func (w *writer) fillSkill(row *journalRow, s lexicons.Skill) error {
	err := w.tx.Exec(`INSERT INTO skills (uri, did, name, name_key, sort_at) VALUES (?, ?, ?, ?, ?)`,
		row.URI, row.Did, clean(s.Name), indexKey(s.Name), earlier(timeText(s.CreatedAt), row.WitnessedAt)).Error
	if err != nil {
		return err
	}
	return w.markNamesake(row.uri())
}

// namesakes are other skills of the same repo and name, at most two of them.
func (w *writer) namesakes(uri syntax.ATURI) (others []syntax.ATURI, err error) {
	err = w.tx.Raw(`SELECT o.uri FROM skills s JOIN skills o ON o.did = s.did AND o.name_key = s.name_key
		WHERE s.uri = ? AND s.name_key <> '' AND o.uri <> s.uri LIMIT 2`, uri).Scan(&others).Error
	if err != nil {
		return nil, fmt.Errorf("look for skills called as %s: %w", uri, err)
	}
	return others, nil
}

// markNamesake marks the only other skill of a name, which is alone with it or
// no longer is. Of several none hears anything new.
func (w *writer) markNamesake(uri syntax.ATURI) error {
	others, err := w.namesakes(uri)
	if len(others) == 1 {
		w.restale[others[0]] = true
	}
	return err
}

func (w *writer) fillConversation(row *journalRow, s lexicons.ChatSession) error {
	w.recount[row.uri()] = true
	created := timeText(s.CreatedAt)
	started := earlier(created, row.WitnessedAt)
	return w.tx.Exec(`INSERT INTO conversations
		(uri, did, title, description, discussion, created_at, started_at, turns, visible_turns, last_turn_at, sort_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, '', ?)`,
		row.URI, row.Did, clean(s.Title), clean(s.Description), clean(string(s.Discussion)), created,
		started, started).Error
}

func (w *writer) fillMessage(row *journalRow, m lexicons.Message) error {
	session := clean(string(m.Session))
	if len(session) > MaxURILength {
		session = ""
	}
	how, err := w.rewritesOf(row)
	if err != nil {
		return err
	}
	w.recount[syntax.ATURI(session)] = true
	foreigner := m.Session.Authority().String() != row.Did
	err = w.tx.Exec(`INSERT INTO messages (uri, did, session_uri, foreigner, role, model, withheld, worded, rewrites, sort_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		row.URI, row.Did, session, foreigner, clean(m.Role), clean(m.Model), m.Withheld, strings.TrimSpace(m.Text) != "", strings.Join(how, ","),
		earlier(timeText(m.CreatedAt), row.WitnessedAt)).Error
	if err != nil {
		return err
	}
	return w.markTurn(row.URI, session)
}

// rewritesOf collects how a message was rewritten up to this row of the
// journal, since it was created last.
func (w *writer) rewritesOf(row *journalRow) ([]string, error) {
	if row.Action != string(lexicons.Update) {
		return nil, nil
	}
	var versions []struct{ Action, Facts string }
	err := w.tx.Raw("SELECT action, facts FROM journal WHERE uri = ? AND seq <= ? ORDER BY seq", row.URI, row.Seq).Scan(&versions).Error
	if err != nil {
		return nil, err
	}
	var how []string
	for _, v := range versions {
		if v.Action != string(lexicons.Update) {
			how = nil
		}
		f, err := decodeFacts(v.Facts)
		if err != nil {
			return nil, err
		}
		how = append(how, f.Rewrites...)
	}
	slices.Sort(how)
	return slices.Compact(how), nil
}

// countTurns counts the turns of the conversations that this transaction
// touched, without those that were taken down.
func (w *writer) countTurns() error {
	counted := " FROM messages m WHERE m.session_uri = conversations.uri AND NOT m.foreigner AND " + notTakenDown("m.uri")
	for uri := range w.recount {
		err := w.tx.Exec(`UPDATE conversations SET
				turns = (SELECT COUNT(*)`+counted+`),
				visible_turns = (SELECT COUNT(*)`+counted+` AND NOT m.withheld),
				last_turn_at = (SELECT COALESCE(MAX(m.sort_at), '')`+counted+`)
			WHERE uri = ?`, uri).Error
		if err != nil {
			return err
		}
		err = w.tx.Exec(`UPDATE conversations SET sort_at = CASE WHEN last_turn_at <> '' THEN last_turn_at ELSE started_at END WHERE uri = ?`, uri).Error
		if err != nil {
			return err
		}
	}
	return nil
}
