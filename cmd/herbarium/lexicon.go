package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"herbarium.garden/lexicons"
)

func lexiconCommand() *cli.Command {
	nsid := []cli.Argument{&cli.StringArg{Name: "nsid", UsageText: "NSID"}}
	dryRun := &cli.BoolFlag{Name: "dry-run", Usage: "change nothing, tell what would be"}
	return &cli.Command{
		Name:  "lexicon",
		Usage: "the record types that the running server knows, beside those of the program",
		Commands: []*cli.Command{
			{
				Name: "add", Usage: "add lexicons, or replace added ones", ArgsUsage: "FILE…",
				Description: "FILE is a lexicon in JSON, or a directory that is searched for such files. All of them are added or none.\n" +
					"A replacement must keep to the rules of lexicon evolution. It holds at once; records that it concerns are judged again.",
				Arguments: []cli.Argument{&cli.StringArgs{Name: "file", UsageText: "FILE…", Min: 1, Max: -1}},
				Flags: serverFlags(dryRun,
					&cli.BoolFlag{Name: "force", Usage: "add what breaks with its old version too: records that were valid may be quarantined"}),
				Action: withServer(addLexicons),
			},
			{
				Name: "list", Usage: "list the lexicons",
				Flags: serverFlags(&cli.StringFlag{Name: "origin", Usage: "only those of this origin: program or added"}),
				Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
					params := map[string]any{}
					if origin := c.String("origin"); origin != "" {
						params["origin"] = origin
					}
					t := newTable(c, "NSID", "KIND", "ORIGIN", "IN FORCE", "ADDED", "BYTES")
					show := t.fields("nsid", "kind", "origin", "inForce", "addedAt", "size")
					return errors.Join(s.list(ctx, "listLexicons", "lexicons", params, maxListed, show), t.end())
				}),
			},
			{
				Name: "show", Usage: "print the file of a lexicon", ArgsUsage: "NSID", Arguments: nsid,
				Flags: serverFlags(),
				Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
					var answer, shown json.RawMessage
					if err := s.get(ctx, "getLexicon", map[string]any{"nsid": c.StringArg("nsid")}, &answer); err != nil {
						return err
					}
					shown = answer
					if !c.Bool("json") {
						var view struct{ Lexicon json.RawMessage }
						if err := json.Unmarshal(answer, &view); err != nil {
							return err
						}
						shown = view.Lexicon
					}
					_, err := fmt.Fprintf(c.Root().Writer, "%s\n", shown)
					return err
				}),
			},
			{
				Name: "remove", Usage: "remove an added lexicon that nothing refers to", ArgsUsage: "NSID", Arguments: nsid,
				Flags: serverFlags(dryRun),
				Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
					var plan lexiconPlan
					err := plan.ask(ctx, s, "removeLexicon", map[string]any{"nsids": []string{c.StringArg("nsid")}, "dryRun": c.Bool("dry-run")})
					return errors.Join(err, plan.show(c))
				}),
			},
			{
				Name: "check", Usage: "compare two versions of a lexicon by the rules of evolution, without a server", ArgsUsage: "OLD NEW",
				Description: fmt.Sprintf("Exit codes: 0 the new version is compatible; %d it breaks with the old one; %d it could not be compared.", exitLost, exitFailed),
				Arguments:   []cli.Argument{&cli.StringArg{Name: "old", UsageText: "OLD"}, &cli.StringArg{Name: "new", UsageText: "NEW"}},
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print an object a line"}},
				Action:      checkLexicon,
			},
		},
	}
}

// maxListed is more than any list of lexicons has.
const maxListed = 10_000

// lexiconPlan is what the server answers to a change of lexicons
// (garden.herbarium.admin.defs#lexiconPlan).
type lexiconPlan struct {
	raw     json.RawMessage // as it was answered; nil when the call failed
	Applied bool
	Steps   []struct {
		NSID, Action string
		Changes      []lexiconChange
	}
	Problems  []string
	Concerned []string
	Effects   []struct {
		Collection                  string
		Seen, Released, Quarantined int64
		Examples                    []string
		Partial                     bool
	}
}

type lexiconChange struct {
	Path       string `json:"path"`
	Message    string `json:"message"`
	RefusesOld bool   `json:"refusesOld"`
	AdmitsNew  bool   `json:"admitsNew"`
}

// effect says in a word what a change does.
func (ch lexiconChange) effect() string {
	switch {
	case ch.RefusesOld && ch.AdmitsNew:
		return "replaces"
	case ch.RefusesOld:
		return "narrows"
	case ch.AdmitsNew:
		return "widens"
	}
	return "fits"
}

