package appview

import (
	"strings"
	"unicode"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
)

// resumeCard is garden.herbarium.defs#resumeCard.
type resumeCard struct {
	Repo    string `json:"repo,omitempty"`
	Branch  string `json:"branch,omitempty"`
	Cwd     string `json:"cwd,omitempty"`
	Machine string `json:"machine,omitempty"`
	Harness string `json:"harness,omitempty"`
	Model   string `json:"model,omitempty"`
	Command string `json:"command,omitempty"`
	Note    string `json:"note,omitempty"`
}

func viewResume(s lexicons.Session, rkey syntax.RecordKey) *resumeCard {
	repo, _ := lexicons.MaskCredentials(s.Repo)
	card := &resumeCard{Repo: repo, Branch: s.Branch, Cwd: s.Cwd, Machine: s.Machine, Harness: s.Harness, Model: s.Model}
	card.Command, card.Note = resumeCommand(s, rkey)
	return card
}

// resumeCommand is a POSIX shell line that goes to where the session worked
// and takes it up again. Every value is somebody else's text, so each is one
// quoted word, and one with a control character makes no command at all.
func resumeCommand(s lexicons.Session, rkey syntax.RecordKey) (command, note string) {
	if s.Cwd == "" {
		return "", "the session does not say where it worked"
	}
	if hasControl(s.Cwd) || hasControl(s.Branch) {
		return "", "a value holds control characters"
	}
	steps := []string{"cd -- " + quoteWord(s.Cwd)}
	if s.Branch != "" {
		if strings.HasPrefix(s.Branch, "-") {
			return "", "the branch begins with a dash"
		}
		steps = append(steps, "git switch "+quoteWord(s.Branch))
	}
	switch id := quoteWord(string(rkey)); strings.ToLower(s.Harness) {
	case "claude", "claude-code":
		steps = append(steps, "claude --resume "+id)
	case "codex":
		steps = append(steps, "codex resume "+id)
	case "pi":
		steps = append(steps, "pi --session "+id)
	case "":
		note = "the session names no harness; it goes no further than the working directory"
	default:
		note = "how this harness resumes a session is not known here; it goes no further than the working directory"
	}
	return strings.Join(steps, " && "), note
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

// quoteWord makes one word of a POSIX shell of any text without NUL.
func quoteWord(s string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_./:@%+,-", r))
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) && !strings.HasPrefix(s, "-") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
