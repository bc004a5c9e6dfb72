package blobstore

import (
	"bytes"
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// DecideType is for the fuzz target, which would be slow through Receive.
var DecideType = decideType

// SendInParts makes a bucket send what is larger than above in parts of the given
// size, of which S3 wants 5 MiB at least.
func (b *S3) SendInParts(above, part int64) { b.multipartAbove, b.partSize = above, part }

// BeginUpload leaves an upload in parts behind, as a crash does.
func (b *S3) BeginUpload(ctx context.Context, key string) error {
	_, err := b.beginUpload(ctx, key)
	return err
}

// BreakUpload is BeginUpload behind the first part.
func (b *S3) BreakUpload(ctx context.Context, key string, part []byte) error {
	upload, err := b.beginUpload(ctx, key)
	if err != nil {
		return err
	}
	_, err = b.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key), UploadId: upload.UploadId,
		PartNumber: aws.Int32(1), Body: bytes.NewReader(part),
	})
	return err
}

func (b *S3) beginUpload(ctx context.Context, key string) (*s3.CreateMultipartUploadOutput, error) {
	return b.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key)})
}
