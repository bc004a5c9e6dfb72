package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"
)

// table is a list on the console: in columns, or with --json an object a line.
type table struct {
	json bool
	to   io.Writer
	out  *tabwriter.Writer
	err  error // the first one
}

func newTable(c *cli.Command, headings ...string) *table {
	t := &table{json: c.Bool("json"), to: c.Root().Writer, out: tabwriter.NewWriter(c.Root().Writer, 0, 8, 2, ' ', 0)}
	if !t.json {
		t.cells(headings)
	}
	return t
}

func (t *table) cells(cells []string) {
	for i, cell := range cells {
		cells[i] = orDash(printable(cell))
	}
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.out, strings.Join(cells, "\t"))
	}
}

// row adds an item as the server sent it, of which cells are shown.
func (t *table) row(item json.RawMessage, cells ...string) {
	if !t.json {
		t.cells(cells)
	} else if t.err == nil {
		_, t.err = fmt.Fprintf(t.to, "%s\n", item)
	}
}

func (t *table) end() error { return errors.Join(t.err, t.out.Flush()) }

// fields adds items with the named fields as cells.
func (t *table) fields(names ...string) func(item json.RawMessage) error {
	return func(item json.RawMessage) error {
		var values map[string]any
		decoder := json.NewDecoder(bytes.NewReader(item))
		decoder.UseNumber() // a million bytes is not 1e+06
		if err := decoder.Decode(&values); err != nil {
			return err
		}
		cells := make([]string, len(names))
		for i, name := range names {
			if values[name] != nil {
				cells[i] = fmt.Sprint(values[name])
			}
		}
		t.row(item, cells...)
		return t.err
	}
}

// printable keeps what others wrote from driving the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

func tokenCommand() *cli.Command {
	return &cli.Command{
		Name:  "token",
		Usage: "one-time tokens, which this server does not mail",
		Commands: []*cli.Command{{
			Name:  "list",
			Usage: "show the tokens that accounts asked for, to hand them over",
			Description: "A token lets whoever has it delete the account, set its password, or take its did:plc elsewhere. Make sure whom you give it to.\n" +
				"That you looked is in the audit log.",
			Flags: serverFlags(),
			Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
				t := newTable(c, "HANDLE", "DID", "PURPOSE", "TOKEN", "EXPIRES")
				show := t.fields("handle", "did", "purpose", "token", "expiresAt")
				return errors.Join(s.list(ctx, "listOneTimeTokens", "tokens", map[string]any{}, 1000, show), t.end())
			}),
		}},
	}
}

func auditCommand() *cli.Command {
	return &cli.Command{
		Name:  "audit",
		Usage: "what operators did",
		Commands: []*cli.Command{{
			Name:  "list",
			Usage: "show the audit log, the newest first",
			Flags: serverFlags(
				&cli.StringFlag{Name: "did", Usage: "only what is about this account"},
				&cli.StringFlag{Name: "method", Usage: "only calls of this method"},
				&cli.StringFlag{Name: "since", Usage: "only from this time on, such as 2026-11-30T12:00:00Z"},
				&cli.StringFlag{Name: "until", Usage: "only before this time"},
				&cli.IntFlag{Name: "limit", Usage: "how many at most", Value: 100},
			),
			Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
				params := map[string]any{}
				for _, name := range []string{"did", "method", "since", "until"} {
					if value := c.String(name); value != "" {
						params[name] = value
					}
				}
				t := newTable(c, "AT", "ACTOR", "METHOD", "SUBJECT", "OUTCOME", "ERROR", "CLIENT")
				show := t.fields("at", "actor", "method", "subject", "outcome", "error", "client")
				return errors.Join(s.list(ctx, "listAudit", "entries", params, c.Int("limit"), show), t.end())
			}),
		}},
	}
}
