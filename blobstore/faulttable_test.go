package blobstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/buckettest"
)

// What each step of a blob's life comes to when the bucket fails in it, in
// which places the blob is then, and where when the step is repeated. Nothing that
// was acknowledged is ever in no place, and what was not is never acknowledged.
var faultTable = []struct {
	step  string
	op    buckettest.Op
	fault buckettest.Fault
	fails bool   // the caller is told
	after string // the places after it
	again string // and after the step was repeated without a fault
}{
	{"upload", buckettest.Put, buckettest.Refused, true, "", "objects"},
	{"upload", buckettest.Put, buckettest.Hangs, true, "", "objects"},
	{"upload", buckettest.Put, buckettest.Persisted, true, "objects", "objects"}, // an orphan until it is repeated or swept

	{"upload of trash", buckettest.Put, buckettest.Refused, true, "trash", "objects trash"},
	{"upload of trash", buckettest.Put, buckettest.Persisted, true, "objects trash", "objects trash"},
	{"upload again", buckettest.Put, buckettest.Refused, true, "objects", "objects"},

	{"trash", buckettest.Move, buckettest.Refused, true, "objects", "trash"},
	{"trash", buckettest.Move, buckettest.Hangs, true, "objects", "trash"},
	{"trash", buckettest.Move, buckettest.Half, true, "objects trash", "trash"},
	{"trash", buckettest.Move, buckettest.Persisted, true, "trash", "trash"},

	{"restore", buckettest.Stat, buckettest.Refused, true, "trash", "objects"},
	{"restore", buckettest.Move, buckettest.Refused, true, "trash", "objects"},
	{"restore", buckettest.Move, buckettest.Hangs, true, "trash", "objects"},
	{"restore", buckettest.Move, buckettest.Half, true, "objects trash", "objects"},
	{"restore", buckettest.Move, buckettest.Persisted, true, "objects", "objects"},

	{"restore after an upload", buckettest.Delete, buckettest.Refused, true, "objects trash", "objects"},
	{"restore after an upload", buckettest.Delete, buckettest.Persisted, true, "objects", "objects"},

	{"discard", buckettest.Delete, buckettest.Refused, true, "trash", ""},
	{"discard", buckettest.Delete, buckettest.Hangs, true, "trash", ""},
	{"discard", buckettest.Delete, buckettest.Persisted, true, "", ""},

	{"isolate", buckettest.Move, buckettest.Half, true, "objects quarantine", "quarantine"},
	{"isolate", buckettest.Move, buckettest.Refused, true, "objects", "quarantine"},

	{"repair", buckettest.Put, buckettest.Refused, true, "quarantine", "objects quarantine"},
	{"repair", buckettest.Put, buckettest.Persisted, true, "objects quarantine", "objects quarantine"},

	{"read", buckettest.Stat, buckettest.Refused, true, "objects", "objects"},
	{"read", buckettest.Get, buckettest.Refused, true, "objects", "objects"},
	{"read", buckettest.Get, buckettest.Hangs, true, "objects", "objects"},
	{"read", buckettest.Get, buckettest.Cut, false, "objects", "objects"}, // taken up where it stopped
	{"verify", buckettest.Get, buckettest.Refused, true, "objects", "objects"},
	{"verify", buckettest.Get, buckettest.Cut, false, "objects", "objects"},
	{"walk", buckettest.List, buckettest.Refused, true, "objects", "objects"},
	{"walk", buckettest.List, buckettest.Cut, true, "objects", "objects"},
}

