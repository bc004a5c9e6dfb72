package blobstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Probe is what a bucket was found to do. That it is there, takes an object,
// gives it back and deletes it is not in here: without that, probing is an error.
type Probe struct {
	Kind   string        // "dir", "memory" or "s3"
	Where  string        // of the bucket, without credentials
	Took   time.Duration // of the whole probe
	Ranges bool          // a part of an object can be read
	// Checksums: an object that is not what its SHA-256 says is refused. Without
	// it, damage on the way to the server is found by fsck and the scrubber only.
	Checksums bool
	// ConditionalWrites: a put that is to replace nothing is refused when there is
	// something (If-None-Match). Nothing here depends on it.
	ConditionalWrites bool
	PathStyle         bool // the bucket is named in the path; s3 only
	// Versioned: deleted objects stay behind as versions. A purge removes those too;
	// whoever may read the bucket sees them until then. s3 only.
	Versioned bool
}

// LogValue implements slog.LogValuer.
func (p Probe) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("kind", p.Kind), slog.String("where", p.Where), slog.Duration("took", p.Took),
		slog.Bool("ranges", p.Ranges), slog.Bool("checksums", p.Checksums), slog.Bool("conditional_writes", p.ConditionalWrites),
	}
	if p.Kind == "s3" {
		attrs = append(attrs, slog.Bool("path_style", p.PathStyle), slog.Bool("versioned", p.Versioned))
	}
	return slog.GroupValue(attrs...)
}

// prober is a Bucket that can tell more of itself than the methods show.
type prober interface {
	probe(ctx context.Context, key string) (Probe, error)
}

// Probe tries out what the bucket does, on an object of its own that it removes.
// An error says that blobs cannot be stored there, and ends in what to do about
// it where that is known. A missing ability is no error: see Probe's fields.
func (s *Store) Probe(ctx context.Context) (Probe, error) {
	began := time.Now()
	key := "probe/" + rand.Text()
	body := []byte("probe of a bucket: " + key)
	digest := sha256.Sum256(body)
	if err := s.bucket.Put(ctx, key, bytes.NewReader(body), int64(len(body)), digest); err != nil {
		return Probe{}, fmt.Errorf("probe bucket: %w%s", err, repairOf(err))
	}
	found, err := s.probe(ctx, key, body)
	// Whatever came of it, and even when ctx has ended meanwhile.
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if deleted := s.bucket.Delete(cleaning, key); deleted != nil && err == nil {
		err = deleted
	}
	if err != nil {
		return Probe{}, fmt.Errorf("probe bucket: %w", err)
	}
	found.Took = time.Since(began)
	return found, nil
}

func (s *Store) probe(ctx context.Context, key string, body []byte) (Probe, error) {
	if err := readBack(ctx, s.bucket, key, 0, body); err != nil {
		return Probe{}, err
	}
	ranges := readBack(ctx, s.bucket, key, 6, body[6:10])
	if ranges != nil && !errors.Is(ranges, ErrCorrupt) {
		return Probe{}, ranges
	}
	found := Probe{}
	if p, ok := s.bucket.(prober); ok {
		var err error
		if found, err = p.probe(ctx, key); err != nil {
			return Probe{}, err
		}
	}
	found.Ranges = ranges == nil
	return found, nil
}

// readBack reads a part of an object and compares it.
func readBack(ctx context.Context, b Bucket, key string, offset int64, want []byte) error {
	r, err := b.Get(ctx, key, offset, int64(len(want)))
	if err != nil {
		return err
	}
	defer r.Close()
	got, err := io.ReadAll(io.LimitReader(r, int64(len(want))+1))
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%w: it gives other bytes than were put", ErrCorrupt)
	}
	return err
}

// repairOf is what to do about a bucket that takes nothing.
func repairOf(err error) string {
	var response *smithyhttp.ResponseError
	if !errors.As(err, &response) {
		return ""
	}
	switch response.HTTPStatusCode() {
	case http.StatusForbidden, http.StatusUnauthorized:
		return "; the credentials of the AWS chain need PutObject, GetObject, DeleteObject and ListBucket there"
	case http.StatusNotFound:
		return "; make the bucket first, and try path_style=true"
	default:
		return ""
	}
}

func (d *Dir) probe(context.Context, string) (Probe, error) {
	return Probe{Kind: "dir", Where: d.root, Checksums: false, ConditionalWrites: false}, nil
}

func (m *Memory) probe(context.Context, string) (Probe, error) { return Probe{Kind: "memory"}, nil }

func (b *S3) probe(ctx context.Context, key string) (Probe, error) {
	found := Probe{Kind: "s3", Where: "s3://" + b.bucket + "/" + b.prefix, PathStyle: b.client.Options().UsePathStyle}
	wrong := sha256.Sum256([]byte("other bytes"))
	switch err := b.Put(ctx, key, bytes.NewReader([]byte("these")), 5, wrong); {
	case errors.Is(err, ErrCorrupt):
		found.Checksums = true
	case err != nil:
		return Probe{}, err
	}
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key), Body: bytes.NewReader(nil), IfNoneMatch: aws.String("*"),
	})
	var response *smithyhttp.ResponseError
	// Some servers answer that they do not know the header: 501.
	if errors.As(err, &response) {
		found.ConditionalWrites = response.HTTPStatusCode() == http.StatusPreconditionFailed
	} else if err != nil {
		return Probe{}, err
	}
	// Who may not ask, or whose server does not know, is told "no".
	versioning, err := b.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: aws.String(b.bucket)})
	if err == nil {
		found.Versioned = versioning.Status != ""
	} else if ctx.Err() != nil {
		return Probe{}, ctx.Err()
	}
	return found, nil
}

// isNoUpload says that an upload in parts has ended meanwhile.
func isNoUpload(err error) bool {
	var gone *types.NoSuchUpload
	return errors.As(err, &gone)
}
