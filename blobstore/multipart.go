package blobstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	tmtypes "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// Objects above multipartAbove are sent to S3 in parts, so that a connection
// that breaks costs a part and not the whole. A part is held in memory while it
// is sent: partsAtOnce of each upload, one more being read, of at most
// multipartsAtOnce uploads.
const (
	multipartAbove   = 256 << 20
	partSize         = 16 << 20
	partsAtOnce      = 2
	multipartsAtOnce = 2
	// abortTimeout bounds the request that gives up a failed upload's parts: it is
	// made even when the caller's context has ended.
	abortTimeout = 30 * time.Second
)

// putParts is Put in parts. S3 has no SHA-256 over all parts of an object: the
// server verifies each part's, and what went into the parts is held against the
// digest before the last is sent; otherwise the upload is aborted.
func (b *S3) putParts(ctx context.Context, key string, r io.Reader, size int64, digest [32]byte) error {
	select {
	case b.multiparts <- struct{}{}:
		defer func() { <-b.multiparts }()
	case <-ctx.Done():
		return ctx.Err()
	}
	uploads := transfermanager.New(b.client, func(o *transfermanager.Options) {
		o.PartSizeBytes, o.MultipartUploadThreshold = b.partSize, b.partSize
		o.Concurrency = partsAtOnce
		o.ChecksumAlgorithm = tmtypes.ChecksumAlgorithmSha256
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.FailTimeout = abortTimeout
	})
	_, err := uploads.UploadObject(ctx, &transfermanager.UploadObjectInput{
		Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key),
		Body:          &digestReader{r: r, hash: sha256.New(), left: size, want: digest},
		ContentLength: aws.Int64(size),
	})
	if err != nil {
		return classify(err)
	}
	// The server has put the parts together; that it has all of them shows in the size.
	at, err := b.Stat(ctx, key)
	if err == nil && at.Size != size {
		err = fmt.Errorf("%w: the server has %d bytes of %d", ErrCorrupt, at.Size, size)
	}
	return err
}

// digestReader fails at the end unless what was read has the size and the
// digest that it should.
type digestReader struct {
	r    io.Reader
	hash hash.Hash
	left int64
	want [32]byte
}

func (d *digestReader) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	d.hash.Write(p[:n])
	d.left -= int64(n)
	// With the last byte, not after it: a whole last part may be sent on before
	// the end is seen.
	if d.left < 0 || d.left > 0 && errors.Is(err, io.EOF) || d.left == 0 && [32]byte(d.hash.Sum(nil)) != d.want {
		return n, fmt.Errorf("%w: the source is not what its digest says", ErrCorrupt)
	}
	return n, err
}

// UploadAborter is what a Bucket offers in addition when an upload that was cut
// off by a crash can leave parts that nobody sees and somebody pays for.
type UploadAborter interface {
	// AbortUploads gives up the uploads in parts that were begun before the given
	// time, and answers how many it was.
	AbortUploads(ctx context.Context, before time.Time) (int, error)
}

// AbortUploads implements UploadAborter.
func (b *S3) AbortUploads(ctx context.Context, before time.Time) (int, error) {
	return b.abortUploads(ctx, b.prefix, func(u types.MultipartUpload) bool { return u.Initiated != nil && u.Initiated.Before(before) })
}

// abortUploads gives up the uploads in parts of keys with a prefix that are to be.
func (b *S3) abortUploads(ctx context.Context, prefix string, which func(types.MultipartUpload) bool) (aborted int, err error) {
	pages := s3.NewListMultipartUploadsPaginator(b.client, &s3.ListMultipartUploadsInput{
		Bucket: aws.String(b.bucket), Prefix: aws.String(prefix),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return aborted, fmt.Errorf("list uploads in parts: %w", err)
		}
		for _, u := range page.Uploads {
			if !which(u) {
				continue
			}
			_, err := b.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: aws.String(b.bucket), Key: u.Key, UploadId: u.UploadId})
			if err != nil && !isNoUpload(err) {
				return aborted, fmt.Errorf("abort upload of %s: %w", aws.ToString(u.Key), err)
			}
			aborted++
		}
	}
	return aborted, nil
}

// AbortUploads gives up what was begun before the given time and cut off by a
// crash, in the buckets that can keep such a thing, and answers how many it was.
// The time must be longer ago than an upload takes: a day, for one.
func (s *Store) AbortUploads(ctx context.Context, before time.Time) (int, error) {
	aborter, ok := s.bucket.(UploadAborter)
	if !ok {
		return 0, nil
	}
	return aborter.AbortUploads(ctx, before)
}
