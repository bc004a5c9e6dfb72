package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"
)

func purgeCommand() *cli.Command {
	subjects := func(more ...cli.Flag) []cli.Flag {
		return serverFlags(append([]cli.Flag{
			&cli.StringSliceFlag{Name: "record", Usage: "AT URI of a record; all its versions go. With # and its CID behind, one that is known here no more"},
			&cli.StringSliceFlag{Name: "blob", Usage: "CID of a blob, whoever has it"},
			&cli.BoolFlag{Name: "with-blobs", Usage: "also the blobs that the records refer to"},
		}, more...)...)
	}
	id := []cli.Argument{&cli.StringArg{Name: "id", UsageText: "ID"}}
	file := []cli.Argument{&cli.StringArg{Name: "file", UsageText: "FILE"}}
	return &cli.Command{
		Name:  "purge",
		Usage: "remove records and blobs for good, with a receipt",
		Commands: []*cli.Command{
			{
				Name: "preview", Usage: "show what a purge would touch, and what keeps it from being complete; it changes nothing",
				Flags: subjects(), Action: withServer(previewPurge),
			},
			{
				Name: "run", Usage: "purge, after a look at what it touches",
				Description: "The records leave their repos by a commit; events, index, bucket and database files forget them, and\n" +
					"nothing with one of the CIDs is taken in again. It cannot be undone or stopped. It writes the databases anew,\n" +
					"so it takes a while when they are large.",
				Flags: subjects(
					&cli.StringFlag{Name: "reason", Usage: "why, for the receipt; not what it was"},
					&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
				),
				Action: withServer(runPurge),
			},
			{
				Name: "list", Usage: "show the log of purges, the newest first",
				Flags: serverFlags(
					&cli.IntFlag{Name: "limit", Usage: "how many at most", Value: 100},
					&cli.BoolFlag{Name: "receipts", Usage: "print the receipts alone, one a line, for the backup: purge apply takes them"}),
				Action: withServer(listPurges),
			},
			{
				Name: "show", Usage: "show a purge", ArgsUsage: "ID", Arguments: id,
				Flags:  serverFlags(&cli.BoolFlag{Name: "receipt", Usage: "print the receipt alone"}),
				Action: withServer(showPurge),
			},
			{
				Name: "apply", Usage: "give a restored server its log of purges again, and remove what the backup brought back",
				ArgsUsage: "FILE", Arguments: file,
				Flags: serverFlags(), Action: withServer(applyPurges),
			},
			verifyPurgeCommand(file),
		},
	}
}

// purgeImpact is what previewPurge answers.
type purgeImpact struct {
	Records []struct {
		URI, CID  string
		Size      int64
		Stands    bool
		Events    int64
		Blobs     []string
		CopyCount int64
	}
	Blobs []struct {
		CID                  string
		Size                 int64
		Accounts, OtherCount int64
	}
	Citing  []struct{ URI, Cites, Kind string }
	Steps   []string
	Blocked string
}

func (s server) purgeImpact(ctx context.Context, c *cli.Command) (impact purgeImpact, raw json.RawMessage, err error) {
	records, blobs := c.StringSlice("record"), c.StringSlice("blob")
	if len(records)+len(blobs) == 0 {
		return impact, nil, errors.New("nothing is named: add --record or --blob")
	}
	params := map[string]any{"withBlobs": c.Bool("with-blobs")}
	if len(records) > 0 {
		params["records"] = records
	}
	if len(blobs) > 0 {
		params["blobs"] = blobs
	}
	if err := s.get(ctx, "previewPurge", params, &raw); err != nil {
		return impact, nil, err
	}
	return impact, raw, json.Unmarshal(raw, &impact)
}

func previewPurge(ctx context.Context, c *cli.Command, s server) error {
	impact, raw, err := s.purgeImpact(ctx, c)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		_, err := fmt.Fprintf(c.Root().Writer, "%s\n", raw)
		return err
	}
	return impact.write(c.Root().Writer)
}

func (i *purgeImpact) write(to io.Writer) error {
	table := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	out := &said{to: table}
	for _, r := range i.Records {
		state := "stands, " + strconv.FormatInt(r.Size, 10) + " bytes"
		if !r.Stands {
			state = "does not stand any more"
		}
		out.line("record\t%s\t%s\t%s; in %d events, %d other copies, %d blobs", printable(r.URI), printable(r.CID), state, r.Events, r.CopyCount, len(r.Blobs))
	}
	for _, b := range i.Blobs {
		out.line("blob\t\t%s\t%d bytes; %d accounts, %d other records", printable(b.CID), b.Size, b.Accounts, b.OtherCount)
	}
	for _, by := range i.Citing {
		out.line("stays\t%s\t\tnames %s (%s)", printable(by.URI), printable(by.Cites), printable(by.Kind))
	}
	out.line("steps\t%s", strings.Join(i.Steps, ", "))
	if i.Blocked != "" {
		out.line("blocked\t%s", printable(i.Blocked))
	}
	return errors.Join(out.err, table.Flush())
}

