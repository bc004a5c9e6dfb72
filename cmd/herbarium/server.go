package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/urfave/cli/v3"
)

// serverFlags are those of a command that speaks to the running server.
func serverFlags(more ...cli.Flag) []cli.Flag {
	return append(append(configFlags("config", "data-dir", "listen", "public-url"),
		&cli.StringFlag{Name: "url", Usage: "address of the server; the public URL when left out"},
		&cli.StringFlag{Name: "admin-password-file", Usage: "file with the admin password; the server's own when left out"},
		&cli.BoolFlag{Name: "json", Usage: "print what the server answers as JSON; of a list, an object a line"},
	), more...)
}

// server is the running server as its operator reaches it.
type server struct{ client *atclient.APIClient }

// withServer runs an action against the server that the flags name.
func withServer(action func(context.Context, *cli.Command, server) error) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		cfg, err := configure(c)
		if err != nil {
			return err
		}
		url := c.String("url")
		if url == "" {
			url = cfg.PublicURL.String()
		}
		var password string
		if path := c.String("admin-password-file"); path != "" {
			raw, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("admin password: %w", err)
			}
			password = strings.TrimSpace(string(raw))
		} else if password, err = adminPassword(cfg); err != nil {
			return err
		}
		return action(ctx, c, server{atclient.NewAdminClient(strings.TrimSuffix(url, "/"), password)})
	}
}

const adminMethods syntax.NSID = "garden.herbarium.admin."

func (s server) get(ctx context.Context, method string, params map[string]any, out any) error {
	return s.said(s.client.Get(ctx, adminMethods+syntax.NSID(method), params, out))
}

func (s server) post(ctx context.Context, method string, body, out any) error {
	return s.said(s.client.Post(ctx, adminMethods+syntax.NSID(method), body, out))
}

// said is an error in the server's own words, which end in the repair.
func (s server) said(err error) error {
	var refused *atclient.APIError
	if errors.As(err, &refused) {
		return &serverRefusal{refused.Name, refused.Message}
	}
	if err != nil {
		return fmt.Errorf("no answer from %s: %w", s.client.Host, err)
	}
	return nil
}

type serverRefusal struct{ name, message string }

func (r *serverRefusal) Error() string { return r.name + ": " + r.message }

// list goes through the pages of a query, up to limit items, and shows each.
func (s server) list(ctx context.Context, method, items string, params map[string]any, limit int, show func(json.RawMessage) error) error {
	const page = 100
	for left := limit; left > 0; {
		params["limit"] = min(left, page)
		var answer map[string]json.RawMessage
		if err := s.get(ctx, method, params, &answer); err != nil {
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
		params["cursor"] = cursor
		left -= len(got)
	}
	return nil
}
