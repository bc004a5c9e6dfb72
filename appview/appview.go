package appview

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

// Directory is what a view needs to know of identities and their hosts beyond
// the index. It answers from what this process has and never touches the network.
type Directory interface {
	// Members tells which of dids belong to the team: hosted here, or named by
	// the operator.
	Members(ctx context.Context, dids []syntax.DID) (map[syntax.DID]bool, error)
	// Endpoint is the base URL of the host of did, such as
	// "https://pds.example"; "" when it is not known.
	Endpoint(ctx context.Context, did syntax.DID) (string, error)
	// TakenDown are those of blobs that their host is known to serve to nobody,
	// for its operator has taken them down.
	TakenDown(ctx context.Context, blobs []BlobID) (map[BlobID]bool, error)
}

// Default times after which a session's derived state changes.
const (
	DefaultActiveWithin = 30 * time.Minute
	DefaultIdleWithin   = 24 * time.Hour
)

// Config is what an Appview is made of. Index, Directory, Arrivals and Service are required.
type Config struct {
	Index     *index.Index
	Directory Directory
	Arrivals  Arrivals
	Service   Service

	// PublicCollections are what whoever is no member may know of in visibility
	// team; nothing when there are none.
	PublicCollections []syntax.NSID

	// ActiveWithin and IdleWithin are how long after its last update a session
	// counts as active, and as idle; the defaults above when zero.
	ActiveWithin time.Duration
	IdleWithin   time.Duration
	// MaxWait bounds how long a query waits for what its minRev asks for; 5 s when zero.
	MaxWait time.Duration
	// Follow is how subscribeChanges is served.
	Follow Follow
	// Now is the clock of everything that depends on time; time.Now when nil.
	Now func() time.Time
}

// Service is what describeService tells about the deployment.
type Service struct {
	DID        syntax.DID
	Version    string
	Visibility xrpc.Visibility
	PublicURL  string // absolute http or https URL
}

// Appview answers the queries of this package's lexicons. Safe for concurrent use.
type Appview struct {
	index     *index.Index
	directory Directory
	arrivals  Arrivals
	service   Service
	published []syntax.NSID // never nil, which would be all
	states    thresholds
	maxWait   time.Duration
	now       func() time.Time
	follower  *follower
	// stillMember is Follow.StillMember.
	stillMember func(context.Context, *http.Request, xrpc.Viewer) bool
	methods     []syntax.NSID // registered, for describeService; written by Register only
	counts      statusCache
}