func runPurge(ctx context.Context, c *cli.Command, s server) error {
	impact, _, err := s.purgeImpact(ctx, c)
	if err != nil {
		return err
	}
	if impact.Blocked != "" {
		return errors.New(impact.Blocked)
	}
	if !c.Bool("yes") {
		if err := impact.write(c.Root().ErrWriter); err != nil { // beside the question
			return err
		}
		if err := confirmPurge(ctx, c, &impact); err != nil {
			return err
		}
	}
	records, blobs := []map[string]string{}, []string{}
	for _, r := range impact.Records {
		records = append(records, map[string]string{"uri": r.URI, "cid": r.CID})
	}
	for _, b := range impact.Blobs {
		blobs = append(blobs, b.CID)
	}
	var raw json.RawMessage
	err = s.post(ctx, "purgeRecord", withoutEmpty(map[string]any{"records": records, "blobs": blobs, "reason": c.String("reason")}), &raw)
	if err != nil {
		return err
	}
	return writePurge(c, raw)
}

// confirmPurge lets the operator type what a CID ends in: whoever does has looked
// at it.
func confirmPurge(ctx context.Context, c *cli.Command, impact *purgeImpact) error {
	const shown = 8
	var cids []string
	for _, r := range impact.Records {
		cids = append(cids, r.CID)
	}
	for _, b := range impact.Blobs {
		cids = append(cids, b.CID)
	}
	first := cids[0]
	typed, err := ask(ctx, c, fmt.Sprintf("This removes all of it for good. Type the last %d characters of the first CID to go on: ", shown))
	if err != nil {
		return err
	}
	if typed != first[max(0, len(first)-shown):] {
		return errors.New("that is not what the CID ends in; nothing was purged")
	}
	return nil
}

// purgeView is garden.herbarium.admin.defs#purge.
type purgeView struct {
	ID, At, Actor, Reason string
	Records               []struct {
		URI, CID string
		Size     int64
	}
	Blobs []struct {
		CID  string
		Size int64
	}
	Steps []struct {
		Step, At string
		Removed  map[string]int64
	}
	Complete bool
	Receipt  string
}

// writePurge writes what the server answered of one purge.
func writePurge(c *cli.Command, raw json.RawMessage) error {
	if c.Bool("json") {
		_, err := fmt.Fprintf(c.Root().Writer, "%s\n", raw)
		return err
	}
	var p purgeView
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	table := tabwriter.NewWriter(c.Root().Writer, 0, 8, 2, ' ', 0)
	out := &said{to: table}
	state := "complete; herbarium purge show --receipt has the receipt"
	if !p.Complete {
		state = "not complete yet; it goes on by itself"
	}
	out.line("id\t%s\nbegun\t%s by %s\nreason\t%s\nstate\t%s", p.ID, p.At, p.Actor, orDash(printable(p.Reason)), state)
	for _, r := range p.Records {
		out.line("record\t%s %s, %d bytes", printable(r.URI), printable(r.CID), r.Size)
	}
	for _, b := range p.Blobs {
		out.line("blob\t%s, %d bytes", printable(b.CID), b.Size)
	}
	for _, step := range p.Steps {
		removed, err := json.Marshal(step.Removed)
		if err != nil {
			return err
		}
		out.line("step\t%s %s %s", step.Step, step.At, removed)
	}
	return errors.Join(out.err, table.Flush())
}

func showPurge(ctx context.Context, c *cli.Command, s server) error {
	var raw json.RawMessage
	if err := s.get(ctx, "getPurge", map[string]any{"id": c.StringArg("id")}, &raw); err != nil {
		return err
	}
	if !c.Bool("receipt") {
		return writePurge(c, raw)
	}
	var p purgeView
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	if p.Receipt == "" {
		return errors.New("the purge is not complete yet, so it has no receipt; it goes on by itself")
	}
	_, err := fmt.Fprintln(c.Root().Writer, p.Receipt)
	return err
}

func listPurges(ctx context.Context, c *cli.Command, s server) error {
	if c.Bool("receipts") {
		return s.list(ctx, "listPurges", "purges", map[string]any{}, c.Int("limit"), func(item json.RawMessage) error {
			var p purgeView
			if err := json.Unmarshal(item, &p); err != nil || p.Receipt == "" {
				return err
			}
			_, err := fmt.Fprintln(c.Root().Writer, p.Receipt)
			return err
		})
	}
	t := newTable(c, "ID", "BEGUN", "COMPLETE", "RECORDS", "BLOBS", "REASON")
	show := func(item json.RawMessage) error {
		var p purgeView
		if err := json.Unmarshal(item, &p); err != nil {
			return err
		}
		t.row(item, p.ID, p.At, strconv.FormatBool(p.Complete), strconv.Itoa(len(p.Records)), strconv.Itoa(len(p.Blobs)), p.Reason)
		return t.err
	}
	return errors.Join(s.list(ctx, "listPurges", "purges", map[string]any{}, c.Int("limit"), show), t.end())
}

// appliedAtOnce is how many receipts go in one call.
const appliedAtOnce = 10

func applyPurges(ctx context.Context, c *cli.Command, s server) error {
	receipts, err := readReceipts(c.StringArg("file"))
	if err != nil {
		return err
	}
	t := newTable(c, "ID", "FRESH")
	show := t.fields("id", "fresh")
	for len(receipts) > 0 {
		part := receipts[:min(len(receipts), appliedAtOnce)]
		receipts = receipts[len(part):]
		var done struct{ Purges []json.RawMessage }
		if err := s.post(ctx, "applyPurges", map[string]any{"receipts": part}, &done); err != nil {
			return errors.Join(err, t.end())
		}
		for _, item := range done.Purges {
			if err := show(item); err != nil {
				return err
			}
		}
	}
	return t.end()
}
