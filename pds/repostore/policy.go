package repostore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// Policy is what a repo may be made to hold. The zero Policy restricts nothing.
// What breaks it is a *lexicons.Refused: PolicyDenied, or QuotaExceeded with
// what is left. A quota refuses what makes a repo larger, so one that is over
// it can always be made smaller.
type Policy struct {
	Collections  []syntax.NSID // whose records may be written or deleted; nil: all
	CreateOnly   []syntax.NSID // in which no record is updated or deleted
	MaxRecords   *int64
	MaxBlobBytes *int64 // of all uploads together, referenced or not
}

// Usage is what a repo holds, as its quotas count it.
type Usage struct {
	Records   int64
	Blobs     int64 // uploaded ones, referenced or not
	BlobBytes int64
}

// Usage answers what the repo of did holds; ErrRepoNotFound. It is one row.
func (s *Store) Usage(ctx context.Context, did syntax.DID) (Usage, error) {
	return reader{s.db.Read}.usage(ctx, did)
}

func (r reader) usage(ctx context.Context, did syntax.DID) (u Usage, err error) {
	found, err := one(r.db.WithContext(ctx), "SELECT record_count, blob_count, blob_bytes FROM repos WHERE did = ?",
		[]any{string(did)}, &u.Records, &u.Blobs, &u.BlobBytes)
	if err != nil {
		return Usage{}, fmt.Errorf("read usage of %s: %w", did, err)
	}
	if !found {
		return Usage{}, fmt.Errorf("%w: %s", ErrRepoNotFound, did)
	}
	return u, nil
}

// mostNamedCollections bounds the collections that a refusal names.
const mostNamedCollections = 20

// checkCollection refuses a collection that may not be written; nil when it may.
func (p Policy) checkCollection(collection syntax.NSID) *lexicons.Finding {
	if p.Collections == nil || slices.Contains(p.Collections, collection) {
		return nil
	}
	f := denied(lexicons.CodeCollectionDenied, "this account may not write records of "+string(collection))
	switch names := p.Collections; {
	case len(names) == 0:
		f.Repair = "allowed none; ask the operator"
	case len(names) > mostNamedCollections:
		f.Repair = fmt.Sprintf("allowed %s and %d more", join(names[:mostNamedCollections]), len(names)-mostNamedCollections)
	default:
		f.Repair = "allowed " + join(names)
	}
	return f
}

// checkChange refuses to update or delete a record of a create-only
// collection; nil when that is allowed.
func (p Policy) checkChange(action lexicons.Action, uri syntax.ATURI) *lexicons.Finding {
	if action == lexicons.Create || !slices.Contains(p.CreateOnly, uri.Collection()) {
		return nil
	}
	f := denied(lexicons.CodeCreateOnly, fmt.Sprintf("%s is create-only for this account, and %s would be %sd", uri.Collection(), uri, action))
	f.Repair = "leave it as it is, and create a record under another key"
	return f
}

// checkRecords refuses what takes a repo from had to a larger number of
// records than it may hold.
func (p Policy) checkRecords(had, has int64) error {
	if p.MaxRecords == nil || has <= had || has <= *p.MaxRecords {
		return nil
	}
	return overQuota(lexicons.CodeRecordQuota, "records", has-had, had, *p.MaxRecords, "delete some")
}

// checkBlob refuses size more bytes of blobs on top of those that a repo has.
func (p Policy) checkBlob(had, size int64) error {
	if p.MaxBlobBytes == nil || had <= *p.MaxBlobBytes-size {
		return nil
	}
	return overQuota(lexicons.CodeBlobQuota, "bytes of blobs", size, had, *p.MaxBlobBytes, "send fewer")
}

func denied(code, message string) *lexicons.Finding {
	return &lexicons.Finding{Code: code, Severity: lexicons.Violation, Message: message, Refusal: lexicons.RefusalPolicyDenied}
}

func overQuota(code, what string, more, had, limit int64, remedy string) error {
	return &lexicons.Refused{Findings: []lexicons.Finding{{
		Code: code, Severity: lexicons.Violation, Refusal: lexicons.RefusalQuotaExceeded,
		Message: fmt.Sprintf("this adds %d %s, and the account has %d of at most %d; %s, or ask the operator for more", more, what, had, limit, remedy),
		Repair:  fmt.Sprintf("left %d", max(0, limit-had)),
	}}}
}

func join(names []syntax.NSID) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return strings.Join(all, " ")
}

// CheckBlob tells early what AddBlob would say to an upload just now: before
// its bytes are kept.
func (s *Store) CheckBlob(ctx context.Context, did syntax.DID, c cid.Cid, size int64, policy Policy) error {
	if policy.MaxBlobBytes == nil {
		return nil
	}
	var known bool
	var had int64
	found, err := one(s.db.Read.WithContext(ctx), `SELECT blob_bytes, EXISTS (SELECT 1 FROM blobs b WHERE b.repo_id = repos.id AND b.cid = ?)
		FROM repos WHERE did = ?`, []any{c.Bytes(), string(did)}, &had, &known)
	if err != nil {
		return fmt.Errorf("check quota of %s: %w", did, err)
	}
	if !found {
		return fmt.Errorf("%w: %s", ErrRepoNotFound, did)
	}
	if known {
		return nil
	}
	return policy.checkBlob(had, size)
}
