package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"herbarium.garden/appview/index"
	"herbarium.garden/config"
)

func trustCommand() *cli.Command {
	name := &cli.StringArg{Name: "name", UsageText: "NAME"}
	return &cli.Command{
		Name:  "trust",
		Usage: "whose observations may supersede whose",
		Commands: []*cli.Command{
			{
				Name: "list", Usage: "list the trust groups",
				Flags: serverFlags(),
				Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
					var answer struct{ Groups []json.RawMessage }
					if err := s.get(ctx, "listTrustGroups", nil, &answer); err != nil {
						return err
					}
					t := newTable(c, "NAME", "SOURCE", "CHANGED", "MEMBERS")
					for _, item := range answer.Groups {
						var g struct {
							Name, Source, ChangedAt string
							Members                 []string
						}
						if err := json.Unmarshal(item, &g); err != nil {
							return err
						}
						t.row(item, g.Name, g.Source, g.ChangedAt, strings.Join(g.Members, " "))
					}
					return t.end()
				}),
			},
			{
				Name: "put", Usage: "make a trust group, or give it other members", ArgsUsage: "NAME DID DID…",
				Description: "Observations of its members supersede each other's: proposals between them move heads from now on. A DID is in one group at most.",
				Arguments:   []cli.Argument{name, &cli.StringArgs{Name: "did", UsageText: "DID DID…", Min: 2, Max: -1}},
				Flags:       serverFlags(),
				Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
					err := s.post(ctx, "putTrustGroup", map[string]any{"name": c.StringArg("name"), "members": c.StringArgs("did")}, nil)
					return errors.Join(err, tell(c, err, "trust group %s has %d members", printable(c.StringArg("name")), len(c.StringArgs("did"))))
				}),
			},
			{
				Name: "delete", Usage: "end a trust group: its members' links are proposals again", ArgsUsage: "NAME",
				Arguments: []cli.Argument{name},
				Flags:     serverFlags(),
				Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
					err := s.post(ctx, "deleteTrustGroup", map[string]any{"name": c.StringArg("name")}, nil)
					return errors.Join(err, tell(c, err, "trust group %s is no more", printable(c.StringArg("name"))))
				}),
			},
		},
	}
}

// tell prints a line about what was done, unless it failed.
func tell(c *cli.Command, failed error, format string, args ...any) error {
	if failed != nil || c.Bool("json") {
		return nil
	}
	_, err := fmt.Fprintf(c.Root().Writer, format+"\n", args...)
	return err
}

// trustGroups are those of the configuration, as the index takes them.
func trustGroups(cfg *config.Config) []index.TrustGroup {
	groups := make([]index.TrustGroup, len(cfg.TrustGroups))
	for i, g := range cfg.TrustGroups {
		groups[i] = index.TrustGroup{Name: g.Name, Members: g.Members}
	}
	return groups
}
