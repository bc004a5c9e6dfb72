package lexicons

import (
	"context"
	"time"
)

// sessionRules need the session alone (SEMANTICS 3.3).
var sessionRules = []recordRule[Session]{
	sessionEmpty,
	sessionTimes,
	sessionRemote,
}

// sessionStateRules compare with the version that stands there. None refuses:
// the last commit wins, and swapRecord is the way to contend.
var sessionStateRules = []stateRule[Session]{
	sessionRewrite,
}

func sessionEmpty(s *subject, v Session) {
	if v.Title == "" {
		s.flag(Warning, CodeEmptyTitle, "/title", "the title is empty")
	}
	if v.Summary == "" {
		s.flag(Warning, CodeEmptySummary, "/summary", "the summary is empty")
	}
}

func sessionTimes(s *subject, v Session) {
	s.notFuture("/updatedAt", v.UpdatedAt)
	if !v.StartedAt.IsZero() && v.StartedAt.After(v.UpdatedAt) && !v.UpdatedAt.IsZero() {
		s.refuse(CodeTimeOrder, RefusalInvalidRequest, "/startedAt", "at most updatedAt "+v.UpdatedAt.UTC().Format(time.RFC3339Nano),
			"the session started after it was updated")
	}
}

// sessionRemote: a remote with a token in it gives the token to every reader.
func sessionRemote(s *subject, v Session) {
	switch {
	case v.Repo == "":
	case urlHasCredential(v.Repo):
		s.refuse(CodeCredentialInURL, RefusalCredentialInURL, "/repo", "write the remote without user:password@", "the remote carries a credential")
	case !isRemote(v.Repo):
		s.flag(Info, CodeRepoUnparsed, "/repo", "the remote is neither a URL nor host:path")
	}
}

func sessionRewrite(_ context.Context, s *subject, v Session, _ Snapshot) error {
	if s.Prev == nil {
		return nil
	}
	value, err := DecodeCBOR(s.Prev.CBOR)
	if err != nil {
		return nil // what stands in the repo is not this write's fault
	}
	old := ReadSession(value)
	if v.UpdatedAt.Before(old.UpdatedAt) {
		s.flag(Warning, CodeStaleWrite, "/updatedAt", "the version that stood there was updated %s later; send swapRecord to be told", old.UpdatedAt.Sub(v.UpdatedAt))
	}
	if !old.StartedAt.IsZero() && !v.StartedAt.Equal(old.StartedAt) {
		s.flag(Warning, CodeStartedChanged, "/startedAt", "the session's start was changed or removed")
	}
	if old.Status == "ended" && v.Status == "active" {
		s.flag(Info, CodeReopened, "/status", "the session had ended and goes on")
	}
	for _, c := range []struct{ field, was, is string }{
		{"machine", old.Machine, v.Machine},
		{"harness", old.Harness, v.Harness},
		{"branch", old.Branch, v.Branch},
		{"model", old.Model, v.Model},
	} {
		if c.was != c.is {
			s.flag(Info, CodeMoved, pointer("", c.field), "handed over from %q to %q", clip(c.was), clip(c.is))
		}
	}
	return nil
}
