package account

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/auth"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Scope is what a session may do: one of the names below, or permissions in
// the grammar of atproto (https://atproto.com/specs/permission), separated by
// spaces. It is fixed when the session starts and survives every refresh.
type Scope string

// The scopes that have a name, which is the reference PDS's.
const (
	ScopeAccess            Scope = "com.atproto.access"            // signed in with the main password
	ScopeAppPass           Scope = "com.atproto.appPass"           // an app password
	ScopeAppPassPrivileged Scope = "com.atproto.appPassPrivileged" // a privileged app password
	ScopeTakendown         Scope = "com.atproto.takendown"         // a taken down account that asked to sign in (allowTakendown)
)

// scopeRefresh is the scope claim of every refresh token.
const scopeRefresh Scope = "com.atproto.refresh"

// scopeOwn is the permission scope without a permission: its session reads
// itself and its own repo.
const scopeOwn = "atproto"

// Bounds on a permission scope, which every access token carries.
const (
	maxScope       = 2 << 10 // bytes, in the canonical form
	maxPermissions = 64
)

// Full reports whether the session was opened with the main password: the
// methods that manage the account itself ask for that.
func (s Scope) Full() bool { return s == ScopeAccess }

// Privileged reports whether the scope is that of a privileged app password.
func (s Scope) Privileged() bool { return s == ScopeAppPassPrivileged }

// Permissions are what the scope names; nil, without an error, when it has a
// name of its own. ErrScope otherwise.
func (s Scope) Permissions() (*Permissions, error) {
	switch s {
	case ScopeAccess, ScopeAppPass, ScopeAppPassPrivileged, ScopeTakendown:
		return nil, nil
	}
	return ParsePermissions(string(s))
}

// forCredential is the scope in canonical form, if an app password or a login
// key may have it: one that acts for the account and does not manage it.
func (s Scope) forCredential() (Scope, error) {
	switch s {
	case "":
		return ScopeAppPass, nil
	case ScopeAppPass, ScopeAppPassPrivileged:
		return s, nil
	case ScopeAccess, ScopeTakendown, scopeRefresh:
		return "", fmt.Errorf("%w: %s is for no app password or login key; use %s, %s or permissions", ErrScope, s, ScopeAppPass, ScopeAppPassPrivileged)
	}
	p, err := ParsePermissions(string(s))
	if err != nil {
		return "", err
	}
	return Scope(p.String()), nil
}

// Permissions are all that a scoped credential may do. They implement
// xrpc.Grants. What none of them names is not allowed.
type Permissions struct {
	all  []auth.Permission
	text string
}

// ParsePermissions reads permissions separated by spaces: repo, blob, rpc,
// account and identity, 64 at most in 2 KiB. The word atproto among them means
// nothing, and alone: nothing but reading the account's own session and repo.
// ErrScope, with what to write instead, for anything else.
func ParsePermissions(text string) (*Permissions, error) {
	if len(text) > maxScope {
		return nil, fmt.Errorf("%w: it has more than %d bytes; name fewer things, or use *", ErrScope, maxScope)
	}
	words := strings.Split(text, " ")
	if len(words) > maxPermissions {
		return nil, fmt.Errorf("%w: it has more than %d permissions; name several collections or methods in one, or use *", ErrScope, maxPermissions)
	}
	p := &Permissions{}
	var canonical []string
	for _, word := range words {
		if word == scopeOwn {
			continue
		}
		permission, err := parsePermission(word)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrScope, err)
		}
		if form := permission.ScopeString(); !slices.Contains(canonical, form) {
			canonical = append(canonical, form)
			p.all = append(p.all, permission)
		}
	}
	p.text = strings.Join(canonical, " ")
	if len(p.all) == 0 {
		p.text = scopeOwn
	}
	if len(p.text) > maxScope {
		return nil, fmt.Errorf("%w: it has more than %d bytes; name fewer things, or use *", ErrScope, maxScope)
	}
	return p, nil
}

