package blobstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
)

// Each step of a blob's life over a real server, with each fault of the way there
// once (the driver gets over it, unless it hangs or an answer in XML is cut, which
// the SDK takes for final) and without end (the caller is told, in time). Either way nothing that was acknowledged is lost, and the step
// can be made again.
func TestS3FaultsOnTheWay(t *testing.T) {
	t.Parallel()
	spec := s3test.StartServer(t)
	var opened atomic.Int64
	for _, name := range s3test.Faults() {
		for _, step := range []struct{ name, before, after string }{
			{"upload", "", "objects"},
			{"upload of trash", "trash", "objects trash"},
			{"trash", "objects", "trash"},
			{"restore", "trash", "objects"},
			{"restore after an upload", "objects trash", "objects"},
			{"discard", "trash", ""},
			{"isolate", "objects", "quarantine"},
			{"repair", "quarantine", "objects quarantine"},
			{"read", "objects", "objects"},
			{"verify", "objects", "objects"},
			{"walk", "objects", "objects"},
		} {
			for _, times := range []int{1, 1 << 40} {
				how := map[int]string{1: "once", 1 << 40: "without end"}[times]
				final := name == s3test.Hangs || name == s3test.CutAnswer
				t.Run(fmt.Sprintf("%s/%s/%s", name, step.name, how), func(t *testing.T) {
					t.Parallel()
					way := s3test.StartProxy(t, spec)
					own := strings.Replace(way.Spec, "/test?", fmt.Sprintf("/test/%d?", opened.Add(1)), 1)
					bucket, err := blobstore.OpenBucket(t.Context(), own)
					require.NoError(t, err)
					spool := t.TempDir()
					s, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: spool})
					require.NoError(t, err)
					do := prepareStep(t, s, step.name)
					require.Equal(t, step.before, places(t, s))

					way.Spoil(name, 0, times)
					endless := times > 1
					limit := 20 * time.Second
					if endless || name == s3test.Hangs {
						limit = 300 * time.Millisecond
					}
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					err = do(ctx)
					way.Heal()
					switch got := places(t, s); {
					case err == nil:
						require.Equal(t, step.after, got, "acknowledged")
					case !endless && !final:
						require.NoError(t, err, "once is got over")
					default:
						require.NotErrorIs(t, err, blobstore.ErrNotFound, "a fault is not an answer")
						require.NotErrorIs(t, err, blobstore.ErrCorrupt, "a fault says nothing about the bytes")
						if step.before != "" && step.after != "" {
							require.NotEmpty(t, got, "lost")
						}
					}
					requireEmptyDir(t, spool)
					require.NoError(t, do(t.Context()), "again")
					require.Equal(t, step.after, places(t, s))
				})
			}
		}
	}
}
