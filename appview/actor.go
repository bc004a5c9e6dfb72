package appview

import (
	"context"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
)

// actorView is garden.herbarium.defs#actorView.
type actorView struct {
	DID    syntax.DID    `json:"did"`
	Handle syntax.Handle `json:"handle,omitempty"`
}

// name is how a person reads an actor: the handle, else the DID.
func (a actorView) name() string {
	if a.Handle != "" {
		return "@" + string(a.Handle)
	}
	return string(a.DID)
}

// actors are the identities that a view names, as they were last verified.
type actors map[syntax.DID]index.Repo

func (a actors) view(did syntax.DID) actorView {
	return actorView{DID: did, Handle: a[did].Handle}
}

// of is the view of the repo that holds uri.
func (a actors) of(uri syntax.ATURI) actorView { return a.view(didOf(uri)) }

// didOf is the authority of a record's URI, which lexicons.ParseRecordURI
// made sure is a DID.
func didOf(uri syntax.ATURI) syntax.DID {
	authority, _, _ := strings.Cut(strings.TrimPrefix(string(uri), "at://"), "/")
	return syntax.DID(authority)
}

// actors looks identities up, in one query for every thousand.
func (a *Appview) actors(ctx context.Context, dids []syntax.DID) (actors, error) {
	found := actors{}
	for part := range batches(dids) {
		repos, err := a.index.Repos(ctx, part)
		if err != nil {
			return nil, err
		}
		for did, repo := range repos {
			found[did] = repo
		}
	}
	return found, nil
}