func parsePermission(word string) (auth.Permission, error) {
	resource, _, _ := strings.Cut(word, ":")
	resource, _, _ = strings.Cut(resource, "?")
	if len(word) > 0 && printableName(word) {
		switch {
		case resource == "transition":
			return auth.Permission{}, fmt.Errorf("%s is of another sign-in; use %s or %s for all that an app password may, or name permissions", word, ScopeAppPass, ScopeAppPassPrivileged)
		case resource == "include":
			return auth.Permission{}, fmt.Errorf("%s names a permission set, which is not looked up here; write its permissions out", word)
		case strings.HasPrefix(word, "com.atproto."):
			return auth.Permission{}, fmt.Errorf("%s stands alone; leave out the others, or it", word)
		}
	}
	parsed, err := auth.ParsePermissionString(word)
	if err != nil {
		return auth.Permission{}, fmt.Errorf("%.100q is no permission; %s", word, formOf(resource))
	}
	p := *parsed
	if p.Resource == "account" && slices.Equal(p.Action, []string{"read"}) {
		p.Action = nil // the default
	}
	for i, accept := range p.Accept {
		if p.Accept[i] = strings.ToLower(accept); !mediaRange(p.Accept[i]) {
			return auth.Permission{}, fmt.Errorf("%.100q is no permission; %s", word, formOf(resource))
		}
	}
	return p, nil
}

// formOf is the repair of a permission that does not parse.
func formOf(resource string) string {
	switch resource {
	case "repo":
		return "write repo:<collection>?action=create (also update, delete; all when left out), with the collection named whole or *"
	case "blob":
		return "write blob:*/*, blob:image/* or blob:text/plain"
	case "rpc":
		return "write rpc:<method>?aud=<did>%23<service>; of method and aud only one may be *"
	case "account":
		return "write account:email or account:repo?action=manage"
	case "identity":
		return "write identity:handle or identity:*"
	}
	return "use repo:, blob:, rpc:, account: or identity:, separated by single spaces"
}

// mediaRange reports whether s is */*, type/* or type/subtype (RFC 6838, 4.2),
// in lower case.
func mediaRange(s string) bool {
	kind, sub, ok := strings.Cut(s, "/")
	switch {
	case !ok:
		return false
	case kind == "*":
		return sub == "*"
	}
	return restrictedName(kind) && (sub == "*" || restrictedName(sub))
}

func restrictedName(s string) bool {
	if s == "" || len(s) > 127 {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$&-^_.+", r)
	})
}

// String is the canonical form: the permissions as they were ordered, each in
// the one form that its fields have, none twice.
func (p *Permissions) String() string { return p.text }

func (p *Permissions) any(resource string, allows func(auth.Permission) bool) bool {
	return slices.ContainsFunc(p.all, func(one auth.Permission) bool { return one.Resource == resource && allows(one) })
}

func namesOrAll(names []string, name string) bool {
	return slices.Contains(names, "*") || slices.Contains(names, name)
}

// Repo implements xrpc.Grants.
func (p *Permissions) Repo(collection syntax.NSID, action string) bool {
	return p.any("repo", func(one auth.Permission) bool {
		return namesOrAll(one.Collection, string(collection)) && (len(one.Action) == 0 || slices.Contains(one.Action, action))
	})
}

// Blob implements xrpc.Grants. Parameters of the media type (charset) do not
// matter.
func (p *Permissions) Blob(mediaType string) bool {
	bare, _, _ := strings.Cut(mediaType, ";")
	bare = strings.ToLower(strings.TrimSpace(bare))
	kind, _, _ := strings.Cut(bare, "/")
	return p.any("blob", func(one auth.Permission) bool {
		return slices.Contains(one.Accept, "*/*") ||
			mediaRange(bare) && (slices.Contains(one.Accept, kind+"/*") || slices.Contains(one.Accept, bare))
	})
}

// RPC implements xrpc.Grants. The method "*" is allowed by a permission for
// every one; audiences are compared whole, with their #service.
func (p *Permissions) RPC(method syntax.NSID, audience string) bool {
	return p.any("rpc", func(one auth.Permission) bool {
		return namesOrAll(one.Endpoint, string(method)) && (one.Audience == "*" || one.Audience == audience)
	})
}

// Account implements xrpc.Grants.
func (p *Permissions) Account(attribute, action string) bool {
	return p.any("account", func(one auth.Permission) bool {
		return one.Attribute == attribute && (action == "read" || slices.Contains(one.Action, action))
	})
}

// Identity implements xrpc.Grants.
func (p *Permissions) Identity(attribute string) bool {
	return p.any("identity", func(one auth.Permission) bool { return one.Attribute == "*" || one.Attribute == attribute })
}
