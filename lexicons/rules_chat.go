package lexicons

import (
	"context"
	"fmt"
	"strings"
)

// chatSessionRules need the container alone (SEMANTICS 3.4).
var chatSessionRules = []recordRule[ChatSession]{
	chatSessionTimes,
	discussionIsPost,
}

// messageRules need the turn alone (SEMANTICS 3.5).
var messageRules = []recordRule[Message]{
	messageSession,
	messageRole,
	messageWithheld,
	messageEmpty,
	messageRefs,
	messageMentions,
	messageTimes,
}

// messageStateRules need the repo.
var messageStateRules = []stateRule[Message]{
	messageTombstoned,
	messageRewrite,
	messageSessionStands,
}

func chatSessionTimes(s *subject, v ChatSession) { s.notFuture("/createdAt", v.CreatedAt) }

func discussionIsPost(s *subject, v ChatSession) {
	if s.Record.Value["discussion"] != nil && v.Discussion.Collection() != "app.bsky.feed.post" {
		s.flag(Warning, CodeDiscussionNotPost, "/discussion", "the discussion is no app.bsky.feed.post")
	}
}

func messageTimes(s *subject, m Message) { s.notFuture("/createdAt", m.CreatedAt) }

// messageSession: a turn names its conversation by DID, collection and TID; in
// another repo's conversation anybody could put words.
func messageSession(s *subject, m Message) {
	uri, err := ParseRecordURI(m.Session.String())
	if err == nil {
		if uri.Collection() != ChatSessionNSID {
			err = fmt.Errorf("the collection is %s", uri.Collection())
		} else if _, isTID := tidOf(uri.RecordKey()); !isTID {
			err = fmt.Errorf("the record key %s is no TID", uri.RecordKey())
		}
	}
	if err != nil {
		s.refuse(CodeSessionMalformed, RefusalInvalidRequest, "/session", "want at://<did>/"+string(ChatSessionNSID)+"/<tid>", "%v", err)
		return
	}
	if uri.Authority().String() != s.DID.String() {
		s.flag(Warning, CodeForeignTurn, "/session", "the conversation is in another repo; its views leave this turn out")
	}
}

// messageRole: the label "person or machine" is the point of these records.
func messageRole(s *subject, m Message) {
	switch {
	case m.Role == "assistant" && m.Model == "" && !m.Withheld:
		s.flag(Warning, CodeModelMissing, "/model", "an assistant's turn names no model")
	case m.Role == "user" && (m.Model != "" || len(m.Steps) > 0):
		s.flag(Warning, CodeRoleMismatch, "/role", "a user's turn has a model or steps")
	}
}

// messageWithheld: a withheld turn is a gap. The published schema has the flag
// as a boolean; the one in this catalog is older and has none.
func messageWithheld(s *subject, m Message) {
	flag, present := s.Record.Value["withheld"]
	if _, isBool := flag.(bool); present && !isBool {
		s.refuse(CodeInvalidRecord, RefusalInvalidRequest, "/withheld", "want true or false", "withheld is %s", kindOf(flag))
	}
	if !m.Withheld {
		return
	}
	for _, field := range withheldFields(s.Record.Value) {
		s.refuse(CodeWithheldHasContent, RefusalInvalidRequest, pointer("", field), "a withheld turn has text \"\" and no steps, refs, mentions or model",
			"the turn is withheld and still has %s", field)
	}
}

// withheldFields are the fields of a turn that hold content, in order.
func withheldFields(value map[string]any) []string {
	f := fields(value)
	var has []string
	for _, name := range []string{"text", "model"} {
		if f.str(name) != "" {
			has = append(has, name)
		}
	}
	for _, name := range []string{"steps", "refs", "mentions"} {
		if len(f.list(name)) > 0 {
			has = append(has, name)
		}
	}
	return has
}

func messageEmpty(s *subject, m Message) {
	if strings.TrimSpace(m.Text) == "" && !m.Withheld && len(m.Steps) == 0 && len(m.Refs) == 0 {
		s.flag(Warning, CodeEmptyTurn, "/text", "the turn says and does nothing")
	}
}

func messageRefs(s *subject, _ Message) {
	seen := map[string]bool{}
	for i, v := range fields(s.Record.Value).list("refs") {
		path := pointerAt("/refs", i)
		s.strongRef(path, v)
		ref, err := ReadStrongRef(v)
		if err != nil {
			continue
		}
		if seen[ref.URI.String()] {
			s.flag(Warning, CodeDuplicateRefs, path, "the record is named twice")
		}
		seen[ref.URI.String()] = true
	}
}

func messageMentions(s *subject, _ Message) {
	seen := map[string]bool{}
	for i, v := range fields(s.Record.Value).list("mentions") {
		did, ok := v.(string)
		if ok && seen[did] {
			s.flag(Warning, CodeDuplicateMentions, pointerAt("/mentions", i), "the account is named twice")
		}
		seen[did] = true
	}
}

func messageTombstoned(ctx context.Context, s *subject, _ Message, snap Snapshot) error {
	if s.settings.Messages == MessageOff {
		return nil
	}
	return s.tombstoned(ctx, snap)
}

// messageSessionStands: turns and container may be written in any order. A
// container that was deleted takes its turns with it.
func messageSessionStands(ctx context.Context, s *subject, m Message, snap Snapshot) error {
	uri, ok := m.Conversation(s.DID)
	if !ok {
		return nil
	}
	stored, err := snap.Record(ctx, uri)
	if err != nil {
		return err
	}
	if stored != nil {
		s.notBeforeSession(m, stored)
		return nil
	}
	tomb, err := snap.Tombstone(ctx, uri)
	switch {
	case err != nil:
		return err
	case tomb != nil:
		s.flag(Info, CodeOrphanTurns, "/session", "the conversation was deleted; its turns are hidden with it")
	default:
		s.flag(Warning, CodeSessionMissing, "/session", "the conversation's own record is not there yet")
	}
	return nil
}

// notBeforeSession: a conversation started when its record says, or earlier
// turns show that it did not.
func (s *subject) notBeforeSession(m Message, stored *StoredRecord) {
	value, err := DecodeCBOR(stored.CBOR)
	if err != nil {
		return // what stands in the repo is not this write's fault
	}
	started := ReadChatSession(value).CreatedAt
	if !m.CreatedAt.IsZero() && m.CreatedAt.Before(started) {
		s.flag(Warning, CodeTimeOrder, "/createdAt", "the turn was created %s before its conversation", started.Sub(m.CreatedAt))
	}
}

// messageRewrite holds the policy for a turn that was published before.
func messageRewrite(_ context.Context, s *subject, _ Message, _ Snapshot) error {
	if s.Prev == nil {
		return nil
	}
	old, err := DecodeCBOR(s.Prev.CBOR)
	if err != nil {
		return nil // what stands in the repo is not this write's fault
	}
	rewrite := CompareMessages(old, s.Record.Value)
	if s.settings.Messages == MessageStrict {
		s.refuse(CodeRewritten, RefusalImmutableRecord, "", "delete the turn, or leave it", "a published turn is never rewritten here")
		return nil
	}
	if s.settings.Messages == MessageRedactOnly && rewrite.Refused != "" {
		s.refuse(CodeRewritten, RefusalImmutableRecord, rewrite.Path,
			"take words away by "+redactionBar+" in their place, remove steps, or withhold the turn", "%s", rewrite.Refused)
		return nil
	}
	s.flag(rewrite.severity(), CodeRewritten, "", "the turn was rewritten: %s", strings.Join(kindNames(rewrite.Kinds), ", "))
	return nil
}
