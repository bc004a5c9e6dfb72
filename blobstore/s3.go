package blobstore

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// s3Attempts is S3Config.Attempts when that is 0.
const s3Attempts = 5

// S3Config names a bucket of an S3-compatible store.
type S3Config struct {
	Bucket    string // required
	Prefix    string // before every key; without slashes around it; may be empty
	Endpoint  string // http or https URL; empty for AWS
	Region    string // empty for the AWS chain's, or us-east-1 with an Endpoint
	PathStyle bool   // the bucket in the path of the URL, as most servers other than AWS want
	// PublicEndpoint is the http or https URL under which clients reach the same
	// store, for the URLs of PresignGet; empty when that is Endpoint.
	PublicEndpoint string
	// Attempts is how often a request is sent before its failure is reported; 0
	// means 5: connection errors, 5xx and throttling are tried again, with growing
	// pauses.
	Attempts int
}

// S3 is a Bucket in an S3-compatible store. A Put of up to 256 MiB is one request
// with the SHA-256 in the signed header x-amz-checksum-sha256, so that the server
// compares it with what arrived; whether it did shows in its answer, which is
// compared too. What is larger goes in parts: see putParts.
type S3 struct {
	client *s3.Client
	public *s3.Client // signs URLs for PublicEndpoint
	bucket string
	prefix string // "" or ending in a slash

	multipartAbove, partSize int64 // bytes
	multiparts               chan struct{}
}

// OpenS3 makes the client. It takes credentials from the AWS chain and asks the
// store for nothing: Store.Ready does.
func OpenS3(ctx context.Context, c S3Config) (*S3, error) {
	if c.Bucket == "" {
		return nil, errors.New("blobstore: an s3 bucket needs a name: s3://BUCKET")
	}
	prefix := ""
	if c.Prefix != "" {
		if err := CheckKey(c.Prefix); err != nil {
			return nil, fmt.Errorf("prefix of s3://%s: %w", c.Bucket, err)
		}
		prefix = c.Prefix + "/"
	}
	for name, endpoint := range map[string]string{"endpoint": c.Endpoint, "public_endpoint": c.PublicEndpoint} {
		u, err := url.Parse(endpoint)
		if endpoint != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("blobstore: %s of s3://%s is no http URL: %q", name, c.Bucket, endpoint)
		}
	}
	if c.Attempts == 0 {
		c.Attempts = s3Attempts
	}
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithRetryMaxAttempts(c.Attempts)}
	if c.Region != "" {
		options = append(options, awsconfig.WithRegion(c.Region))
	}
	sdk, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("configure s3://%s: %w", c.Bucket, err)
	}
	if sdk.Region == "" {
		if c.Endpoint == "" {
			return nil, fmt.Errorf("blobstore: s3://%s needs a region: ?region=NAME or AWS_REGION", c.Bucket)
		}
		sdk.Region = "us-east-1" // what servers that have no regions expect in a signature
	}
	client := s3.NewFromConfig(sdk, func(o *s3.Options) {
		o.UsePathStyle = c.PathStyle
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
		// Put names its checksum itself; nothing else may add trailers, which some
		// servers reject. What is read is verified by whoever has the CID.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	public := client
	if c.PublicEndpoint != "" {
		public = s3.New(client.Options(), func(o *s3.Options) { o.BaseEndpoint = aws.String(c.PublicEndpoint) })
	}
	return &S3{
		client: client, public: public, bucket: c.Bucket, prefix: prefix,
		multipartAbove: multipartAbove, partSize: partSize, multiparts: make(chan struct{}, multipartsAtOnce),
	}, nil
}

// Put implements Bucket.
func (b *S3) Put(ctx context.Context, key string, r io.ReadSeeker, size int64, sha256 [32]byte) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if end, err := r.Seek(0, io.SeekEnd); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	} else if end != size {
		return fmt.Errorf("put %s: %w: source has %d bytes, not %d", key, ErrCorrupt, end, size)
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	if size > b.multipartAbove {
		if err := b.putParts(ctx, key, r, size, sha256); err != nil {
			return fmt.Errorf("put %s in parts: %w", key, err)
		}
		return nil
	}
	checksum := base64.StdEncoding.EncodeToString(sha256[:])
	// The digest is known: the signer need not read the body to hash it again.
	out, err := b.client.PutObject(v4.SetPayloadHash(ctx, hex.EncodeToString(sha256[:])), &s3.PutObjectInput{
		Bucket:            aws.String(b.bucket),
		Key:               aws.String(b.prefix + key),
		Body:              r,
		ContentLength:     aws.Int64(size),
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
		ChecksumSHA256:    aws.String(checksum),
	})
	if err != nil {
		return fmt.Errorf("put %s: %w", key, classify(err))
	}
	// A server that knows nothing of checksums answers none. One that answers
	// another has other bytes.
	if got := aws.ToString(out.ChecksumSHA256); got != "" && got != checksum {
		return fmt.Errorf("put %s: %w: the server's checksum is %s, not %s", key, ErrCorrupt, got, checksum)
	}
	return nil
}