// New checks the configuration and makes an Appview. It starts nothing.
func New(c Config) (*Appview, error) {
	if c.Index == nil || c.Directory == nil || c.Arrivals == nil {
		return nil, errors.New("new appview: want Index, Directory and Arrivals")
	}
	if _, err := syntax.ParseDID(string(c.Service.DID)); err != nil {
		return nil, fmt.Errorf("new appview: service did: %w", err)
	}
	if u, err := url.Parse(c.Service.PublicURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("new appview: public url %q: want an absolute http or https URL", c.Service.PublicURL)
	}
	if c.ActiveWithin == 0 {
		c.ActiveWithin = DefaultActiveWithin
	}
	if c.IdleWithin == 0 {
		c.IdleWithin = DefaultIdleWithin
	}
	if c.ActiveWithin < time.Second || c.IdleWithin <= c.ActiveWithin {
		return nil, fmt.Errorf("new appview: active within %s, idle within %s: want a second or more, and idle longer than active", c.ActiveWithin, c.IdleWithin)
	}
	if c.MaxWait == 0 {
		c.MaxWait = defaultWait
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Appview{
		index:     c.Index,
		directory: c.Directory,
		arrivals:  c.Arrivals,
		service:   c.Service,
		published: append([]syntax.NSID{}, c.PublicCollections...),
		states:    thresholds{active: c.ActiveWithin, idle: c.IdleWithin},
		maxWait:   c.MaxWait,
		now:       c.Now,
		follower:  newFollower(c.Index, c.Follow, c.Now),

		stillMember: c.Follow.StillMember,
	}, nil
}

// Register adds the queries to s, and the mapping of this package's errors.
// What shows records is of class Published, what tells of the index Read, and
// describeService is open.
func (a *Appview) Register(s *xrpc.Server) error {
	s.Translate(translate)
	return errors.Join(
		register(a, s, "describeService", xrpc.Open, a.describeService),
		view(a, s, "getObservation", xrpc.Published, a.getObservation),
		view(a, s, "getObservationHistory", xrpc.Published, a.getObservationHistory),
		view(a, s, "listObservations", xrpc.Published, a.listObservations),
		view(a, s, "searchObservations", xrpc.Published, a.searchObservations),
		view(a, s, "searchConversations", xrpc.Published, a.searchConversations),
		view(a, s, "getSession", xrpc.Published, a.getSession),
		view(a, s, "listSessions", xrpc.Published, a.listSessions),
		view(a, s, "getClass", xrpc.Published, a.getClass),
		view(a, s, "listClasses", xrpc.Published, a.listClasses),
		view(a, s, "getConversation", xrpc.Published, a.getConversation),
		view(a, s, "listConversations", xrpc.Published, a.listConversations),
		view(a, s, "listFindings", xrpc.Published, a.listFindings),
		view(a, s, "getRecord", xrpc.Published, a.getRecord),
		view(a, s, "getProvenance", xrpc.Published, a.getProvenance),
		view(a, s, "getAgent", xrpc.Published, a.getAgent),
		view(a, s, "listAgents", xrpc.Published, a.listAgents),
		register(a, s, "getIndexStatus", xrpc.Read, a.getIndexStatus),
		a.registerQuarantine(s),
		a.registerTrust(s),
		a.registerCitations(s),
		a.registerExports(s),
		a.registerChanges(s),
	)
}

// registerChanges adds what tells of changes as they happen; see Run.
func (a *Appview) registerChanges(s *xrpc.Server) error {
	const subscribeChanges syntax.NSID = namespace + "subscribeChanges"
	a.methods = append(a.methods, subscribeChanges)
	return xrpc.Subscription(s, subscribeChanges, xrpc.Published, a.subscribeChanges, xrpc.OfService("herbarium_appview"))
}

// registerExports adds what answers with files.
func (a *Appview) registerExports(s *xrpc.Server) error {
	const (
		exportList         syntax.NSID = namespace + "exportList"
		exportConversation syntax.NSID = namespace + "exportConversation"
	)
	a.methods = append(a.methods, exportList, exportConversation)
	return errors.Join(
		xrpc.Stream(s, exportList, xrpc.Published, a.exportList(s), xrpc.OfService("herbarium_appview")),
		xrpc.Stream(s, exportConversation, xrpc.Published, a.exportConversation, xrpc.OfService("herbarium_appview")),
	)
}

// registerCitations adds the one question that is asked with a body: a draft may
// be as large as a record. It changes nothing either.
func (a *Appview) registerCitations(s *xrpc.Server) error {
	const verifyCitations syntax.NSID = namespace + "verifyCitations"
	a.methods = append(a.methods, verifyCitations)
	return xrpc.Procedure(s, verifyCitations, xrpc.Published, a.verifyCitations, xrpc.OfService("herbarium_appview"))
}

const namespace = "garden.herbarium."

// view registers a query that shows records, which may be asked to wait for a write.
func view[P interface{ wanted() []revision }, O any, F interface {
	*O
	setStale(bool)
}](a *Appview, s *xrpc.Server, name string, access xrpc.Access, h func(context.Context, xrpc.Viewer, P) (*O, error)) error {
	return register(a, s, name, access, func(ctx context.Context, v xrpc.Viewer, p P) (*O, error) {
		stale, err := a.await(ctx, v, p.wanted())
		if err != nil {
			return nil, err
		}
		out, err := h(ctx, v, p)
		if err != nil {
			return nil, err
		}
		F(out).setStale(stale)
		return out, nil
	})
}

func register[P, O any](a *Appview, s *xrpc.Server, name string, access xrpc.Access, h func(context.Context, xrpc.Viewer, P) (*O, error)) error {
	nsid := syntax.NSID(namespace + name)
	a.methods = append(a.methods, nsid)
	return xrpc.Query(s, nsid, access, h, xrpc.OfService("herbarium_appview"))
}

// viewer is for whom the index answers. In visibility team whoever is no member
// is nobody, and gets the published collections; the gate lets nobody in where
// there are none.
func (a *Appview) viewer(v xrpc.Viewer) index.Viewer {
	if a.service.Visibility == xrpc.Public || v.Member {
		return index.Viewer{DID: v.DID, Admin: v.IsAdmin()}
	}
	return index.Viewer{Collections: a.published}
}

// recordURI checks that a parameter names a record of a collection; a handle as
// authority is resolved by the index's identities.
func (a *Appview) recordURI(ctx context.Context, uri syntax.ATURI, want syntax.NSID) (syntax.ATURI, error) {
	if uri.Authority().IsHandle() {
		did, err := a.author(ctx, uri.Authority())
		if err != nil {
			return "", err
		}
		uri = syntax.ATURI("at://" + string(did) + strings.TrimPrefix(string(uri), "at://"+string(uri.Authority())))
	}
	parsed, err := lexicons.ParseRecordURI(string(uri))
	if err != nil {
		return "", xrpc.InvalidRequest("uri: %v", err)
	}
	if want != "" && parsed.Collection() != want {
		return "", xrpc.InvalidRequest("uri: %s is a record of %s, want %s", parsed, parsed.Collection(), want)
	}
	return parsed, nil
}

// author resolves the author parameter of a list: "" stays "".
func (a *Appview) author(ctx context.Context, id syntax.AtIdentifier) (syntax.DID, error) {
	if id == "" {
		return "", nil
	}
	if did, err := id.AsDID(); err == nil {
		return did, nil
	}
	handle, err := id.AsHandle()
	if err != nil {
		return "", xrpc.InvalidRequest("author: %v", lexicons.FormatError("at-identifier", string(id)))
	}
	did, err := a.index.ResolveHandle(ctx, handle.Normalize())
	if errors.Is(err, index.ErrNotFound) {
		return "", xrpc.InvalidRequest("author: no DID is known here for the handle %s; name the DID", handle)
	}
	return did, err
}
