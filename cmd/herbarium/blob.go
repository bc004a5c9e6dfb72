package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v3"

	"herbarium.garden/pds/repostore"
)

func blobCommand() *cli.Command {
	return &cli.Command{
		Name:     "blob",
		Usage:    "look after the stored bytes",
		Commands: []*cli.Command{blobGCCommand(), blobFsckCommand(), blobStatusCommand(), blobSecretsCommand()},
	}
}

func blobGCCommand() *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "tell which blobs nobody refers to any more; with --run, collect them now",
		Description: "The server does the same every hour. What no record has referred to for BLOB_GRACE goes to the trash,\n" +
			"and what has lain there for BLOB_TRASH is deleted. It may run beside the server.",
		Flags: append(configFlags(), &cli.BoolFlag{Name: "run", Usage: "do it; without it only the counts are told"}),
		Action: func(ctx context.Context, c *cli.Command) (err error) {
			cfg, err := configure(c)
			if err != nil {
				return err
			}
			s, err := assemble(ctx, cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			did, err := s.host.CollectBlobs(ctx, !c.Bool("run"))
			if err != nil {
				return err
			}
			heading := "would be (--run does it):"
			if c.Bool("run") {
				heading = "done:"
			}
			out := c.Root().Writer
			if _, err := fmt.Fprintln(out, heading); err != nil {
				return err
			}
			for _, line := range []struct {
				what string
				repostore.Tally
			}{
				{"taken from accounts", did.Expired}, {"moved to the trash", did.Trashed}, {"moved to quarantine", did.Damaged},
				{"deleted from the trash", did.Emptied}, {"deleted from quarantine", did.Cleared},
			} {
				if _, err := fmt.Fprintf(out, "  %-24s %8d blobs %14d bytes\n", line.what, line.Count, line.Bytes); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
