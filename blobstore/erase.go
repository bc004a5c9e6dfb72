package blobstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/ipfs/go-cid"
)

// VersionKeeper is what a Bucket offers in addition when an object that was
// replaced or deleted can stay behind as a version.
type VersionKeeper interface {
	// Versions lists the ids of the versions of a key, those that only mark a
	// deletion included; none for a bucket that keeps none.
	Versions(ctx context.Context, key string) ([]string, error)
	// DeleteVersion removes one for good; one that is gone is no error.
	DeleteVersion(ctx context.Context, key, id string) error
}

// LeftoverKeeper is what a Bucket offers in addition when an upload that was cut
// off can stay behind under no key.
type LeftoverKeeper interface {
	// DropLeftovers removes what uploads of a key have begun and not ended, and
	// what an upload of any key left behind more than an hour ago, where it cannot
	// be told of which it was. It answers how many it removed.
	DropLeftovers(ctx context.Context, key string) (int, error)
}

// Erased is what Erase removed of one blob.
type Erased struct {
	Objects   int // keys under which it was found
	Versions  int // versions and deletion marks, of a bucket that keeps them
	Leftovers int // of uploads that were cut off, of this blob or, in a directory, of any
}

// Erase removes a blob from every place for good, with all the versions that
// the bucket keeps of it and what uploads that were cut off have left, in the
// bucket and in the spool: for a purge, which asks nobody. It can be repeated.
func (s *Store) Erase(ctx context.Context, c cid.Cid) (did Erased, err error) {
	s.good.forget(c)
	if did.Leftovers, err = removeStale(s.spool, time.Now().Add(-tempAge)); err != nil {
		return did, fmt.Errorf("erase blob %s from the spool: %w", c, err)
	}
	if key, ok := Live.keyOf(c); ok {
		if keeper, ok := s.bucket.(LeftoverKeeper); ok {
			dropped, err := keeper.DropLeftovers(ctx, key)
			if err != nil {
				return did, fmt.Errorf("erase leftovers of blob %s: %w", c, err)
			}
			did.Leftovers += dropped
		}
	}
	for _, place := range places {
		key, ok := place.keyOf(c)
		if !ok {
			return did, nil
		}
		switch _, err := s.bucket.Stat(ctx, key); {
		case err == nil:
			did.Objects++
		case !errors.Is(err, ErrNotFound):
			return did, fmt.Errorf("erase blob %s from %s: %w", c, place, err)
		}
		if err := s.bucket.Delete(ctx, key); err != nil {
			return did, fmt.Errorf("erase blob %s from %s: %w", c, place, err)
		}
		keeper, ok := s.bucket.(VersionKeeper)
		if !ok {
			continue
		}
		versions, err := keeper.Versions(ctx, key)
		if err != nil {
			return did, fmt.Errorf("erase versions of blob %s in %s: %w", c, place, err)
		}
		for _, id := range versions {
			if err := keeper.DeleteVersion(ctx, key, id); err != nil {
				return did, fmt.Errorf("erase version of blob %s in %s: %w", c, place, err)
			}
			did.Versions++
		}
	}
	return did, nil
}

// places are all of them.
var places = []Place{Live, Trash, Quarantine}

// Remains lists the bucket again for what is there of a blob: keys, and versions
// of them as key@version. After Erase it answers none.
func (s *Store) Remains(ctx context.Context, c cid.Cid) (found []string, err error) {
	for _, place := range places {
		key, ok := place.keyOf(c)
		if !ok {
			return nil, nil
		}
		err := s.bucket.List(ctx, key, "", func(at Object) error {
			found = append(found, at.Key)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for blob %s in %s: %w", c, place, err)
		}
		if keeper, ok := s.bucket.(VersionKeeper); ok {
			versions, err := keeper.Versions(ctx, key)
			if err != nil {
				return nil, fmt.Errorf("look for versions of blob %s in %s: %w", c, place, err)
			}
			for _, id := range versions {
				found = append(found, key+"@"+id)
			}
		}
	}
	return found, nil
}

// Versions implements VersionKeeper. A server that knows of no versions keeps none.
func (b *S3) Versions(ctx context.Context, key string) (ids []string, err error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	full := b.prefix + key
	status, err := b.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: aws.String(b.bucket)})
	if unversioned(err) || err == nil && status.Status == "" {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask whether the bucket keeps versions: %w", err)
	}
	pages := s3.NewListObjectVersionsPaginator(b.client, &s3.ListObjectVersionsInput{Bucket: aws.String(b.bucket), Prefix: aws.String(full)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list versions of %s: %w", key, err)
		}
		for _, v := range page.Versions {
			if aws.ToString(v.Key) == full {
				ids = append(ids, aws.ToString(v.VersionId))
			}
		}
		for _, m := range page.DeleteMarkers {
			if aws.ToString(m.Key) == full {
				ids = append(ids, aws.ToString(m.VersionId))
			}
		}
	}
	return ids, nil
}

// DeleteVersion implements VersionKeeper.
func (b *S3) DeleteVersion(ctx context.Context, key, id string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket: aws.String(b.bucket), Key: aws.String(b.prefix + key), VersionId: aws.String(id),
	})
	if err = classify(err); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("delete version of %s: %w", key, err)
	}
	return nil
}

// DropLeftovers implements LeftoverKeeper.
func (b *S3) DropLeftovers(ctx context.Context, key string) (int, error) {
	if err := CheckKey(key); err != nil {
		return 0, err
	}
	return b.abortUploads(ctx, b.prefix+key, func(u types.MultipartUpload) bool { return aws.ToString(u.Key) == b.prefix+key })
}

// DropLeftovers implements LeftoverKeeper.
func (d *Dir) DropLeftovers(context.Context, string) (int, error) {
	return removeStale(d.root, time.Now().Add(-tempAge))
}

// unversioned tells a server that has no versions from one that may not be asked:
// where they cannot be seen, a purge must not say that there are none.
func unversioned(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "NotImplemented" || api.ErrorCode() == "VersioningNotConfigured" || api.ErrorCode() == "NoSuchVersion")
}
