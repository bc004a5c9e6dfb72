package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/urfave/cli/v3"

	"herbarium.garden/pds"
	"herbarium.garden/pds/account"
)

func verifyPurgeCommand(file []cli.Argument) *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "verify the receipts in a file, without any server", ArgsUsage: "FILE", Arguments: file,
		Description: "A receipt is a JWS in its compact form (RFC 7515, ES256 or ES256K) by the key #herbarium_host in the DID document\n" +
			"of the host. Give the key that you trust; without one a receipt is held against the key that it names itself,\n" +
			"which shows that it is whole, not whose it is.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "key", Usage: "the host's key, as a did:key"},
			&cli.StringFlag{Name: "did-document", Usage: "file with the DID document of the host, in the place of --key"},
			&cli.BoolFlag{Name: "json", Usage: "print what the receipts say, an object a line"},
		},
		Action: verifyPurge,
	}
}

func verifyPurge(_ context.Context, c *cli.Command) error {
	key, err := hostKey(c)
	if err != nil {
		return err
	}
	receipts, err := readReceipts(c.StringArg("file"))
	if err != nil {
		return err
	}
	out := &said{to: c.Root().Writer}
	for i, text := range receipts {
		r, err := pds.VerifyReceipt(text, key)
		if err != nil {
			return fmt.Errorf("receipt %d: %w", i+1, err)
		}
		if c.Bool("json") {
			raw, err := json.Marshal(r)
			if err != nil {
				return err
			}
			out.line("%s", raw)
			continue
		}
		by := "the key that was given"
		if key == nil {
			by = r.HostKey + ", which it names itself: compare it with #" + account.HostKeyID + " of " + string(r.Host)
		}
		out.line("%s: %d records and %d blobs, purged by %s, nothing found at %s; signed by %s", r.ID, len(r.Records), len(r.Blobs), r.Host, r.Absence.At, by)
	}
	return out.err
}

// hostKey is the key that the flags name; nil for none.
func hostKey(c *cli.Command) (atcrypto.PublicKey, error) {
	path := c.String("did-document")
	if given := c.String("key"); given != "" {
		if path != "" {
			return nil, errors.New("--key and --did-document say the same: give one of them")
		}
		key, err := atcrypto.ParsePublicDIDKey(given)
		if err != nil {
			return nil, fmt.Errorf("--key: %w", err)
		}
		return key, nil
	}
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--did-document: %w", err)
	}
	var document identity.DIDDocument
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("--did-document: %w", err)
	}
	parsed := identity.ParseIdentity(&document)
	key, err := parsed.GetPublicKey(account.HostKeyID)
	if err != nil {
		return nil, fmt.Errorf("--did-document: it has no key #%s: %w", account.HostKeyID, err)
	}
	return key, nil
}

// maxReceiptLine bounds a line of a file of receipts, in bytes.
const maxReceiptLine = 1 << 20

// readReceipts reads a file with a receipt on each line; - is the standard input.
func readReceipts(path string) (receipts []string, err error) {
	file := os.Stdin
	if path != "-" {
		if file, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("receipts: %w", err)
		}
		defer file.Close()
	}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxReceiptLine)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			receipts = append(receipts, line)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("receipts: %w", err)
	}
	if len(receipts) == 0 {
		return nil, fmt.Errorf("receipts: %s has none", path)
	}
	return receipts, nil
}
