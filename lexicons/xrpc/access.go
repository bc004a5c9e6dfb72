package xrpc

import (
	"net/http"
	"net/url"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// identify finds out who asks and whether the route's class admits them.
//
// Checks: the credential (through the Authenticator), membership and kind of
// credential against Access and Visibility, and whether a scoped credential
// may call the method, unless the handler judges that. Does not check: account
// status, or whose data is asked for; handlers do.
func (s *Server) identify(call *Call, rt *route) error {
	access := rt.info.Access
	if access == OwnGate || access == Open && !rt.readsCredential {
		return nil
	}
	viewer, err := s.cfg.Authenticator.Authenticate(call.Request, call.NSID)
	if access == Open {
		if err != nil {
			call.CredentialErr = err
			return nil
		}
		call.Viewer = viewer
		return nil
	}
	header := call.Writer.Header()
	header.Set("Cache-Control", "private")
	header.Add("Vary", "Authorization")
	if err != nil {
		return err
	}
	call.Viewer = viewer
	if err := s.admit(access, viewer); err != nil {
		return err
	}
	return s.granted(rt, viewer)
}

// granted refuses a scoped credential a method that no rpc: permission of its
// scope names.
func (s *Server) granted(rt *route, v Viewer) error {
	if v.Grants == nil || rt.judgesGrants {
		return nil
	}
	nsid := rt.info.NSID
	if nsid == "" || s.cfg.ServiceDID == "" {
		return Errorf(http.StatusForbidden, "Forbidden", "the scope of the credential does not reach this")
	}
	audience := string(s.cfg.ServiceDID) + "#" + rt.service
	if v.Grants.RPC(nsid, audience) {
		return nil
	}
	return Errorf(http.StatusForbidden, "Forbidden", "the scope of the credential does not reach %[1]s; use one with rpc:%[1]s?aud=%[2]s", nsid, url.QueryEscape(audience))
}

// admit is the table of DESIGN.md, "Who may read".
func (s *Server) admit(access Access, v Viewer) error {
	open := access == Read && s.cfg.Visibility == Public || access == Published && (s.cfg.Visibility == Public || s.cfg.Published)
	if open && v.Kind != Refresh {
		return nil
	}
	if !v.Known() {
		challenge := "Bearer"
		if access == AdminOnly {
			challenge = "Basic"
		}
		err := Errorf(http.StatusUnauthorized, "AuthMissing", "this method needs a credential in the Authorization header")
		err.Header = map[string]string{"WWW-Authenticate": challenge}
		return err
	}
	if v.Kind == Refresh && access != RefreshToken {
		return Errorf(http.StatusBadRequest, "InvalidToken", "a refresh token only serves to refresh or end a session; show the access token")
	}
	switch access {
	case Read, Member, Published:
		if !v.Member {
			return Errorf(http.StatusForbidden, "Forbidden", "the credential is valid, but %s is not a member of the team here", whose(v))
		}
	case AccessToken:
		if v.Kind != Account {
			return Errorf(http.StatusBadRequest, "InvalidToken", "this method needs the access token of an account hosted here")
		}
	case RefreshToken:
		if v.Kind != Refresh {
			return Errorf(http.StatusBadRequest, "InvalidToken", "this method needs the session's refresh token")
		}
	case AdminOnly:
		if !v.IsAdmin() {
			return Errorf(http.StatusForbidden, "Forbidden", "this method needs the admin's HTTP Basic credential")
		}
	default: // registration lets no other class through; fail closed all the same
		return Errorf(http.StatusForbidden, "Forbidden", "nobody is admitted here")
	}
	return nil
}

func whose(v Viewer) syntax.DID {
	if v.DID == "" {
		return "its holder"
	}
	return v.DID
}
