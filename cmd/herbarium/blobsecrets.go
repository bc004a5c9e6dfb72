package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"
)

func blobSecretsCommand() *cli.Command {
	return &cli.Command{
		Name:  "secrets",
		Usage: "list the credentials that were found in stored blobs: which and where, never themselves",
		Description: "The server searches each blob once, whole, and again when its rules know more. It takes nothing away:\n" +
			"revoke the credential where it was issued, then purge the blob.",
		Flags: serverFlags(&cli.IntFlag{Name: "limit", Usage: "how many at most", Value: 100}),
		Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
			t := newTable(c, "FOUND", "SURE", "WHAT", "AT BYTE", "BLOB", "RECORDS")
			show := t.fields("foundAt", "sure", "kind", "position", "cid", "recordCount")
			return errors.Join(s.list(ctx, "listBlobSecrets", "secrets", map[string]any{}, c.Int("limit"), show), t.end())
		}),
	}
}
