package blobstore

import (
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
	_, err := b.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key)})
	return err
}
