package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"
)

// table shows the named fields of each item in columns, or with --json the
// items as they came.
func table(c *cli.Command, columns ...string) (show func(json.RawMessage) error, end func() error) {
	out := c.Root().Writer
	if c.Bool("json") {
		return func(item json.RawMessage) error {
			_, err := fmt.Fprintf(out, "%s\n", item)
			return err
		}, func() error { return nil }
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	_, headErr := fmt.Fprintln(w, strings.ToUpper(strings.Join(columns, "\t")))
	return func(item json.RawMessage) error {
		var fields map[string]any
		if err := json.Unmarshal(item, &fields); err != nil {
			return err
		}
		cells := make([]string, len(columns))
		for i, column := range columns {
			if cells[i] = "-"; fields[column] != nil {
				cells[i] = printable(fmt.Sprint(fields[column]))
			}
		}
		_, err := fmt.Fprintln(w, strings.Join(cells, "\t"))
		return err
	}, func() error { return errors.Join(headErr, w.Flush()) }
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
				show, end := table(c, "handle", "did", "purpose", "token", "expiresAt")
				return errors.Join(s.list(ctx, "listOneTimeTokens", "tokens", map[string]any{}, 1000, show), end())
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
				show, end := table(c, "at", "actor", "method", "subject", "outcome", "error", "client")
				return errors.Join(s.list(ctx, "listAudit", "entries", params, c.Int("limit"), show), end())
			}),
		}},
	}
}
