package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"herbarium.garden/config"
)

// operatorClient calls the admin's methods of a running server, over XRPC like any
// other client.
type operatorClient struct {
	base     *url.URL
	password string
}

// Bounds of one call.
const (
	operatorTimeout   = 30 * time.Second
	maxOperatorAnswer = 8 << 20 // bytes
)

// operatorFlags say which server, and where its admin password is.
func operatorFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "url", Usage: "address of the server; that of PUBLIC_URL when left out"},
		&cli.StringFlag{Name: "data-dir", Usage: "data folder of the server, where the admin password is read unless HERBARIUM_ADMIN_PASSWORD is set", Value: "./data"},
		&cli.BoolFlag{Name: "json", Usage: "one JSON object a line"},
	}
}

func operatorOf(c *cli.Command) (*operatorClient, error) {
	given := map[string]string{}
	if c.IsSet("data-dir") {
		given["data-dir"] = c.String("data-dir")
	}
	cfg, err := config.Load(config.Input{Environ: os.Environ(), ReadFile: os.ReadFile, Flags: given})
	if err != nil {
		return nil, err
	}
	o := &operatorClient{base: cfg.PublicURL}
	if address := c.String("url"); address != "" {
		if o.base, err = url.Parse(address); err != nil || o.base.Host == "" {
			return nil, fmt.Errorf("--url %q is no address; give a scheme and a host", address)
		}
	}
	o.password, err = adminPassword(cfg)
	return o, err
}

// query calls a query and reads its answer.
func (o *operatorClient) query(ctx context.Context, method string, params url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, operatorTimeout)
	defer cancel()
	at := o.base.JoinPath("xrpc", method)
	at.RawQuery = params.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth("admin", o.password)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxOperatorAnswer))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if res.StatusCode != http.StatusOK {
		var refusal struct{ Error, Message string }
		if json.Unmarshal(raw, &refusal) != nil || refusal.Error == "" {
			return fmt.Errorf("%s: the server answered %s", method, res.Status)
		}
		return fmt.Errorf("%s: %s: %s", method, refusal.Error, refusal.Message)
	}
	return json.Unmarshal(raw, into)
}

// list goes through the pages of a query, up to limit items, and shows each.
func (o *operatorClient) list(ctx context.Context, method, items string, params url.Values, limit int, show func(json.RawMessage) error) error {
	const page = 100
	for left := limit; left > 0; {
		params.Set("limit", strconv.Itoa(min(left, page)))
		var answer map[string]json.RawMessage
		if err := o.query(ctx, method, params, &answer); err != nil {
			return err
		}
		var got []json.RawMessage
		if err := json.Unmarshal(answer[items], &got); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		for _, item := range got {
			if err := show(item); err != nil {
				return err
			}
		}
		var cursor string
		if err := json.Unmarshal(answer["cursor"], &cursor); err != nil || cursor == "" {
			return nil // the last page has none
		}
		params.Set("cursor", cursor)
		left -= len(got)
	}
	return nil
}

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
			Flags: operatorFlags(),
			Action: func(ctx context.Context, c *cli.Command) error {
				o, err := operatorOf(c)
				if err != nil {
					return err
				}
				show, end := table(c, "handle", "did", "purpose", "token", "expiresAt")
				return errors.Join(o.list(ctx, "garden.herbarium.admin.listOneTimeTokens", "tokens", url.Values{}, 1000, show), end())
			},
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
			Flags: append(operatorFlags(),
				&cli.StringFlag{Name: "did", Usage: "only what is about this account"},
				&cli.StringFlag{Name: "method", Usage: "only calls of this method"},
				&cli.StringFlag{Name: "since", Usage: "only from this time on, such as 2026-11-30T12:00:00Z"},
				&cli.StringFlag{Name: "until", Usage: "only before this time"},
				&cli.IntFlag{Name: "limit", Usage: "how many at most", Value: 100},
			),
			Action: func(ctx context.Context, c *cli.Command) error {
				o, err := operatorOf(c)
				if err != nil {
					return err
				}
				params := url.Values{}
				for _, name := range []string{"did", "method", "since", "until"} {
					if value := c.String(name); value != "" {
						params.Set(name, value)
					}
				}
				show, end := table(c, "at", "actor", "method", "subject", "outcome", "error", "client")
				return errors.Join(o.list(ctx, "garden.herbarium.admin.listAudit", "entries", params, c.Int("limit"), show), end())
			},
		}},
	}
}