func (p *lexiconPlan) ask(ctx context.Context, s server, method string, body any) error {
	if err := s.post(ctx, method, body, &p.raw); err != nil {
		return err
	}
	return json.Unmarshal(p.raw, p)
}

// show prints the plan; of a dry run that would be refused it is an error.
func (p *lexiconPlan) show(c *cli.Command) error {
	if p.raw == nil {
		return nil
	}
	if c.Bool("json") {
		if _, err := fmt.Fprintf(c.Root().Writer, "%s\n", p.raw); err != nil {
			return err
		}
	} else if err := errors.Join(p.showSteps(c), p.showRecords(c)); err != nil {
		return err
	}
	if len(p.Problems) > 0 {
		return &verdict{exitFailed, "it would be refused: " + strings.Join(p.Problems, "\n")}
	}
	return nil
}

func (p *lexiconPlan) showSteps(c *cli.Command) error {
	t := newTable(c, "NSID", "ACTION", "EFFECT", "WHERE", "CHANGE")
	for _, step := range p.Steps {
		if len(step.Changes) == 0 {
			t.row(nil, step.NSID, step.Action, "", "", "")
		}
		for _, ch := range step.Changes {
			t.row(nil, step.NSID, step.Action, ch.effect(), ch.Path, ch.Message)
		}
	}
	return t.end()
}

// showRecords prints what becomes of records: of a dry run what was counted,
// else what is still to be looked at.
func (p *lexiconPlan) showRecords(c *cli.Command) error {
	var lines strings.Builder
	for _, nsid := range p.Concerned {
		if p.Applied {
			fmt.Fprintf(&lines, "judged again: the records of %s\n", nsid)
		}
	}
	for _, e := range p.Effects {
		more := ""
		if e.Partial {
			more = "the first "
		}
		fmt.Fprintf(&lines, "of %s%d records of %s: %d would be released, %d quarantined\n", more, e.Seen, e.Collection, e.Released, e.Quarantined)
		for _, uri := range e.Examples {
			fmt.Fprintf(&lines, "  quarantined: %s\n", printable(uri))
		}
	}
	_, err := io.WriteString(c.Root().Writer, lines.String())
	return err
}

func addLexicons(ctx context.Context, c *cli.Command, s server) error {
	var files []json.RawMessage
	for _, path := range c.StringArgs("file") {
		found, err := readLexicons(path)
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return errors.New("no lexicon was found; name a .json file, or a directory with some")
	}
	var plan lexiconPlan
	err := plan.ask(ctx, s, "addLexicon", map[string]any{"lexicons": files, "force": c.Bool("force"), "dryRun": c.Bool("dry-run")})
	return errors.Join(err, plan.show(c))
}

// readLexicons reads one file, or all .json files below a directory. Each is
// checked here, so that what is wrong is told by the name of its file.
func readLexicons(path string) ([]json.RawMessage, error) {
	var found []json.RawMessage
	err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || file != path && filepath.Ext(file) != ".json" {
			return err
		}
		l, err := readLexicon(file)
		if err != nil {
			return err
		}
		found = append(found, l.Source)
		return nil
	})
	return found, err
}

func readLexicon(path string) (*lexicons.Lexicon, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, lexicons.MaxSchemaSize+1))
	if err != nil {
		return nil, err
	}
	l, err := lexicons.ParseLexicon(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

func checkLexicon(_ context.Context, c *cli.Command) error {
	before, err := readLexicon(c.StringArg("old"))
	if err != nil {
		return err
	}
	after, err := readLexicon(c.StringArg("new"))
	if err != nil {
		return err
	}
	if before.NSID != after.NSID {
		return fmt.Errorf("%s is %s, and %s is %s: another name is another lexicon, which breaks with nothing", c.StringArg("old"), before.NSID, c.StringArg("new"), after.NSID)
	}
	t := newTable(c, "EFFECT", "WHERE", "CHANGE")
	broken := 0
	for _, d := range lexicons.Compare(before, after) {
		ch := lexiconChange(d)
		line, err := json.Marshal(ch)
		if err != nil {
			return err
		}
		t.row(line, ch.effect(), ch.Path, ch.Message)
		if d.Breaking() {
			broken++
		}
	}
	if err := t.end(); err != nil {
		return err
	}
	if broken > 0 {
		return &verdict{exitLost, fmt.Sprintf("%s breaks with its old version in %d places; publish it under another name", after.NSID, broken)}
	}
	return nil
}
