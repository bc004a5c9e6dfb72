package lexicons

import "time"

// Session reads a garden.engram.session: where a working session stands.
type Session struct {
	Title     string
	Summary   string // markdown
	UpdatedAt time.Time
	StartedAt time.Time // zero when absent
	Status    string    // active, ended, "" or a value not known here
	Harness   string
	Machine   string
	Cwd       string
	Repo      string // remote URL as written; may be scp-like
	Branch    string
	Model     string
}

// ReadSession reads the fields of a session.
func ReadSession(value map[string]any) Session {
	f := fields(value)
	return Session{
		Title:     f.str("title"),
		Summary:   f.str("summary"),
		UpdatedAt: f.time("updatedAt"),
		StartedAt: f.time("startedAt"),
		Status:    f.str("status"),
		Harness:   f.str("harness"),
		Machine:   f.str("machine"),
		Cwd:       f.str("cwd"),
		Repo:      f.str("repo"),
		Branch:    f.str("branch"),
		Model:     f.str("model"),
	}
}
