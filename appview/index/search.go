package index

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// Bounds of what one search looks at.
const (
	// SearchWindow is how many of the newest matches are ranked together: what is
	// found comes in windows of so many, the newest window first, and within one
	// ordered by score.
	SearchWindow = 200
	// searchWindows is how many windows one call goes through when most of what the
	// full-text index gives has the words, but not as they were asked for.
	searchWindows = 3
	// maxSearchedWords is how far into a text places are looked for.
	maxSearchedWords = 30_000
)

// SearchFilter narrows a search; zero fields do not. Those that a kind of document
// does not have find nothing.
type SearchFilter struct {
	DID          syntax.DID
	SourceKind   string
	SourceValue  string
	Method       string
	Run          syntax.TID
	Device       string // of an observation; the machine of a session
	Harness      string // of a session, as the next three
	Repo         string // any spelling
	Branch       string
	Status       string
	Model        string
	Role         string
	Conversation syntax.ATURI
	Since        time.Time // by the time that lists are sorted by: at or after
	Until        time.Time // before
	AllVersions  bool      // superseded observations too
}

// SearchPosition is where a page of a search ended.
type SearchPosition struct {
	Before int64 `json:"b"` // the window is below this document
	Score  int   `json:"s"`
	Doc    int64 `json:"d"` // 0 at the beginning of a window
}

// Found is a record that was found, and where. Of an observation Record has the URI alone.
type Found struct {
	Record
	Score  int
	Fields []FoundField // those with a hit, in the order of the record

	doc int64
}

// FoundField is a part of a record with places of what was asked for.
type FoundField struct {
	Name string // text, source, method, steps, title, description, summary
	Text string
	Hits []Hit
}

// SearchResult is a page of what was found. Next is nil on the last page.
type SearchResult struct {
	Found []Found
	Next  *SearchPosition
}

// searched is a sort of document and the rows by which it is shown.
type searched struct {
	mark       string
	columns    string // of the row that has the fields, when they need not be read from the record
	table      string // called t, with did and uri
	collection []syntax.NSID
	condition  string // of what is shown
}

var (
	searchedObservations = searched{docObservation, ", t.text, t.source_value, t.method", "observations", []syntax.NSID{lexicons.ObservationNSID}, ""}
	searchedTurns        = searched{docTurn, "", "messages", conversation, "NOT t.withheld AND NOT t.foreigner AND EXISTS (SELECT 1 FROM conversations s JOIN repos r ON r.did = s.did AND r.active WHERE s.uri = t.session_uri AND " + notTakenDown("s.uri") + ")"}
	searchedTitles       = searched{docConversation, "", "conversations", conversation, "t.visible_turns > 0"}
	searchedSessions     = searched{docSession, "", "sessions", []syntax.NSID{lexicons.SessionNSID}, ""}
)

// SearchObservations finds observations, the heads of their chains unless the filter
// says otherwise.
func (x *Index) SearchObservations(ctx context.Context, v Viewer, q Query, f SearchFilter, after *SearchPosition, limit int) (SearchResult, error) {
	of := searchedObservations
	if !f.AllVersions {
		of.condition = "t.head"
	}
	return x.search(ctx, v, q, f, of, after, limit)
}

// SearchTurns finds turns of conversations, never those that are withheld or of a stranger.
func (x *Index) SearchTurns(ctx context.Context, v Viewer, q Query, f SearchFilter, after *SearchPosition, limit int) (SearchResult, error) {
	return x.search(ctx, v, q, f, searchedTurns, after, limit)
}

// SearchTitles finds conversations by their title and description.
func (x *Index) SearchTitles(ctx context.Context, v Viewer, q Query, f SearchFilter, limit int) (SearchResult, error) {
	return x.search(ctx, v, q, f, searchedTitles, nil, limit)
}

// SearchSessions finds working sessions by their title and summary.
func (x *Index) SearchSessions(ctx context.Context, v Viewer, q Query, f SearchFilter, after *SearchPosition, limit int) (SearchResult, error) {
	return x.search(ctx, v, q, f, searchedSessions, after, limit)
}

