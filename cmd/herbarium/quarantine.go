package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"
)

func quarantineCommand() *cli.Command {
	filters := []cli.Flag{
		&cli.StringFlag{Name: "collection", Usage: "only records of this collection"},
		&cli.StringFlag{Name: "author", Usage: "only records of this DID or handle"},
		&cli.StringFlag{Name: "code", Usage: "only records with a finding of this code"},
	}
	return &cli.Command{
		Name:  "quarantine",
		Usage: "records that do not match their lexicon, and are in no view",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list them with what was found",
				Flags:  serverFlags(append(filters, &cli.IntFlag{Name: "limit", Usage: "how many at most", Value: 100})...),
				Action: withServer(listQuarantine),
			},
			{
				Name: "status", Usage: "show what is judged again, and how far that is",
				Flags: serverFlags(),
				Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
					var answer struct{ Revalidations []json.RawMessage }
					if err := s.get(ctx, "listQuarantine", map[string]any{"limit": 1}, &answer); err != nil {
						return err
					}
					t := newTable(c, "COLLECTION", "SEEN", "RELEASED", "QUARANTINED", "ASKED", "DONE")
					show := t.fields("collection", "seen", "released", "quarantined", "requestedAt", "finishedAt")
					for _, item := range answer.Revalidations {
						if err := show(item); err != nil {
							return err
						}
					}
					return t.end()
				}),
			},
			{
				Name: "revalidate", Usage: "judge indexed records again, quarantined or not",
				Description: "A change of a lexicon or of the rules does it by itself. A record that is named is judged at once, all others in the background.",
				Flags: serverFlags(
					&cli.StringSliceFlag{Name: "uri", Usage: "this record"},
					&cli.StringSliceFlag{Name: "collection", Usage: "all records of this collection"},
					&cli.BoolFlag{Name: "all", Usage: "all records"},
				),
				Action: withServer(revalidate),
			},
		},
	}
}

func listQuarantine(ctx context.Context, c *cli.Command, s server) error {
	params := map[string]any{}
	for _, name := range []string{"collection", "author", "code"} {
		if value := c.String(name); value != "" {
			params[name] = value
		}
	}
	t := newTable(c, "URI", "AUTHOR", "CODE", "PATH", "FINDING")
	show := func(item json.RawMessage) error {
		var record struct {
			URI      string
			Author   struct{ DID, Handle string }
			Findings []struct{ Code, Path, Message string }
		}
		if err := json.Unmarshal(item, &record); err != nil {
			return err
		}
		if c.Bool("json") || len(record.Findings) == 0 {
			t.row(item, record.URI, record.Author.Handle, "", "", "")
			return t.err
		}
		for _, f := range record.Findings {
			t.row(item, record.URI, record.Author.Handle, f.Code, f.Path, f.Message)
		}
		return t.err
	}
	return errors.Join(s.list(ctx, "listQuarantine", "records", params, c.Int("limit"), show), t.end())
}

func revalidate(ctx context.Context, c *cli.Command, s server) error {
	body := map[string]any{}
	for flag, field := range map[string]string{"uri": "uris", "collection": "collections"} {
		if values := c.StringSlice(flag); len(values) > 0 {
			body[field] = values
		}
	}
	if c.Bool("all") {
		body["all"] = true
	}
	if len(body) != 1 {
		return errors.New("name what to judge again in one way: --uri, --collection or --all")
	}
	var raw json.RawMessage
	if err := s.post(ctx, "revalidate", body, &raw); err != nil {
		return err
	}
	out := c.Root().Writer
	if c.Bool("json") {
		_, err := fmt.Fprintf(out, "%s\n", raw)
		return err
	}
	var answer struct {
		Records     []struct{ URI, State string }
		Collections []string
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	for _, r := range answer.Records {
		if _, err := fmt.Fprintf(out, "%s: %s\n", printable(r.URI), r.State); err != nil {
			return err
		}
	}
	for _, collection := range answer.Collections {
		if _, err := fmt.Fprintf(out, "judged again: the records of %s\n", collection); err != nil {
			return err
		}
	}
	return nil
}
