package blobstore_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"herbarium.garden/blobstore"
	"herbarium.garden/blobstore/s3test"
)

// BenchmarkBlobs is how fast blobs go in and out, beside a plain copy to the same
// disk, which is synced like an upload but neither hashed nor found again.
func BenchmarkBlobs(b *testing.B) {
	for _, size := range []int64{8 << 20, 256 << 20} {
		run := func(name string, fn func(b *testing.B)) {
			b.Run(fmt.Sprintf("%dMiB/%s", size>>20, name), func(b *testing.B) {
				b.SetBytes(size)
				fn(b)
			})
		}
		run("copy/up", func(b *testing.B) {
			for b.Loop() {
				require.NoError(b, copyToDisk(filepath.Join(b.TempDir(), "file"), size))
			}
		})
		run("copy/down", func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "file")
			require.NoError(b, copyToDisk(path, size))
			for b.Loop() {
				f, err := os.Open(path)
				require.NoError(b, err)
				_, err = io.Copy(struct{ io.Writer }{io.Discard}, f)
				require.NoError(b, err)
				require.NoError(b, f.Close())
			}
		})
		for name, spec := range map[string]func(b *testing.B) string{
			"dir": func(b *testing.B) string { return "dir:" + b.TempDir() },
			"s3":  func(b *testing.B) string { return s3test.Start(b) },
		} {
			open := func(b *testing.B) *blobstore.Store {
				bucket, err := blobstore.OpenBucket(b.Context(), spec(b))
				require.NoError(b, err)
				s, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: b.TempDir(), Limit: size})
				require.NoError(b, err)
				return s
			}
			run(name+"/up", func(b *testing.B) {
				s := open(b)
				for n := 0; b.Loop(); n++ {
					info, err := s.Receive(b.Context(), benchBody(n, size), "")
					require.NoError(b, err)
					require.NoError(b, s.Delete(b.Context(), info.CID))
				}
			})
			down := func(b *testing.B, read func(s *blobstore.Store, info blobstore.Info) (io.ReadSeekCloser, error)) {
				s := open(b)
				info, err := s.Receive(b.Context(), benchBody(0, size), "")
				require.NoError(b, err)
				for b.Loop() {
					r, err := read(s, info)
					require.NoError(b, err)
					_, err = io.Copy(struct{ io.Writer }{io.Discard}, r)
					require.NoError(b, err)
					require.NoError(b, r.Close())
				}
			}
			run(name+"/down", func(b *testing.B) {
				down(b, func(s *blobstore.Store, info blobstore.Info) (io.ReadSeekCloser, error) {
					return s.Open(b.Context(), info.CID)
				})
			})
			run(name+"/down verified", func(b *testing.B) {
				down(b, func(s *blobstore.Store, info blobstore.Info) (io.ReadSeekCloser, error) {
					return s.OpenVerified(b.Context(), info.CID, true)
				})
			})
		}
	}
}

// benchBody is a body that no other n has.
func benchBody(n int, size int64) io.Reader {
	head := fmt.Sprintf("\xc1%08d", n)
	return io.LimitReader(io.MultiReader(strings.NewReader(head), endlessZeros{}), size)
}

func copyToDisk(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(f, benchBody(0, size)); err != nil {
		return err
	}
	return f.Sync()
}