// Get implements Bucket.
func (b *S3) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	if offset < 0 || length == 0 {
		return b.getNothing(ctx, key, offset)
	}
	in := &s3.GetObjectInput{Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key)}
	switch {
	case length > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+length-1))
	case offset > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", offset))
	}
	out, err := b.client.GetObject(ctx, in)
	if err != nil {
		err = classify(err)
		if errors.Is(err, ErrRange) && offset == 0 {
			return b.getNothing(ctx, key, 0) // no range of an empty object can be satisfied
		}
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return out.Body, nil
}

// getNothing answers a Get that needs no bytes, by the same rules as one that does.
func (b *S3) getNothing(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	at, err := b.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if _, _, err := bounds(at.Size, offset, 0); err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	return io.NopCloser(strings.NewReader("")), nil
}

// Stat implements Bucket.
func (b *S3) Stat(ctx context.Context, key string) (Object, error) {
	if err := CheckKey(key); err != nil {
		return Object{}, err
	}
	out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key),
	})
	if err != nil {
		return Object{}, fmt.Errorf("stat %s: %w", key, classify(err))
	}
	return Object{Key: key, Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified)}, nil
}

// Move implements Bucket: the server copies, then the old key is deleted. It takes
// objects up to 5 GiB, which is what servers copy in one request; no blob may be
// larger (config: BLOB_LIMIT).
func (b *S3) Move(ctx context.Context, from, to string) error {
	if err := errors.Join(CheckKey(from), CheckKey(to)); err != nil {
		return err
	}
	_, err := b.client.CopyObject(ctx, &s3.CopyObjectInput{
		Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + to),
		// Keys need no escaping in a header: see CheckKey.
		CopySource: aws.String(url.PathEscape(b.bucket) + "/" + b.prefix + from),
	})
	if err = classify(err); errors.Is(err, ErrNotFound) {
		_, err = b.Stat(ctx, to)
	}
	if err != nil {
		return fmt.Errorf("move %s: %w", from, err)
	}
	return b.Delete(ctx, from)
}

// Delete implements Bucket. In a versioned bucket it leaves a delete marker.
func (b *S3) Delete(ctx context.Context, key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key),
	})
	if err = classify(err); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// List implements Bucket. It asks for a page of up to 1,000 keys at a time.
func (b *S3) List(ctx context.Context, prefix, after string, fn func(Object) error) error {
	in := &s3.ListObjectsV2Input{Bucket: aws.String(b.bucket), Prefix: aws.String(b.prefix + prefix)}
	if after != "" {
		in.StartAfter = aws.String(b.prefix + after)
	}
	pages := s3.NewListObjectsV2Paginator(b.client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("list s3://%s/%s: %w", b.bucket, b.prefix+prefix, err)
		}
		for _, o := range page.Contents {
			key := strings.TrimPrefix(aws.ToString(o.Key), b.prefix)
			if CheckKey(key) != nil {
				continue // not ours; a "directory" that ends in a slash, for one
			}
			if err := fn(Object{Key: key, Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// classify turns the store's answers that have a meaning for a Bucket into its
// errors; the rest stays, an answer about a missing bucket included.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "NoSuchKey", "NotFound":
			return ErrNotFound
		case "InvalidRange":
			return fmt.Errorf("%w: %s", ErrRange, api.ErrorMessage())
		case "BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch":
			return fmt.Errorf("%w: the server says %s: %s", ErrCorrupt, api.ErrorCode(), api.ErrorMessage())
		}
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() == http.StatusRequestedRangeNotSatisfiable {
		return ErrRange
	}
	return err
}
