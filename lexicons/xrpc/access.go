package xrpc

import (
	"net/http"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// identify finds out who asks and whether the route's class admits them.
//
// Checks: the credential (through the Authenticator), membership and kind of
// credential against Access and Visibility. Does not check: scopes of a
// session, account status, or whose data is asked for; handlers do.
func (s *Server) identify(call *Call, access Access, readsCredential bool) error {
	if access == OwnGate || access == Open && !readsCredential {
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
	return admit(access, s.cfg.Visibility, viewer)
}

// admit is the table of DESIGN.md, "Who may read".
func admit(access Access, visibility Visibility, v Viewer) error {
	if access == Read && visibility == Public && v.Kind != Refresh {
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
	case Read, Member:
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
