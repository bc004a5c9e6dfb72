package index

import (
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// besideFindings are what is to be said of a record because of others beside
// it: in its chain, of its run, in its conversation, of its name, and its own
// versions before. Each look-up is a few seeks in an index, whatever stands
// there; what a record that comes or goes changes for others is marked when it
// does.
func (w *writer) besideFindings(rec *recordRow, row *journalRow, parsed *lexicons.Record) ([]lexicons.Finding, error) {
	switch row.collection() {
	case lexicons.ObservationNSID:
		inChain, err := w.chainFindings(rec)
		if err != nil {
			return nil, err
		}
		ofRun, err := w.runFindings(rec, lexicons.ReadObservation(parsed.Value))
		return append(inChain, ofRun...), err
	case lexicons.SessionNSID:
		return w.sessionFindings(row)
	case lexicons.SkillNSID:
		return w.nameFindings(rec)
	case lexicons.ChatSessionNSID:
		return w.conversationFindings(rec)
	case lexicons.MessageNSID:
		order, err := w.orderFindings(rec, lexicons.ReadMessage(parsed.Value))
		if err != nil {
			return nil, err
		}
		rewritten, err := w.rewriteFindings(row)
		return append(order, rewritten...), err
	}
	return nil, nil
}

// nameFindings: a repo that publishes a skill again under another key has two.
func (w *writer) nameFindings(rec *recordRow) ([]lexicons.Finding, error) {
	others, err := w.namesakes(rec.uri())
	if err != nil || len(others) == 0 {
		return nil, err
	}
	return []lexicons.Finding{{Code: lexicons.CodeNameReused, Severity: lexicons.Info, Path: "/name",
		Message: "another skill of this repo has the same name; the one with the newest record key is what the name means"}}, nil
}

// rewriteFindings: how a turn was rewritten is a fact of the journal, which has
// the words no more.
func (w *writer) rewriteFindings(row *journalRow) ([]lexicons.Finding, error) {
	how, err := w.rewritesOf(row)
	if err != nil || len(how) == 0 {
		return nil, err
	}
	return []lexicons.Finding{{Code: lexicons.CodeRewritten, Severity: rewriteSeverity(how), Message: "the turn was rewritten: " + strings.Join(how, ", ")}}, nil
}

// markRun marks the observations that speak for their repo about a run: the
// first of each repo that has it, when the number of repos may have become one
// or two. Of a third repo the others hear nothing new.
func (w *writer) markRun(did, run string) error {
	if run == "" {
		return nil
	}
	own, err := w.firstOfRun(run, did, 2)
	if err != nil {
		return err
	}
	w.markAll(own)
	others, err := w.othersOfRun(run, did)
	if err != nil || len(others) != 1 {
		return err
	}
	first, err := w.firstOfRun(run, others[0], 1)
	w.markAll(first)
	return err
}

func (w *writer) markAll(uris []syntax.ATURI) {
	for _, uri := range uris {
		w.restale[uri] = true
	}
}

func (w *writer) firstOfRun(run, did string, n int) (uris []syntax.ATURI, err error) {
	err = w.tx.Raw("SELECT uri FROM observations WHERE run = ? AND did = ? ORDER BY uri LIMIT ?", run, did, n).Scan(&uris).Error
	if err != nil {
		return nil, fmt.Errorf("look for the run %s of %s: %w", run, did, err)
	}
	return uris, nil
}

// othersOfRun are other repos with observations of a run, at most two of them.
func (w *writer) othersOfRun(run, did string) (others []string, err error) {
	for after := ""; len(others) < 2; {
		var next []string
		err = w.tx.Raw("SELECT did FROM observations WHERE run = ? AND did > ? ORDER BY did LIMIT 1", run, after).Scan(&next).Error
		if err != nil {
			return nil, fmt.Errorf("look for others of the run %s: %w", run, err)
		}
		if len(next) == 0 {
			return others, nil
		}
		if after = next[0]; after != did {
			others = append(others, after)
		}
	}
	return others, nil
}

// runFindings: one run is one start of one agent. It stands on the first
// observation that a repo has of it, not on each.
func (w *writer) runFindings(rec *recordRow, o lexicons.Observation) ([]lexicons.Finding, error) {
	run := string(o.Generator.Run)
	if run == "" {
		return nil, nil
	}
	first, err := w.firstOfRun(run, rec.Did, 1)
	if err != nil || len(first) == 0 || string(first[0]) != rec.URI {
		return nil, err
	}
	others, err := w.othersOfRun(run, rec.Did)
	if err != nil || len(others) == 0 {
		return nil, err
	}
	return []lexicons.Finding{{Code: lexicons.CodeRunShared, Severity: lexicons.Warning, Path: "/generator/run",
		Message: "another repo has observations of this run too: a device was cloned, or one of the two made it up"}}, nil
}

// markTurn marks what a turn that comes or goes concerns: the turn behind it,
// and the container, when it may be the only one to be seen.
func (w *writer) markTurn(uri, session string) error {
	var concerned []syntax.ATURI
	err := w.tx.Raw("SELECT uri FROM messages WHERE session_uri = ? AND NOT foreigner AND uri > ? ORDER BY uri LIMIT 1", session, uri).Scan(&concerned).Error
	if err != nil {
		return fmt.Errorf("look behind turn %s: %w", uri, err)
	}
	w.markAll(concerned)
	visible, err := w.visibleTurns(session, 2)
	if err == nil && visible < 2 {
		w.restale[syntax.ATURI(session)] = true
	}
	return err
}

// visibleTurns counts the turns of a conversation that are not withheld, up to most.
func (w *writer) visibleTurns(session string, most int) (n int, err error) {
	err = w.tx.Raw("SELECT COUNT(*) FROM (SELECT 1 FROM messages WHERE session_uri = ? AND NOT foreigner AND NOT withheld LIMIT ?) seen", session, most).Scan(&n).Error
	if err != nil {
		return 0, fmt.Errorf("count turns of %s: %w", session, err)
	}
	return n, nil
}

// conversationFindings: a conversation of which nothing is to be seen is left
// out of lists, and its author should know why.
func (w *writer) conversationFindings(rec *recordRow) ([]lexicons.Finding, error) {
	visible, err := w.visibleTurns(rec.URI, 1)
	if err != nil || visible > 0 {
		return nil, err
	}
	return []lexicons.Finding{{Code: lexicons.CodeNoPublishedTurns, Severity: lexicons.Info,
		Message: "no turn of the conversation can be seen; lists leave it out"}}, nil
}

// orderFindings compares a turn with the one before it.
func (w *writer) orderFindings(rec *recordRow, m lexicons.Message) ([]lexicons.Finding, error) {
	if _, own := m.Conversation(syntax.DID(rec.Did)); !own || m.CreatedAt.IsZero() {
		return nil, nil
	}
	var before []struct{ Record []byte }
	err := w.tx.Raw(`SELECT j.record FROM messages m JOIN records r ON r.uri = m.uri JOIN journal j ON j.seq = r.seq
		WHERE m.session_uri = ? AND NOT m.foreigner AND m.uri < ? ORDER BY m.uri DESC LIMIT 1`, string(m.Session), rec.URI).Scan(&before).Error
	if err != nil || len(before) == 0 || before[0].Record == nil {
		return nil, err
	}
	value, err := lexicons.DecodeCBOR(before[0].Record)
	if err != nil {
		return nil, nil // its own findings say so
	}
	if !lexicons.ReadMessage(value).CreatedAt.After(m.CreatedAt) {
		return nil, nil
	}
	return []lexicons.Finding{{Code: lexicons.CodeOrderDiffers, Severity: lexicons.Info, Path: "/createdAt",
		Message: "the turn was created before the one that stands before it; the order is that of the record keys"}}, nil
}

// contention is how close together two machines write one session in turn.
const contention = 10 * time.Minute

// sessionFindings: A, B and A again within minutes are two that do not know of
// each other. Times are the versions' own, so that a backfill says the same.
func (w *writer) sessionFindings(row *journalRow) ([]lexicons.Finding, error) {
	var versions []struct {
		Action string
		Record []byte
	}
	err := w.tx.Raw("SELECT action, record FROM journal WHERE uri = ? AND seq <= ? ORDER BY seq DESC LIMIT 3", row.URI, row.Seq).Scan(&versions).Error
	if err != nil || len(versions) < 3 {
		return nil, err
	}
	var last [3]lexicons.Session
	for i, v := range versions {
		if v.Record == nil || i < 2 && v.Action != string(lexicons.Update) {
			return nil, nil
		}
		value, err := lexicons.DecodeCBOR(v.Record)
		if err != nil {
			return nil, nil
		}
		last[i] = lexicons.ReadSession(value)
	}
	if last[0].Machine == last[1].Machine || last[0].Machine != last[2].Machine || last[0].UpdatedAt.Sub(last[2].UpdatedAt).Abs() > contention {
		return nil, nil
	}
	return []lexicons.Finding{{Code: lexicons.CodeContended, Severity: lexicons.Warning, Path: "/machine",
		Message: "two machines wrote this session in turn within " + contention.String() + "; send swapRecord to be told"}}, nil
}