func TestFaultTable(t *testing.T) {
	t.Parallel()
	for _, row := range faultTable {
		t.Run(fmt.Sprintf("%s, %s %s", row.step, row.op, row.fault), func(t *testing.T) {
			t.Parallel()
			bucket := buckettest.NewFaulty(blobstore.NewMemory())
			spool := t.TempDir()
			s, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: spool})
			require.NoError(t, err)
			step := prepareStep(t, s, row.step)

			bucket.FailOn(row.op, row.fault)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if row.fault == buckettest.Hangs {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			}
			defer cancel()
			err = step(ctx)
			require.Equal(t, row.fails, err != nil, "%v", err)
			require.Contains(t, bucket.Calls(), row.op, "the fault was met")
			switch {
			case row.fault == buckettest.Hangs:
				require.ErrorIs(t, err, context.DeadlineExceeded)
			case row.fails:
				require.ErrorIs(t, err, buckettest.ErrFault)
			}
			require.NotErrorIs(t, err, blobstore.ErrNotFound, "a fault is not an answer")
			require.NotErrorIs(t, err, blobstore.ErrCorrupt, "a fault says nothing about the bytes")
			bucket.Heal()
			require.Equal(t, row.after, places(t, s))
			requireEmptyDir(t, spool)

			require.NoError(t, step(t.Context()))
			require.Equal(t, row.again, places(t, s))
			if strings.Contains(row.again, "objects") {
				require.Equal(t, faultBody, readAll(t, s, faultCID))
			}
		})
	}
}

var (
	faultBody = "hello world"
	faultCID  = cid.MustParse(helloCID)
)

// prepareStep brings the store to where a step begins and answers the step.
func prepareStep(t *testing.T, s *blobstore.Store, name string) func(context.Context) error {
	t.Helper()
	upload := func(ctx context.Context) error {
		_, err := s.Receive(ctx, strings.NewReader(faultBody), "")
		return err
	}
	do := func(steps ...func(context.Context) error) {
		for _, step := range steps {
			require.NoError(t, step(t.Context()))
		}
	}
	on := func(step func(context.Context, cid.Cid) error) func(context.Context) error {
		return func(ctx context.Context) error { return step(ctx, faultCID) }
	}
	switch name {
	case "upload":
		return upload
	case "upload again":
		do(upload)
		return upload
	case "upload of trash":
		do(upload, on(s.Trash))
		return upload
	case "trash":
		do(upload)
		return on(s.Trash)
	case "restore":
		do(upload, on(s.Trash))
		return on(s.Restore)
	case "restore after an upload":
		do(upload, on(s.Trash), upload)
		return on(s.Restore)
	case "discard":
		do(upload, on(s.Trash))
		return func(ctx context.Context) error { return s.Discard(ctx, blobstore.Trash, faultCID) }
	case "isolate":
		do(upload)
		return on(s.Isolate)
	case "repair":
		do(upload, on(s.Isolate))
		backup, err := blobstore.New(blobstore.Config{Bucket: blobstore.NewMemory(), SpoolDir: t.TempDir()})
		require.NoError(t, err)
		receive(t, backup, faultBody)
		return func(ctx context.Context) error { return s.Repair(ctx, faultCID, backup, always) }
	case "read":
		do(upload)
		return func(ctx context.Context) error {
			r, err := s.Open(ctx, faultCID)
			if err != nil {
				return err
			}
			defer r.Close()
			got, err := io.ReadAll(r)
			if err == nil && !bytes.Equal(got, []byte(faultBody)) {
				t.Errorf("read %q", got)
			}
			return err
		}
	case "verify":
		do(upload)
		return on(s.Verify)
	case "walk":
		do(upload)
		return func(ctx context.Context) error {
			return s.Walk(ctx, "", func(blobstore.Entry) error { return nil })
		}
	}
	t.Fatalf("no step %q", name)
	return nil
}

// places are where the blob is, in words.
func places(t *testing.T, s *blobstore.Store) string {
	t.Helper()
	var found []string
	for _, p := range []blobstore.Place{blobstore.Live, blobstore.Trash, blobstore.Quarantine} {
		if slices.Contains(in(t, s, p), helloCID) {
			found = append(found, p.String())
		}
	}
	return strings.Join(found, " ")
}