func (x *Index) search(ctx context.Context, v Viewer, q Query, f SearchFilter, of searched, after *SearchPosition, limit int) (SearchResult, error) {
	limit = Page{Limit: limit}.limit()
	at := SearchPosition{Before: 1<<63 - 1}
	if after != nil {
		at = *after
	}
	match := x.match(q, f, of)
	for range searchWindows {
		docs, err := x.window(ctx, v, match, f, of, at.Before)
		if err != nil {
			return SearchResult{}, fmt.Errorf("search: %w", err)
		}
		found, err := x.look(ctx, v, q, docs)
		if err != nil {
			return SearchResult{}, fmt.Errorf("search: %w", err)
		}
		if at.Doc != 0 {
			found = slices.DeleteFunc(found, func(hit Found) bool {
				return hit.Score > at.Score || hit.Score == at.Score && hit.doc >= at.Doc
			})
		}
		out := SearchResult{Found: found[:min(limit, len(found))]}
		switch {
		case len(found) > limit:
			last := out.Found[limit-1]
			out.Next = &SearchPosition{Before: at.Before, Score: last.Score, Doc: last.doc}
			return out, nil
		case len(docs) == SearchWindow:
			at = SearchPosition{Before: docs[len(docs)-1].ID}
			out.Next = &at
		default:
			return out, nil
		}
		if len(out.Found) > 0 {
			return out, nil
		}
	}
	return SearchResult{Next: &at}, nil
}

// match is what the full-text index is asked for, in the language of the database.
func (x *Index) match(q Query, f SearchFilter, of searched) string {
	words := []string{of.mark}
	add := func(name, value string) {
		if value != "" {
			words = append(words, facet(name, value))
		}
	}
	add("author", string(f.DID))
	add("kind", clean(f.SourceKind))
	add("source", clean(f.SourceValue))
	add("method", clean(f.Method))
	add("run", string(f.Run))
	add("device", clean(f.Device))
	add("harness", clean(f.Harness))
	if f.Repo != "" {
		add("repo", RepoKey(clean(f.Repo)))
	}
	add("branch", clean(f.Branch))
	add("status", clean(f.Status))
	add("model", clean(f.Model))
	add("role", clean(f.Role))
	add("conversation", clean(string(f.Conversation)))
	var without []string
	var beginnings []string
	for _, t := range q.terms {
		switch {
		case t.not && len(t.words) == 1 && !t.prefix:
			without = append(without, t.words[0].text)
		case t.not: // decided where the text is looked at
		default:
			words = append(words, t.lookups...)
			if t.prefix {
				beginnings = append(beginnings, t.words[len(t.words)-1].text)
			}
		}
	}
	return x.matchSQL(words, beginnings, without)
}

// matchSQL words a condition: all of words, a word for each beginning, none of without.
func (x *Index) matchSQL(words, beginnings, without []string) string {
	quote, star, and, not := `"`, "*", " AND ", " NOT "
	if x.db.Dialect == migrations.Postgres {
		quote, star, and, not = "'", ":*", " & ", " & !"
	}
	var all []string
	for _, w := range words {
		all = append(all, quote+w+quote)
	}
	for _, w := range beginnings {
		all = append(all, quote+w+quote+star)
	}
	out := strings.Join(all, and)
	for _, w := range without {
		out += not + quote + w + quote
	}
	return out
}

type docRow struct {
	ID          int64
	URI         string `gorm:"column:uri"`
	Text        string // of an observation, as the next two
	SourceValue string
	Method      string
}

// fields are those of an observation, when its row has them as they are in the
// record: a character that no database keeps is another one in a row.
func (d *docRow) fields() ([]field, bool) {
	if d.Text == "" && d.SourceValue == "" || strings.Contains(d.Text, "\uFFFD") {
		return nil, false
	}
	return observationFields(lexicons.Observation{Text: d.Text, Source: lexicons.Source{Value: d.SourceValue}, Method: d.Method}), true
}

