package lexicons

import (
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Source is where an observation's content came from.
type Source struct {
	Kind  string // url, file, command, api, human, or a value not known here
	Value string
}

// Generator is what produced a record, as the device that wrote it says;
// never proof of anything.
type Generator struct {
	Run            syntax.TID // "" when absent or no TID
	Device         string
	Harness        string
	HarnessVersion string
	Model          string
	Transcript     *StrongRef
}

// Observation reads a garden.engram.agents.observation.
type Observation struct {
	Source     Source
	Method     string
	ObservedAt time.Time
	Text       string
	Generator  Generator
	CreatedAt  time.Time
	Content    *BlobRef
	Supersedes *StrongRef // nil when absent or malformed
}

// ReadObservation reads the fields of an observation.
func ReadObservation(value map[string]any) Observation {
	f := fields(value)
	source := f.object("source")
	return Observation{
		Source:     Source{Kind: source.str("kind"), Value: source.str("value")},
		Method:     f.str("method"),
		ObservedAt: f.time("observedAt"),
		Text:       f.str("text"),
		Generator:  readGenerator(f.object("generator")),
		CreatedAt:  f.time("createdAt"),
		Content:    f.blob("content"),
		Supersedes: f.strongRef("supersedes"),
	}
}

func readGenerator(f fields) Generator {
	run, err := syntax.ParseTID(f.str("run"))
	if err != nil {
		run = ""
	}
	return Generator{
		Run:            run,
		Device:         f.str("device"),
		Harness:        f.str("harness"),
		HarnessVersion: f.str("harnessVersion"),
		Model:          f.str("model"),
		Transcript:     f.strongRef("transcript"),
	}
}
