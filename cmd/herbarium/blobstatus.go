package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"herbarium.garden/pds"
)

func blobStatusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show how much is stored, how far the check of the bytes has come, and the accounts that store most",
		Flags: serverFlags(
			&cli.StringFlag{Name: "order", Usage: "accounts with the most: blobBytes or records", Value: "blobBytes"},
			&cli.IntFlag{Name: "limit", Usage: "how many accounts at most", Value: 10},
		),
		Action: withServer(func(ctx context.Context, c *cli.Command, s server) error {
			var raw json.RawMessage
			if err := s.get(ctx, "getStorageStatus", nil, &raw); err != nil {
				return err
			}
			if err := writeStorage(c, raw); err != nil {
				return err
			}
			t := newTable(c, "HANDLE", "DID", "RECORDS", "BLOBS", "BYTES", "DAMAGED", "MISSING")
			show := t.fields("handle", "did", "records", "blobs", "blobBytes", "quarantinedBlobs", "missingBlobs")
			return errors.Join(s.list(ctx, "listStorage", "accounts", map[string]any{"order": c.String("order")}, c.Int("limit"), show), t.end())
		}),
	}
}

// writeStorage writes what getStorageStatus answered.
func writeStorage(c *cli.Command, raw json.RawMessage) error {
	out := c.Root().Writer
	if c.Bool("json") {
		_, err := fmt.Fprintf(out, "%s\n", raw)
		return err
	}
	type amount struct{ Blobs, Bytes int64 }
	var status struct {
		Accounts, Live, Trash, Quarantined amount
		Missing                            int64
		Secrets                            struct{ Unsearched, Blobs int64 }
		Scrub                              struct {
			EverySeconds, BytesPerSecond int64
			Running                      bool
			Checked                      amount
			OldestCheck                  string
		}
	}
	if err := json.Unmarshal(raw, &status); err != nil {
		return err
	}
	for _, line := range []struct {
		what string
		amount
	}{{"of accounts", status.Accounts}, {"live", status.Live}, {"trash", status.Trash}, {"quarantined", status.Quarantined}} {
		if _, err := fmt.Fprintf(out, "%-12s %8d blobs %14d bytes\n", line.what, line.Blobs, line.Bytes); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(out, "%-12s %8d blobs\n", "missing", status.Missing); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%-12s %8d blobs, %d still to be searched\n", "with secrets", status.Secrets.Blobs, status.Secrets.Unsearched); err != nil {
		return err
	}
	scrub := status.Scrub
	if scrub.EverySeconds == 0 {
		_, err := fmt.Fprint(out, "the check of the bytes is off (BLOB_SCRUB)\n\n")
		return err
	}
	state, oldest := "waiting", scrub.OldestCheck
	if scrub.Running {
		state = "reading"
	}
	if oldest == "" {
		oldest = "never"
	}
	_, err := fmt.Fprintf(out, "%-12s %8d blobs %14d bytes in the last %s, %s; the oldest check: %s\n\n",
		"checked", scrub.Checked.Blobs, scrub.Checked.Bytes, inDays(time.Duration(scrub.EverySeconds)*time.Second), state, oldest)
	return err
}

// storageAge is how old the numbers of the metrics may be: they cost a pass over
// the rows of all blobs.
const storageAge = time.Minute

// storageGauges are the numbers of what is stored, read at most once in storageAge.
type storageGauges struct {
	read func() (pds.StorageStatus, error)

	mu     sync.Mutex
	at     time.Time         // guarded by mu, as the two below
	status pds.StorageStatus // of then
	err    error
}

// value makes a gauge of one of the numbers; -1 says that they can't be read.
func (g *storageGauges) value(of func(pds.StorageStatus) float64) func() float64 {
	return func() float64 {
		g.mu.Lock()
		defer g.mu.Unlock()
		if time.Since(g.at) > storageAge {
			g.status, g.err = g.read()
			g.at = time.Now()
		}
		if g.err != nil {
			return -1
		}
		return of(g.status)
	}
}

// watchStorage adds the gauges of what is stored.
func (s *service) watchStorage(ctx context.Context) {
	g := storageGauges{read: func() (pds.StorageStatus, error) { return s.host.StorageStatus(context.WithoutCancel(ctx)) }}
	for _, gauge := range []struct {
		name, help string
		of         func(pds.StorageStatus) float64
	}{
		{"herbarium_blobs", "Live blobs.", func(st pds.StorageStatus) float64 { return float64(st.Live.Count) }},
		{"herbarium_blob_bytes", "Bytes of live blobs.", func(st pds.StorageStatus) float64 { return float64(st.Live.Bytes) }},
		{"herbarium_blobs_trashed", "Blobs in the trash.", func(st pds.StorageStatus) float64 { return float64(st.Trash.Count) }},
		{"herbarium_blobs_quarantined", "Damaged blobs, out of service. Alarm above 0.", func(st pds.StorageStatus) float64 { return float64(st.Quarantined.Count) }},
		{"herbarium_blobs_missing", "Blobs that a check found to have no bytes. Alarm above 0.", func(st pds.StorageStatus) float64 { return float64(st.Missing) }},
		{"herbarium_blobs_with_secrets", "Blobs with something that is surely a credential. Alarm when it grows.", func(st pds.StorageStatus) float64 { return float64(st.Secrets.Blobs) }},
		{"herbarium_blobs_unsearched", "Blobs that are still to be searched for credentials.", func(st pds.StorageStatus) float64 { return float64(st.Secrets.Unsearched) }},
		{"herbarium_blobs_checked", "Live blobs whose bytes were read, or uploaded, within BLOB_SCRUB.", func(st pds.StorageStatus) float64 { return float64(st.Checked.Count) }},
		{"herbarium_blob_check_age_seconds", "Age of the oldest check of a live blob; 0 when one was never checked.", func(st pds.StorageStatus) float64 {
			if st.OldestCheck.IsZero() {
				return 0
			}
			return time.Since(st.OldestCheck).Seconds()
		}},
	} {
		s.metrics.gauge(gauge.name, gauge.help, g.value(gauge.of))
	}
}

// inDays prints whole days as such.
func inDays(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 1 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", days)
	}
	return d.String()
}
