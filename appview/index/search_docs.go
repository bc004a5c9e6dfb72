package index

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// How search is kept. What can be found has a row with the words under which it is
// found, beside them the values by which it is filtered, as words that no text has,
// so that the database's full-text index answers both at once, the newest first.
// Which of what it finds has the words as they were asked for, where, and how well,
// is looked up in the records themselves (search.go): so the index holds no places,
// and both databases give the same answers.

// What a document is, as a word.
const (
	docObservation  = "\ue000observation"
	docTurn         = "\ue000turn"
	docConversation = "\ue000conversation"
	docSession      = "\ue000session"
)

// facet is a value that is filtered by, as a word.
func facet(name, value string) string {
	sum := sha256.Sum256([]byte(name + "\x00" + value))
	return "\ue001" + hex.EncodeToString(sum[:8])
}

// field is a part of a record in which words are looked for.
type field struct {
	name   string
	text   string
	weight int // of a hit in it
}

// observationFields are what an observation is found by. A source is looked for as
// the views show it, without credentials.
func observationFields(o lexicons.Observation) []field {
	source, _ := lexicons.MaskCredentials(o.Source.Value)
	return []field{{"text", o.Text, 1}, {"source", source, 3}, {"method", o.Method, 2}}
}

func turnFields(m lexicons.Message) []field {
	if m.Withheld {
		return nil
	}
	fields := []field{{"text", m.Text, 1}}
	for _, s := range m.Steps {
		fields = append(fields, field{"steps", s.Tool + " " + s.Summary, 1})
	}
	return fields
}

func conversationFields(s lexicons.ChatSession) []field {
	return []field{{"title", s.Title, 3}, {"description", s.Description, 2}}
}

func sessionFields(s lexicons.Session) []field {
	return []field{{"title", s.Title, 3}, {"summary", s.Summary, 1}}
}

// searchFields are those of a record, whatever its type; nil when it is not searched.
func searchFields(collection syntax.NSID, value map[string]any) []field {
	switch collection {
	case lexicons.ObservationNSID:
		return observationFields(lexicons.ReadObservation(value))
	case lexicons.MessageNSID:
		return turnFields(lexicons.ReadMessage(value))
	case lexicons.ChatSessionNSID:
		return conversationFields(lexicons.ReadChatSession(value))
	case lexicons.SessionNSID:
		return sessionFields(lexicons.ReadSession(value))
	}
	return nil
}

// addWords makes a record that is in the views one that can be found.
func (w *writer) addWords(row *journalRow, rec *recordRow, parsed *lexicons.Record) error {
	var marks []string
	sortAt := ""
	author := facet("author", row.Did)
	switch row.collection() {
	case lexicons.ObservationNSID:
		o := lexicons.ReadObservation(parsed.Value)
		marks = []string{
			docObservation, author, facet("kind", clean(o.Source.Kind)), facet("source", clean(o.Source.Value)), facet("method", clean(o.Method)),
			facet("run", string(o.Generator.Run)), facet("device", clean(o.Generator.Device)), facet("model", clean(o.Generator.Model)),
		}
		sortAt = earlier(timeText(o.ObservedAt), rec.IndexedAt)
	case lexicons.MessageNSID:
		m := lexicons.ReadMessage(parsed.Value)
		if m.Session.Authority().String() != row.Did {
			return nil // a stranger's turn is found by nobody
		}
		marks = []string{docTurn, author, facet("model", clean(m.Model)), facet("role", clean(m.Role)), facet("conversation", clean(string(m.Session)))}
		sortAt = earlier(timeText(m.CreatedAt), row.WitnessedAt)
	case lexicons.ChatSessionNSID:
		marks = []string{docConversation, author, facet("conversation", row.URI)}
		sortAt = earlier(timeText(lexicons.ReadChatSession(parsed.Value).CreatedAt), row.WitnessedAt)
	case lexicons.SessionNSID:
		s := lexicons.ReadSession(parsed.Value)
		marks = []string{
			docSession, author, facet("device", clean(s.Machine)), facet("harness", clean(s.Harness)), facet("repo", RepoKey(clean(s.Repo))),
			facet("branch", clean(s.Branch)), facet("model", clean(s.Model)), facet("status", clean(s.Status)),
		}
		sortAt = earlier(timeText(s.UpdatedAt), row.WitnessedAt)
	default:
		return nil
	}
	var texts []string
	for _, f := range searchFields(row.collection(), parsed.Value) {
		texts = append(texts, f.text)
	}
	found := lookups(texts...)
	if len(found) == 0 {
		return nil
	}
	words := strings.Join(append(marks, found...), " ")
	for id, tries := docID(sortAt, row.URI), 0; tries < 100; id, tries = id+1, tries+1 {
		var taken []int64
		err := w.tx.Raw("INSERT INTO search_docs (id, uri, words) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING id", id, row.URI, clean(words)).Scan(&taken).Error
		if err != nil {
			return fmt.Errorf("note the words of %s: %w", row.URI, err)
		}
		if len(taken) > 0 {
			return nil
		}
	}
	return errors.New("no room for the words of " + row.URI)
}

// dropWords makes a record one that cannot be found.
func (w *writer) dropWords(uri string) error {
	if err := w.tx.Exec("DELETE FROM search_docs WHERE uri = ?", uri).Error; err != nil {
		return fmt.Errorf("forget the words of %s: %w", uri, err)
	}
	return nil
}

// docID orders documents by time; those of one millisecond have different ids in
// all but one case of a million.
func docID(sortAt, uri string) int64 {
	sum := sha256.Sum256([]byte(uri))
	return docsUntil(sortAt) + int64(binary.BigEndian.Uint32(sum[:4])>>12)
}

// docsUntil is below the ids of what is not older than a stored time.
func docsUntil(at string) int64 {
	const latest = 1<<43 - 1 // of what fits; far beyond what any clock witnesses
	return min(max(textTime(at).UnixMilli(), 0), latest) << 20
}