// window is the newest documents below one that have the words and may be shown.
func (x *Index) window(ctx context.Context, v Viewer, match string, f SearchFilter, of searched, before int64) ([]docRow, error) {
	q := newQuery("d.id, d.uri"+of.columns, "words_fts w JOIN search_docs d ON d.id = w.rowid JOIN "+of.table+" t ON t.uri = d.uri")
	id := "w.rowid"
	if x.db.Dialect == migrations.Postgres {
		q.from, id = "search_docs d JOIN "+of.table+" t ON t.uri = d.uri", "d.id"
		q.where("array_to_tsvector(string_to_array(d.words, ' ')) @@ ?::tsquery", match)
	} else {
		q.where("words_fts MATCH ?", match)
	}
	q.where(id+" < ?", before)
	if !f.Since.IsZero() {
		q.where(id+" >= ?", docsUntil(migrations.FormatTime(f.Since)))
	}
	if !f.Until.IsZero() {
		q.where(id+" < ?", docsUntil(migrations.FormatTime(f.Until)))
	}
	q.whereIf(of.condition != "", of.condition)
	q.visible(v, of.collection...)
	var rows []docRow
	err := x.db.Read.WithContext(ctx).Raw(q.sql()+" ORDER BY "+id+" DESC LIMIT "+strconv.Itoa(SearchWindow), q.args...).Scan(&rows).Error
	return rows, err
}

// look finds the places of the terms in the documents' records, and leaves out what
// has not all of them. The best comes first.
func (x *Index) look(ctx context.Context, v Viewer, q Query, docs []docRow) ([]Found, error) {
	var uris []syntax.ATURI
	of := make([][]field, len(docs))
	for i := range docs {
		ok := false
		if of[i], ok = docs[i].fields(); !ok {
			uris = append(uris, syntax.ATURI(docs[i].URI))
		}
	}
	records, err := x.Records(ctx, v, uris)
	if err != nil {
		return nil, err
	}
	var found []Found
	for i, d := range docs {
		hit := Found{Record: Record{URI: syntax.ATURI(d.URI)}, doc: d.ID}
		if rec, ok := records[hit.URI]; ok {
			parsed, err := lexicons.ParseCBOR(rec.Collection, rec.CBOR)
			if err != nil {
				continue // gone since
			}
			hit.Record, of[i] = rec, searchFields(rec.Collection, parsed.Value)
		}
		if hit.find(q, of[i]) {
			found = append(found, hit)
		}
	}
	slices.SortFunc(found, func(a, b Found) int {
		if a.Score != b.Score {
			return b.Score - a.Score
		}
		if a.doc > b.doc {
			return -1
		}
		return 1
	})
	return found, nil
}

// find looks for every term in the fields; false when one is missing, or there that
// must not be.
func (hit *Found) find(q Query, fields []field) bool {
	places := make([][]Hit, len(fields))
	sequences := make([][]word, len(fields))
	for i, f := range fields {
		sequences[i] = sequence(f.text, maxSearchedWords)
	}
	for t := range q.terms {
		term := &q.terms[t]
		some := false
		for i, f := range fields {
			hits := term.hits(f.text, sequences[i])
			if len(hits) == 0 {
				continue
			}
			some = true
			if term.not {
				return false
			}
			places[i] = append(places[i], hits...)
			hit.Score += worth(hits, f.weight)
		}
		if !some && !term.not {
			return false
		}
	}
	for i, f := range fields {
		if len(places[i]) > 0 {
			slices.SortStableFunc(places[i], func(a, b Hit) int { return a.Start - b.Start })
			hit.Fields = append(hit.Fields, FoundField{Name: f.name, Text: f.text, Hits: places[i]})
		}
	}
	return true
}

// worth is what the hits of a term in a field count: a term that stands by itself
// more than one within a word, one that comes again a little more, in a title or a
// source more than somewhere in a text. It depends on the record alone, so a page
// of a search follows on another whatever was written between the two.
func worth(hits []Hit, weight int) int {
	score := 10
	if slices.ContainsFunc(hits, func(h Hit) bool { return h.Whole }) {
		score += 10
	}
	return weight * (score + min(len(hits), 5) - 1)
}
