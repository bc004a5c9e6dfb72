package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Options say against which host the demo plays.
type Options struct {
	URL           string // of the host, such as http://localhost:2583
	AdminPassword string
	Manifest      string    // where to write the manifest; "" for nowhere
	Out           io.Writer // what the demo prints
}

// errPublic tells that reading without a credential is this host's setting.
var errPublic = errors.New("visibility is public")

// demo is one performance.
type demo struct {
	story
	out     io.Writer
	url     string
	service string // DID of the host
	public  bool
	admin   *atclient.APIClient
	dir     string // scratch files that the agents look at
	site    *site
	failed  error // the first error of writing to out
}

// Run plays the demo. It fails when the host refuses what is allowed, allows
// what is forbidden, or shows something else than what was written.
func Run(ctx context.Context, o Options) (err error) {
	d := &demo{out: o.Out, url: strings.TrimSuffix(o.URL, "/"), admin: atclient.NewAdminClient(o.URL, o.AdminPassword)}
	if d.dir, err = os.MkdirTemp("", "herbarium-demo-"); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(d.dir)
	if d.site, err = openSite(ctx); err != nil {
		return err
	}
	defer d.site.close()

	parts := []struct {
		title string
		play  func(context.Context) error
	}{
		{"", d.meet},
		{"Scout looks around, and looks again after things changed", d.observations},
		{"", d.handOver},
		{"", d.publishClasses},
		{"", d.claimFromPage},
		{"", d.converse},
		{"", d.tally},
		{"Each forbidden thing, and how the host refuses it", d.forbidden},
		{"", d.indexed},
		{"", d.show},
	}
	for _, part := range parts {
		if part.title != "" {
			d.title(part.title)
		}
		if err := part.play(ctx); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if o.Manifest != "" {
		if err := d.writeManifest(o.Manifest); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	d.further(o.Manifest)
	return d.failed
}

// meet asks the host who it is and gives two agents their identities.
func (d *demo) meet(ctx context.Context) error {
	var host struct {
		DID                  string   `json:"did"`
		AvailableUserDomains []string `json:"availableUserDomains"`
		BlobUploadLimit      int64    `json:"blobUploadLimit"`
	}
	anonymous := atclient.NewAPIClient(d.url)
	if err := anonymous.Get(ctx, "com.atproto.server.describeServer", nil, &host); err != nil {
		return fmt.Errorf("ask %s who it is: %w", d.url, err)
	}
	if len(host.AvailableUserDomains) == 0 {
		return errors.New("the host offers no handle domain")
	}
	d.service = host.DID
	// A refusal is what visibility team answers to nobody.
	d.public = anonymous.Get(ctx, "com.atproto.sync.listRepos", nil, nil) == nil

	// A did:web is issued once, ever, so each performance takes new handles.
	clock := syntax.NewTIDClock(0)
	suffix := clock.Next().String()[7:]
	domain := host.AvailableUserDomains[0]
	machine, err := os.Hostname()
	if err != nil {
		machine = "workbench"
	}
	if d.scout, err = enroll(ctx, d.admin, d.url, "scout-"+suffix+domain, machine, "demo/scout-1"); err != nil {
		return err
	}
	if d.scribe, err = enroll(ctx, d.admin, d.url, "scribe-"+suffix+domain, "laptop", "demo/scribe-1"); err != nil {
		return err
	}
	d.title("Two agents at " + d.url)
	d.say("host    %s", d.service)
	for _, a := range []*agent{d.scout, d.scribe} {
		d.say("agent   %-24s %s", a.handle, a.did)
	}
	return nil
}

// tally prints what was written so far.
func (d *demo) tally(context.Context) error {
	for _, chain := range d.chains() {
		d.say("chain of %d, newest %s", len(chain), chain[len(chain)-1].URI)
	}
	bytes, blobs := int64(0), 0
	for _, a := range []*agent{d.scout, d.scribe} {
		for _, b := range a.blobs {
			bytes, blobs = bytes+b.Size, blobs+1
		}
	}
	d.say("%d observations of things that did not change meanwhile", len(d.still))
	d.say("%d uploads with %d bytes, exactly as observed", blobs, bytes)
	d.say("session %s\nclass   %s\nclaim   %s\nchat    %s", d.work.URI, d.child.URI, d.claim.URI, d.chat.URI)
	return nil
}

// further says where to look next.
func (d *demo) further(manifest string) {
	d.title("Where to look further")
	d.say("as JSON     curl -u admin:$ADMIN '%s/xrpc/garden.herbarium.getObservation?uri=%s'", d.url, d.page[0].URI)
	d.say("whole repo  curl -u admin:$ADMIN -o scout.car '%s/xrpc/com.atproto.sync.getRepo?did=%s'", d.url, d.scout.did)
	d.say("            ($ADMIN is the content of secrets/admin-password in the data folder)")
	if manifest != "" {
		d.say("manifest    %s lists every URI, CID and blob, for an independent program to check", manifest)
	}
}

// title starts a part of what the demo prints.
func (d *demo) title(text string) { d.say("\n%s\n%s", text, strings.Repeat("─", len([]rune(text)))) }

// say prints one line.
func (d *demo) say(format string, args ...any) {
	if _, err := fmt.Fprintf(d.out, format+"\n", args...); err != nil && d.failed == nil {
		d.failed = err
	}
}

// healthTimeout bounds the question whether a host answers.
const healthTimeout = 2 * time.Second

// Answers reports whether a PDS answers at url.
func Answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/xrpc/_health", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
