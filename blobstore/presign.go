package blobstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/ipfs/go-cid"
)

// ErrNoURL is returned by PresignGet when the bucket has no URLs for clients.
var ErrNoURL = errors.New("blobstore: this bucket gives no URLs; serve the bytes, or keep blobs in S3")

// URLHeaders are the headers with which the store is to serve a presigned URL.
type URLHeaders struct {
	ContentType        string
	ContentDisposition string
	CacheControl       string
}

// Presigner is what a Bucket offers in addition when clients can read from it.
type Presigner interface {
	// PresignGet makes a URL from which anybody can read the object, whole or in
	// ranges, until it expires. It asks the server for nothing: whether the object
	// is there shows when the URL is used.
	PresignGet(ctx context.Context, key string, expires time.Duration, with URLHeaders) (string, error)
}

// PresignGet implements Presigner.
func (b *S3) PresignGet(ctx context.Context, key string, expires time.Duration, with URLHeaders) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	signed, err := s3.NewPresignClient(b.public).PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key),
		ResponseContentType:        aws.String(with.ContentType),
		ResponseContentDisposition: aws.String(with.ContentDisposition),
		ResponseCacheControl:       aws.String(with.CacheControl),
	}, s3.WithPresignExpires(expires))
	if err != nil {
		return "", fmt.Errorf("presign %s: %w", key, err)
	}
	return signed.URL, nil
}

// PresignGet makes a URL from which anybody who has it can read a live blob
// until it expires, at the bucket's public endpoint: the bytes then pass by this
// process. ErrNoURL when the bucket has none; it does not look whether the blob is there.
func (s *Store) PresignGet(ctx context.Context, c cid.Cid, expires time.Duration, with URLHeaders) (string, error) {
	presigner, ok := s.bucket.(Presigner)
	if !ok {
		return "", ErrNoURL
	}
	key, ok := Live.keyOf(c)
	if !ok {
		return "", fmt.Errorf("presign blob %s: %w", c, ErrNotFound)
	}
	return presigner.PresignGet(ctx, key, expires, with)
}
