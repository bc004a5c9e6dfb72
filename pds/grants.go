package pds

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/repostore"
)

// The checks below are what a method that is registered with
// xrpc.JudgesGrants asks of a scoped credential. One without a scope passes
// them all: its kind was judged elsewhere.

// beyondScope is the refusal of what no permission of a credential names;
// permission is one that would.
func beyondScope(what, permission string) error {
	return xrpc.Errorf(http.StatusForbidden, "Forbidden", "the scope of the credential does not reach %s; use one with %s", what, permission)
}

// recordActions are the actions of the grammar that a write takes. A put may
// create or update, so it takes both, as at the reference host.
func recordActions(action lexicons.Action) []string {
	switch action {
	case repostore.Put:
		return []string{"create", "update"}
	default:
		return []string{string(action)}
	}
}

// mayChange judges writes to the viewer's own repo.
func mayChange(v xrpc.Viewer, collection syntax.NSID, action lexicons.Action) error {
	if v.Grants == nil {
		return nil
	}
	for _, needed := range recordActions(action) {
		if !v.Grants.Repo(collection, needed) {
			return beyondScope("to "+needed+" "+string(collection), "repo:"+string(collection)+"?action="+strings.Join(recordActions(action), "&action="))
		}
	}
	return nil
}

// mayDeleteAlong judges the deletes that belong into one commit with a create.
func mayDeleteAlong(v xrpc.Viewer, deletes []repostore.Write) error {
	if v.Grants == nil || !slices.ContainsFunc(deletes, func(w repostore.Write) bool { return !v.Grants.Repo(w.Collection, string(lexicons.Delete)) }) {
		return nil
	}
	path := string(deletes[0].Collection)
	return beyondScope("to delete the record about the same subject, at rkey "+string(deletes[0].RecordKey)+", that this one replaces",
		"repo:"+path+"?action=create&action=delete")
}

// mayUpload judges a media type, as declared or as found.
func mayUpload(v xrpc.Viewer, mediaType string) error {
	if v.Grants == nil || v.Grants.Blob(mediaType) {
		return nil
	}
	bare, _, _ := strings.Cut(mediaType, ";")
	return beyondScope("blobs of type "+strings.TrimSpace(bare), "blob:"+strings.TrimSpace(bare))
}

// mayAsk judges a call of another service in the viewer's name. audience is
// the service with its fragment; method "" stands for every one.
func mayAsk(v xrpc.Viewer, method syntax.NSID, audience string) error {
	if method == "" {
		method = "*"
	}
	if v.Grants == nil || v.Grants.RPC(method, audience) {
		return nil
	}
	return beyondScope(string(method)+" of "+audience, "rpc:"+string(method)+"?aud="+url.QueryEscape(audience))
}

// mayReadRepo judges the reading of a repo: its own a scoped credential reads
// anyway, another one only where an rpc: names the method.
func (p *PDS) mayReadRepo(v xrpc.Viewer, method syntax.NSID, own bool) error {
	if v.Grants == nil || own {
		return nil
	}
	audience := string(p.cfg.ServiceDID) + "#" + pdsService
	if v.Grants.RPC(method, audience) {
		return nil
	}
	return beyondScope("the repos of others", "rpc:"+string(method)+"?aud="+url.QueryEscape(audience))
}

// mayManageRepo judges what replaces a whole repo.
func mayManageRepo(v xrpc.Viewer) error {
	if v.Grants == nil {
		return fullAccess(v)
	}
	if !v.Grants.Account("repo", "manage") {
		return beyondScope("the repo as a whole", "account:repo?action=manage")
	}
	return notTakenDown(v)
}

// mayRename judges a change of handle.
func mayRename(v xrpc.Viewer) error {
	if v.Grants == nil || v.Grants.Identity("handle") {
		return nil
	}
	return beyondScope("the handle", "identity:handle")
}

// ownsIdentity judges what takes the identity itself elsewhere: the main
// password, or a scope that names all of it.
func ownsIdentity(v xrpc.Viewer) error {
	if v.Grants == nil {
		return fullAccess(v)
	}
	if !v.Grants.Identity("*") {
		return beyondScope("the identity", "identity:*")
	}
	return notTakenDown(v)
}

// unscoped refuses a scoped credential what no permission is made for.
func unscoped(v xrpc.Viewer) error {
	if v.Grants == nil {
		return nil
	}
	return xrpc.Errorf(http.StatusForbidden, "Forbidden", "no scope reaches the account's credentials; sign in with the main password")
}
