package pds

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
)

// The two methods of an application that its user's host serves itself: they
// are answered here whatever atproto-proxy says.
const (
	getPreferencesMethod syntax.NSID = "app.bsky.actor.getPreferences"
	putPreferencesMethod syntax.NSID = "app.bsky.actor.putPreferences"
)

// preferenceNamespace is whose preferences those methods carry.
const preferenceNamespace = "app.bsky"

// personalDetails, the birth date, is for sessions of the main password alone,
// as at the reference host.
const personalDetails = "app.bsky.actor.defs#personalDetailsPref"

func (p *PDS) registerPreferences(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, getPreferencesMethod, xrpc.AccessToken, p.getPreferences),
		xrpc.Procedure(s, putPreferencesMethod, xrpc.AccessToken, p.putPreferences),
	)
}

// preferences are a list of objects with a $type.
type preferences struct {
	Preferences []json.RawMessage `json:"preferences"`
}

// concerns reports whether the caller's session sees and replaces a preference.
func concerns(v xrpc.Viewer, preference account.Preference) bool {
	return preference.Under(preferenceNamespace) && (preference.Type != personalDetails || account.Scope(v.Scope).Full())
}

func (p *PDS) getPreferences(ctx context.Context, v xrpc.Viewer, _ xrpc.None) (*preferences, error) {
	if err := notTakenDown(v); err != nil {
		return nil, err
	}
	all, err := p.accounts.Preferences(ctx, v.DID, preferenceNamespace)
	if err != nil {
		return nil, err
	}
	out := &preferences{}
	for _, preference := range all {
		if concerns(v, preference) {
			out.Preferences = append(out.Preferences, preference.Value)
		}
	}
	return out, nil
}

// putPreferences replaces what getPreferences shows to the same session. An
// account that is not active yet may: preferences move with it.
func (p *PDS) putPreferences(ctx context.Context, v xrpc.Viewer, in preferences) (*xrpc.None, error) {
	if err := notTakenDown(v); err != nil {
		return nil, err
	}
	list := make([]account.Preference, len(in.Preferences))
	for i, raw := range in.Preferences {
		var head struct {
			Type string `json:"$type"`
		}
		if err := json.Unmarshal(raw, &head); err != nil || head.Type == "" {
			return nil, xrpc.InvalidRequest("preferences[%d] is missing a $type; name the preference's kind there", i)
		}
		list[i] = account.Preference{Type: head.Type, Value: raw}
		if nsid, _, _ := strings.Cut(head.Type, "#"); !list[i].Under(preferenceNamespace) || !isNSID(nsid) {
			return nil, xrpc.InvalidRequest("preferences[%d] is not in the %s namespace; leave it out", i, preferenceNamespace)
		}
		if !concerns(v, list[i]) {
			return nil, xrpc.InvalidRequest("do not have authorization to set preferences: %s; sign in with the main password, or leave it out", head.Type)
		}
	}
	return &xrpc.None{}, p.accounts.ReplacePreferences(ctx, v.DID, func(before account.Preference) bool { return concerns(v, before) }, list)
}

func isNSID(s string) bool {
	_, err := syntax.ParseNSID(s)
	return err == nil
}
