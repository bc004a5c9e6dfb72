package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/urfave/cli/v3"

	"herbarium.garden/blobstore"
	"herbarium.garden/config"
	"herbarium.garden/pds"
)

// defaultSample is the part of the blobs that a check reads which is told nothing else.
const defaultSample = 0.05

func blobFsckCommand() *cli.Command {
	return &cli.Command{
		Name:  "fsck",
		Usage: "hold the stored bytes against their hashes and against what is on record; tell which records are affected",
		Description: "It looks whether each blob is there and has its size, reads a part of them (--sample, all with --full), and\n" +
			"looks for bytes that nothing accounts for. It changes nothing without --restore, --quarantine or --repair-from,\n" +
			"and may run beside the server.\n" + exitCodeHelp,
		Flags: append(configFlags(),
			&cli.StringFlag{Name: "sample", Usage: "read this part of the blobs, such as 5% (the default; another one at each run)"},
			&cli.BoolFlag{Name: "full", Usage: "read all of them"},
			&cli.StringFlag{Name: "did", Usage: "only what this account has; all of it is read unless --sample is given"},
			&cli.StringFlag{Name: "since", Usage: "only what was uploaded since then (2026-01-02T15:04:05Z, or 36h ago); all of it is read unless --sample is given"},
			&cli.BoolFlag{Name: "restore", Usage: "bring back from the trash what an account has"},
			&cli.BoolFlag{Name: "quarantine", Usage: "take damaged blobs out of service and keep the bytes to look at"},
			&cli.StringFlag{Name: "repair-from", Usage: "take lost bytes from another store with the same layout, such as a backup: dir:PATH or s3://…"},
			&cli.BoolFlag{Name: "json", Usage: "one JSON object a line: the faults, and at the end the sums"}),
		Action: runBlobFsck,
	}
}

func runBlobFsck(ctx context.Context, c *cli.Command) (err error) {
	check, err := blobCheck(c, time.Now())
	if err != nil {
		return err
	}
	cfg, err := configure(c)
	if err != nil {
		return err
	}
	if from := c.String("repair-from"); from != "" {
		if check.RepairFrom, err = openBackup(ctx, cfg, from); err != nil {
			return err
		}
	}
	s, err := assemble(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	out := blobFaults{out: c.Root().Writer, json: c.Bool("json"), open: map[pds.BlobFaultKind]int64{}}
	report, err := s.host.CheckBlobs(ctx, check, out.tell)
	if err != nil {
		return err
	}
	return out.end(report)
}

// blobCheck reads what is to be checked.
func blobCheck(c *cli.Command, now time.Time) (check pds.BlobCheck, err error) {
	check = pds.BlobCheck{Sample: defaultSample, Restore: c.Bool("restore"), Quarantine: c.Bool("quarantine")}
	if did := c.String("did"); did != "" {
		if check.DID, err = syntax.ParseDID(did); err != nil {
			return check, fmt.Errorf("--did: %w", err)
		}
	}
	if since := c.String("since"); since != "" {
		if check.Since, err = timeOf(since, now); err != nil {
			return check, fmt.Errorf("--since: %w", err)
		}
	}
	sample := c.String("sample")
	switch {
	case sample != "" && c.Bool("full"):
		return check, errors.New("--sample and --full: want one of them")
	case sample != "":
		check.Sample, err = portion(sample)
	case c.Bool("full") || check.DID != "" || !check.Since.IsZero():
		check.Sample = 1
	}
	return check, err
}

// timeOf reads a time, or how long ago it was.
func timeOf(s string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(s); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a time such as 2026-01-02T15:04:05Z nor a duration such as 36h", s)
	}
	return at, nil
}

// portion reads a part of the whole: 5% or 0.05.
func portion(s string) (float64, error) {
	digits, percent := strings.CutSuffix(s, "%")
	part, err := strconv.ParseFloat(digits, 64)
	if percent {
		part /= 100
	}
	if err != nil || !(part >= 0 && part <= 1) {
		return 0, fmt.Errorf("--sample: %q is no part of the whole; want 0%% to 100%%", s)
	}
	return part, nil
}

