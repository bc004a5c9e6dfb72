package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/urfave/cli/v3"

	"herbarium.garden/pds"
	"herbarium.garden/pds/repostore"
)

func repoCommand() *cli.Command {
	return &cli.Command{
		Name:     "repo",
		Usage:    "look after the signed repos",
		Commands: []*cli.Command{repoFsckCommand()},
	}
}

func repoFsckCommand() *cli.Command {
	return &cli.Command{
		Name:  "fsck",
		Usage: "walk the repos and hold them against their signatures, hashes, references, counters and the event log",
		Description: "It reads all of a repo: MST nodes, records, the commit and its signature, references to blobs, what quotas count,\n" +
			"and what the event log told of it; then whether accounts and repos belong together, and whether seqs are missing.\n" +
			"It changes nothing without --repair, and may run beside the server. What it repairs is only what follows for certain\n" +
			"from records that were found whole: references to blobs, and counters. The rest needs a backup; each fault says so.\n" +
			exitCodeHelp,
		Flags: append(configFlags(),
			&cli.StringFlag{Name: "did", Usage: "only the repo of this account"},
			&cli.StringFlag{Name: "sample", Usage: "only this part of the repos, such as 5%, other ones at each run"},
			&cli.BoolFlag{Name: "repair", Usage: "write references and counters anew where they are wrong"},
			&cli.BoolFlag{Name: "json", Usage: "one JSON object a line: the faults, and at the end the sums"}),
		Action: runRepoFsck,
	}
}

func runRepoFsck(ctx context.Context, c *cli.Command) (err error) {
	check := pds.RepoCheck{Sample: 1, Repair: c.Bool("repair")}
	if did := c.String("did"); did != "" {
		if check.DID, err = syntax.ParseDID(did); err != nil {
			return fmt.Errorf("--did: %w", err)
		}
	}
	if sample := c.String("sample"); sample != "" {
		if check.DID != "" {
			return errors.New("--sample and --did: want one of them")
		}
		if check.Sample, err = portion(sample); err != nil {
			return err
		}
	}
	cfg, err := configure(c)
	if err != nil {
		return err
	}
	s, err := assemble(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	out := repoFaults{out: c.Root().Writer, json: c.Bool("json"), open: map[repostore.RepoFaultKind]int64{}}
	report, err := s.host.CheckRepos(ctx, check, out.tell)
	if err != nil {
		return err
	}
	return out.end(report)
}

// repoFaults writes what a check finds, as it finds it.
type repoFaults struct {
	out  io.Writer
	json bool

	open   map[repostore.RepoFaultKind]int64 // those that are still there
	mended int64
}

// repoFaultLine is a fault with --json.
type repoFaultLine struct {
	Fault    repostore.RepoFaultKind `json:"fault"`
	DID      syntax.DID              `json:"did,omitempty"`
	Subject  string                  `json:"subject"`
	Expected string                  `json:"expected,omitempty"`
	Found    string                  `json:"found,omitempty"`
	Repair   string                  `json:"repair,omitempty"`
	Done     string                  `json:"done,omitempty"`
}

// repoSumLine is the last line with --json.
type repoSumLine struct {
	Repos      int64                             `json:"repos"`
	Nodes      int64                             `json:"nodes"`
	Records    int64                             `json:"records"`
	References int64                             `json:"references"`
	Events     int64                             `json:"events"`
	Erased     int64                             `json:"erased"` // seqs of which nothing is stored any more
	Faults     map[repostore.RepoFaultKind]int64 `json:"faults"` // still there
	Mended     int64                             `json:"mended"`
}

func (r *repoFaults) tell(f repostore.RepoFault) error {
	line := repoFaultLine{Fault: f.Kind, DID: f.DID, Subject: f.Subject, Expected: f.Expected, Found: f.Found}
	if f.Mended {
		r.mended++
		line.Done = "repaired"
	} else {
		r.open[f.Kind]++
		line.Repair = f.Kind.Repair()
	}
	if r.json {
		return json.NewEncoder(r.out).Encode(line)
	}
	text := fmt.Sprintf("%-17s %s", f.Kind, f.Subject)
	if f.DID != "" && !strings.Contains(f.Subject, string(f.DID)) {
		text += " of " + string(f.DID)
	}
	if f.Expected != "" {
		text += "; want " + f.Expected
	}
	if f.Found != "" {
		text += "; found " + f.Found
	}
	if f.Mended {
		text += "; repaired"
	} else {
		text += "\n                  " + line.Repair
	}
	_, err := fmt.Fprintln(r.out, text)
	return err
}

// end writes the sums and answers what the check came to.
func (r *repoFaults) end(report pds.RepoReport) error {
	lost, unread, untidy := graver(r.open, repostore.RepoUnreadable)
	var err error
	if r.json {
		err = json.NewEncoder(r.out).Encode(repoSumLine{
			Repos: report.Repos, Nodes: report.Nodes, Records: report.Records, References: report.References, Events: report.Events,
			Erased: report.Log.Erased, Faults: r.open, Mended: r.mended,
		})
	} else {
		_, err = fmt.Fprintf(r.out, "%d repos checked: %d nodes, %d records, %d references, %d events; %d faults, %d mended, %d left over\n",
			report.Repos, report.Nodes, report.Records, report.References, report.Events, lost, r.mended, untidy)
	}
	if err != nil {
		return err
	}
	return checked(lost, unread, untidy,
		"%d faults in repos or in the event log", "%d repos could not be read", "no repo is damaged; %d things are to be cleared up")
}
