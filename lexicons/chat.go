package lexicons

import (
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// ChatSession reads a click.aligned.chat.session: the container of a published conversation.
type ChatSession struct {
	CreatedAt   time.Time // when the conversation started
	Title       string
	Description string
	Discussion  syntax.ATURI // "" when absent or no AT URI
}

// ReadChatSession reads the fields of a conversation's container.
func ReadChatSession(value map[string]any) ChatSession {
	f := fields(value)
	discussion, err := syntax.ParseATURI(f.str("discussion"))
	if err != nil {
		discussion = ""
	}
	return ChatSession{
		CreatedAt:   f.time("createdAt"),
		Title:       f.str("title"),
		Description: f.str("description"),
		Discussion:  discussion,
	}
}

// Step is one tool call of an assistant turn.
type Step struct {
	Tool    string
	Summary string
	Failed  bool
}

// Message reads a click.aligned.chat.message: one turn of a conversation.
// When Withheld is set a view shows a gap and none of the other content,
// whatever the record holds.
type Message struct {
	Session   syntax.ATURI // "" when absent or no AT URI; the authority may be a handle
	Role      string       // user, assistant, or a value not known here
	Text      string
	CreatedAt time.Time
	Model     string
	Steps     []Step
	Refs      []StrongRef
	Mentions  []syntax.DID
	Withheld  bool
}

// ReadMessage reads the fields of a turn. Refs and mentions that are malformed are left out.
func ReadMessage(value map[string]any) Message {
	f := fields(value)
	session, err := syntax.ParseATURI(f.str("session"))
	if err != nil {
		session = ""
	}
	m := Message{
		Session:   session,
		Role:      f.str("role"),
		Text:      f.str("text"),
		CreatedAt: f.time("createdAt"),
		Model:     f.str("model"),
		Refs:      f.strongRefs("refs"),
		Withheld:  f.bool("withheld"),
	}
	for _, v := range f.list("steps") {
		if s, ok := v.(map[string]any); ok {
			step := fields(s)
			m.Steps = append(m.Steps, Step{Tool: step.str("tool"), Summary: step.str("summary"), Failed: step.bool("failed")})
		}
	}
	for _, s := range f.strings("mentions") {
		if did, err := syntax.ParseDID(s); err == nil {
			m.Mentions = append(m.Mentions, did)
		}
	}
	return m
}

// Conversation is the container that a turn written by author belongs to.
// False when the turn names none, or one in another repo: anybody could put
// words into a conversation that way, so such a turn is no part of it.
func (m Message) Conversation(author syntax.DID) (syntax.ATURI, bool) {
	uri, err := ParseRecordURI(m.Session.String())
	if err != nil || uri.Collection() != ChatSessionNSID || uri.Authority().String() != author.String() {
		return "", false
	}
	return uri, true
}