// openBackup opens a store to take bytes from. A directory must be there: a
// mistyped one would be made, and found empty.
func openBackup(ctx context.Context, cfg *config.Config, spec string) (*blobstore.Store, error) {
	if path, isDir := strings.CutPrefix(spec, "dir:"); isDir {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--repair-from: %w", err)
		}
	}
	bucket, err := blobstore.OpenBucket(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("--repair-from: %w", err)
	}
	from, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: cfg.SpoolDir})
	if err != nil {
		return nil, fmt.Errorf("--repair-from: %w", err)
	}
	return from, from.Ready(ctx)
}

// blobFaults writes what a check finds, as it finds it.
type blobFaults struct {
	out  io.Writer
	json bool

	open  map[pds.BlobFaultKind]int64 // those that are still there
	ended int64                       // repaired or restored
}

// blobFaultLine is a fault with --json.
type blobFaultLine struct {
	Fault       pds.BlobFaultKind `json:"fault"`
	CID         string            `json:"cid,omitempty"`
	Key         string            `json:"key,omitempty"`
	Size        int64             `json:"size"`
	Detail      string            `json:"detail"`
	Records     []syntax.ATURI    `json:"records,omitempty"`
	RecordCount int64             `json:"recordCount,omitempty"`
	Done        string            `json:"done,omitempty"`
	Failed      string            `json:"failed,omitempty"`
}

// blobSumLine is the last line with --json.
type blobSumLine struct {
	Blobs     int64                       `json:"blobs"`
	Read      int64                       `json:"read"`
	ReadBytes int64                       `json:"readBytes"`
	Listed    int64                       `json:"listed"`
	Faults    map[pds.BlobFaultKind]int64 `json:"faults"` // still there
	Mended    int64                       `json:"mended"`
}

func (b *blobFaults) tell(f pds.BlobFault) error {
	if f.Open() {
		b.open[f.Kind]++
	} else {
		b.ended++
	}
	line := blobFaultLine{
		Fault: f.Kind, Key: f.Key, Size: f.Size, Detail: f.Detail,
		Records: f.Evidence.Records, RecordCount: f.Evidence.Total, Done: f.Done, Failed: f.Failed,
	}
	if f.CID.Defined() {
		line.CID = f.CID.String()
	}
	if b.json {
		return json.NewEncoder(b.out).Encode(line)
	}
	name := line.CID
	if name == "" {
		name = f.Key
	}
	text := fmt.Sprintf("%-11s %s  %s", f.Kind, name, f.Detail)
	if f.Done != "" {
		text += "; " + f.Done
	}
	if f.Failed != "" {
		text += "; not repaired: " + f.Failed
	}
	for _, uri := range f.Evidence.Records {
		text += "\n            evidence for " + string(uri)
	}
	if more := f.Evidence.Total - int64(len(f.Evidence.Records)); more > 0 {
		text += fmt.Sprintf("\n            and for %d more records", more)
	}
	_, err := fmt.Fprintln(b.out, text)
	return err
}

// end writes the sums and answers what the check came to.
func (b *blobFaults) end(report pds.BlobReport) error {
	lost, unread, untidy := graver(b.open, pds.BlobUnreadable)
	var err error
	if b.json {
		err = json.NewEncoder(b.out).Encode(blobSumLine{
			Blobs: report.Blobs, Read: report.Read.Count, ReadBytes: report.Read.Bytes, Listed: report.Listed, Faults: b.open, Mended: b.ended,
		})
	} else {
		_, err = fmt.Fprintf(b.out, "%d blobs on record, %d of them read (%d bytes); %d objects in the bucket; %d lost, %d mended, %d left over\n",
			report.Blobs, report.Read.Count, report.Read.Bytes, report.Listed, lost, b.ended, untidy)
	}
	if err != nil {
		return err
	}
	return checked(lost, unread, untidy,
		"%d blobs are corrupt or missing", "%d blobs could not be read", "no blob is lost; %d things are left over")
}
