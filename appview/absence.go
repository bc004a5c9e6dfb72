package appview

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

// notFound is the answer for a record that cannot be shown. It tells "was
// never there" from "nothing is known", by what the index knows of the repo;
// to a restricted viewer it is the same answer whatever the reason.
func (a *Appview) notFound(ctx context.Context, v index.Viewer, uri syntax.ATURI) error {
	if v.Restricted() {
		return recordNotFound("not-published", fmt.Sprintf("not-published: no published record stands at %s", uri))
	}
	if v.Past() {
		return recordNotFound("not-witnessed", fmt.Sprintf("not-witnessed: at %s the index knew of no record at %s; leave asOf out for what it knows now", datetime(v.Moment), uri))
	}
	did, err := uri.Authority().AsDID()
	if err != nil {
		return xrpc.InvalidRequest("uri: %v", err)
	}
	repo, err := a.index.Repo(ctx, did)
	if err != nil && !errors.Is(err, index.ErrNotFound) {
		return err
	}
	// As the operator, only to name the reason: what fails its lexicon is shown
	// to nobody else, but it is there.
	record, err := a.index.Record(ctx, index.Viewer{Admin: true}, uri)
	if err != nil && !errors.Is(err, index.ErrNotFound) {
		return err
	}
	return recordNotFound(absence(uri, repo, record))
}

func recordNotFound(code, message string) error {
	return &xrpc.Error{
		Status:   http.StatusBadRequest, // as the reference answers RecordNotFound
		Name:     "RecordNotFound",
		Message:  message,
		Findings: []lexicons.Finding{{Code: code, Severity: lexicons.Info, Message: message}},
	}
}

// absence says why a record cannot be shown; repo is nil when its DID is
// unknown, record when the index holds none.
func absence(uri syntax.ATURI, repo *index.Repo, record *index.Record) (code, message string) {
	switch {
	case repo == nil:
		return "not-indexed", fmt.Sprintf("not-indexed: this index does not follow %s, so nothing is known of %s", uri.Authority(), uri)
	case !repo.Active:
		return "repo-inactive", fmt.Sprintf("repo-inactive: the account %s is not active (%s); its records are not shown", repo.DID, repo.Status)
	case record != nil && record.TakenDown:
		return "taken-down", fmt.Sprintf("taken-down: the operator of this host has taken %s down", uri)
	case record != nil && record.State == index.StateQuarantined:
		return "quarantined", fmt.Sprintf("quarantined: %s fails its lexicon and is in no view; what is wrong with it is for the operator to see", uri)
	case repo.Sync != index.SyncSynced:
		return "not-indexed", fmt.Sprintf("not-indexed: the repo %s is %s here, so %s may exist", repo.DID, repo.Sync, uri)
	default:
		return "missing", fmt.Sprintf("missing: the repo %s is indexed up to rev %s and shows no record at %s", repo.DID, repo.Rev, uri)
	}
}

// tombstone is what is left of the record at uri; the answer to the client
// when nothing is.
func (a *Appview) tombstone(ctx context.Context, v index.Viewer, uri syntax.ATURI) (*index.Record, actors, error) {
	record, err := a.index.Record(ctx, v, uri)
	if err != nil && !errors.Is(err, index.ErrNotFound) {
		return nil, nil, err
	}
	if record == nil || record.State != index.StateDeleted {
		return nil, nil, a.notFound(ctx, v, uri)
	}
	who, err := a.actors(ctx, []syntax.DID{record.DID})
	return record, who, err
}
