package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v3"

	"herbarium.garden/config"
)

// finding is what doctor says of one thing.
type finding struct {
	Check   string `json:"check"`
	Verdict string `json:"verdict"` // ok | warn | fail
	Detail  string `json:"detail"`
	Repair  string `json:"repair,omitempty"`
}

// The verdicts of a finding.
const (
	ok   = "ok"
	warn = "warn"
	fail = "fail"
)

// doctorTimeout bounds each question to a server, a name server or a bucket.
const doctorTimeout = 10 * time.Second

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "tell what is right and wrong with this installation, and the repair",
		Description: "It looks at the configuration, the secrets, the disk, both databases and the bucket by itself, without changing anything\n" +
			"but an object that it puts into the bucket and removes; and asks the server what it knows, when one is running.\n" +
			"Exit codes: 0 all is well; 1 the check could not be made; 3 something fails; 4 something to be warned of.",
		Flags: append(configFlags(),
			&cli.StringFlag{Name: "url", Usage: "address of the server; the one that it listens on when left out"},
			&cli.StringFlag{Name: "admin-password-file", Usage: "file with the admin password; the server's own when left out"},
			&cli.BoolFlag{Name: "json", Usage: "one JSON object a line: the findings, and at the end their numbers"}),
		Action: func(ctx context.Context, c *cli.Command) error {
			d := &doctor{out: c.Root().Writer, json: c.Bool("json"), now: time.Now, counts: map[string]int{}}
			d.configuration(c)
			if d.cfg != nil {
				d.settings()
				d.secrets()
				d.disk()
				d.databases(ctx)
				d.bucket(ctx)
				d.network(ctx)
				d.server(ctx, c)
			}
			return d.end()
		},
	}
}

// doctor is an examination under way. A check that finds what it needs missing
// says so once; the others go on.
type doctor struct {
	out  io.Writer
	json bool
	now  func() time.Time

	cfg    *config.Config // nil when it does not load
	counts map[string]int // by verdict
	err    error          // of writing
}

func (d *doctor) say(check, verdict, repair, format string, args ...any) {
	f := finding{Check: check, Verdict: verdict, Detail: fmt.Sprintf(format, args...)}
	if verdict != ok {
		f.Repair = repair
	}
	d.counts[verdict]++
	if d.err != nil {
		return
	}
	if d.json {
		d.err = json.NewEncoder(d.out).Encode(f)
		return
	}
	_, d.err = fmt.Fprintf(d.out, "%-5s %-17s %s\n", f.Verdict, f.Check, printable(f.Detail))
	if f.Repair != "" && d.err == nil {
		_, d.err = fmt.Fprintf(d.out, "%23s %s\n", "", f.Repair)
	}
}

// ok says that something is as it should be.
func (d *doctor) ok(check, format string, args ...any) { d.say(check, ok, "", format, args...) }

func (d *doctor) warn(check, repair, format string, args ...any) {
	d.say(check, warn, repair, format, args...)
}

func (d *doctor) fail(check, repair, format string, args ...any) {
	d.say(check, fail, repair, format, args...)
}

// end writes the numbers and answers what the examination came to.
func (d *doctor) end() error {
	if d.err != nil {
		return d.err
	}
	var err error
	if d.json {
		err = json.NewEncoder(d.out).Encode(map[string]int{ok: d.counts[ok], warn: d.counts[warn], fail: d.counts[fail]})
	}
	switch {
	case err != nil:
		return err
	case d.counts[fail] > 0:
		return &verdict{exitLost, fmt.Sprintf("doctor: %d things fail, %d to be warned of", d.counts[fail], d.counts[warn])}
	case d.counts[warn] > 0:
		return &verdict{exitUntidy, fmt.Sprintf("doctor: nothing fails, %d things to be warned of", d.counts[warn])}
	}
	return nil
}
