package index

import (
	"fmt"
	"slices"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// The kinds of entry of the queue of citations.
const (
	queueHead   = "head"   // citations that were compared with this observation, which is the head no more
	queueRecord = "record" // a citing record that waits for bytes
)

// settleCitations writes what came of checking the citations of a record that
// is in the views. How many records cite something is not ours to bound, so
// what a new head means to all of them is left to the queue.
func (w *writer) settleCitations(rec *recordRow, citing map[string]any) ([]Checked, error) {
	citations := citationsOf(rec.Collection, citing)
	if len(citations) == 0 {
		return nil, nil // a version before this one was cleared away with all that it cited
	}
	var before, now []standing
	if !w.fresh[rec.uri()] {
		err := w.tx.Raw("DELETE FROM citations WHERE from_uri = ? RETURNING path, target_uri, target_cid, verdict, freshness, head_uri", rec.URI).Scan(&before).Error
		if err != nil {
			return nil, err
		}
	}
	checked, err := examine(w.tx, citing, citations)
	if err != nil {
		return nil, err
	}
	waits := false
	for _, c := range checked {
		if c.Target == nil || len(c.Target.URI) > MaxURILength || len(c.Path) > maxFindingPath {
			continue
		}
		waits = waits || len(c.waits) > 0
		start, end := bounds(c.Tested.At)
		head := ""
		switch {
		case c.Head != nil:
			head = string(c.Head.URI)
		case c.Target.URI.Collection() == lexicons.ObservationNSID:
			head = string(c.Target.URI) // it is its own head, or will be compared once it has another
		}
		s := standing{
			Path: clean(c.Path), TargetURI: clean(string(c.Target.URI)), TargetCID: c.Target.CID.String(),
			Verdict: string(c.Tested.Verdict), Freshness: string(c.Freshness), HeadURI: head,
		}
		now = append(now, s)
		err := w.tx.Exec(`INSERT INTO citations (`+citationColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			rec.URI, s.Path, rec.Did, indexKey(c.Relation), s.TargetURI, s.TargetCID,
			clean(string(c.Target.URI.Collection())), s.Verdict, c.Tested.Reason, string(c.Tested.Haystack), start, end,
			s.Freshness, head).Error
		if err != nil {
			return nil, fmt.Errorf("note citation %s of %s: %w", c.Path, rec.URI, err)
		}
	}
	if waits {
		if err := w.enqueue(queueRecord, rec.URI); err != nil {
			return nil, err
		}
	}
	return checked, w.tellCitations(rec, before, now)
}

// citationsOf are the citations of a record; none of a message that is withheld,
// for what was taken away is listed nowhere.
func citationsOf(collection string, value map[string]any) []lexicons.Citation {
	if withheld, _ := value["withheld"].(bool); withheld && collection == string(lexicons.MessageNSID) {
		return nil
	}
	return lexicons.FindCitations(value)
}

const citationColumns = "from_uri, path, from_did, relation, target_uri, target_cid, target_collection, verdict, reason, haystack, at_start, at_end, freshness, head_uri"

// enqueue puts something on the queue, due at once; one that is there already
// is due at once again.
func (w *writer) enqueue(kind, uri string) error {
	err := w.tx.Exec(`INSERT INTO citation_queue (kind, uri, due_at, tries) VALUES (?, ?, ?, 0)
		ON CONFLICT (kind, uri) DO UPDATE SET due_at = excluded.due_at`, kind, uri, migrations.FormatTime(w.now)).Error
	if err != nil {
		return fmt.Errorf("queue citations of %s: %w", uri, err)
	}
	return nil
}

// queueLostHeads notes that what led to them may lead to others now. Only what
// was compared with one is queued, so that chains that nobody cites cost one
// look-up each.
func (w *writer) queueLostHeads() error {
	for part := range slices.Chunk(w.lostHeads, MaxBatch) {
		err := w.tx.Exec(`INSERT INTO citation_queue (kind, uri, due_at, tries)
			SELECT DISTINCT ?, head_uri, ?, 0 FROM citations WHERE head_uri IN ? AND head_uri <> ''
			ON CONFLICT (kind, uri) DO UPDATE SET due_at = excluded.due_at, tries = 0`,
			queueHead, migrations.FormatTime(w.now), part).Error
		if err != nil {
			return fmt.Errorf("queue citations of heads that moved: %w", err)
		}
	}
	w.lostHeads = nil
	return nil
}

// citationFindings are what is to be said of a record whose citations do not
// all hold. Whether a target is missing is no finding: nobody may have looked.
func citationFindings(checked []Checked) []lexicons.Finding {
	var found []lexicons.Finding
	flag := func(severity lexicons.Severity, code string, c Checked, format string, args ...any) {
		found = append(found, lexicons.Finding{Code: code, Severity: severity, Path: c.Path, Message: fmt.Sprintf(format, args...)})
	}
	for _, c := range checked {
		if c.Target == nil {
			continue
		}
		switch verdict := c.Tested.Verdict; {
		case c.Deleted:
			flag(lexicons.Warning, lexicons.CodeEvidenceDeleted, c, "what is cited, %s, was deleted", c.Target.URI)
		case verdict == lexicons.CitationMisquote:
			flag(lexicons.Warning, lexicons.CodeMisquote, c, "the span does not have the words that it quotes from %s", c.Target.URI)
		case verdict.Fails():
			flag(lexicons.Warning, lexicons.CodeCitationFails, c, "%s: what is cited is not in the %s of %s %s", verdict, c.Tested.Haystack, c.Target.URI, c.Target.CID)
		case verdict == lexicons.CitationAmbiguous:
			flag(lexicons.Info, lexicons.CodeCitationAmbiguous, c, "the quote stands in several places of the %s of %s, and prefix and suffix do not choose one", c.Tested.Haystack, c.Target.URI)
		}
		if c.Freshness == lexicons.FreshGone {
			flag(lexicons.Warning, lexicons.CodeEvidenceGone, c, "what is cited was superseded by %s, which no longer has it", c.Head.URI)
		}
	}
	return found
}
