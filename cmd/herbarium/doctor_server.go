package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/identity"
	"github.com/urfave/cli/v3"

	"herbarium.garden/config"
)

// network looks at names and services outside.
func (d *doctor) network(ctx context.Context) {
	for _, domain := range d.cfg.HandleDomains {
		d.handleDomain(ctx, domain)
	}
	if d.cfg.Identity == config.IdentityPLC {
		url := strings.TrimSuffix(d.cfg.PLCURL.String(), "/") + "/_health"
		if err := fetch(ctx, url, "", nil); err != nil {
			d.fail("PLC directory", "look at PLC_URL, and at the way out of this network", "%v; no account can be made", err)
		} else {
			d.ok("PLC directory", "%s answers", d.cfg.PLCURL.Host)
		}
	}
}

// handleDomain asks whether names under a domain lead anywhere.
func (d *doctor) handleDomain(ctx context.Context, domain string) {
	if domain == ".test" || strings.HasSuffix(domain, ".localhost") {
		d.ok("handles", "%s leads nowhere outside this host, as its kind of domain must", domain)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	var resolver net.Resolver
	addresses, err := resolver.LookupHost(ctx, "herbarium-doctor"+domain)
	if err != nil || len(addresses) == 0 {
		d.warn("handles", "a DNS record *"+domain+" that points where PUBLIC_URL does", "names under %s do not resolve: others cannot verify the handles", domain)
		return
	}
	d.ok("handles", "names under %s resolve", domain)
}

// server asks the running one: first as anybody does, then as its operator.
func (d *doctor) server(ctx context.Context, c *cli.Command) {
	direct := c.String("url")
	if direct == "" {
		direct = "http://" + dialable(d.cfg.Listen)
	}
	direct = strings.TrimSuffix(direct, "/")
	if err := fetch(ctx, direct+"/readyz", "", nil); err != nil {
		d.warn("server", "herbarium serve; then ask the doctor again, for it knows more", "no server is ready at %s: %v", direct, err)
		return
	}
	var health struct{ Version string }
	if err := fetch(ctx, direct+"/xrpc/_health", "", &health); err != nil {
		d.fail("server", "look at its log", "it is not healthy: %v", err)
	} else if own := buildVersion(); health.Version != own {
		d.warn("server", "start the server again", "it runs version %s, and this program is %s", health.Version, own)
	} else {
		d.ok("server", "ready at %s, version %s", direct, health.Version)
	}
	d.document(ctx, "did.json", direct, d.cfg.PublicURL.Host)
	d.document(ctx, "public URL", strings.TrimSuffix(d.cfg.PublicURL.String(), "/"), "")
	d.asOperator(ctx, c, direct)
}

// document looks whether an address serves the document of this service. host
// is asked for there, when it is another one.
func (d *doctor) document(ctx context.Context, check, base, host string) {
	repair := "let PUBLIC_URL, and the proxy there, lead to this server with the Host header kept"
	var doc identity.DIDDocument
	if err := fetch(ctx, base+"/.well-known/did.json", host, &doc); err != nil {
		d.fail(check, repair, "%s serves no document of this service: %v", base, err)
		return
	}
	if doc.DID != d.cfg.ServiceDID {
		d.fail(check, repair, "%s serves the document of %s, and SERVICE_DID is %s", base, doc.DID, d.cfg.ServiceDID)
		return
	}
	if len(doc.VerificationMethod) == 0 {
		d.fail(check, "report it", "the document of %s names no host key: receipts cannot be verified", doc.DID)
		return
	}
	d.ok(check, "%s serves the document of %s with its host key", base, doc.DID)
}

// asOperator asks what only the operator may know.
func (d *doctor) asOperator(ctx context.Context, c *cli.Command, direct string) {
	password, err := d.adminPassword(c)
	if err != nil {
		d.warn("operator", "--admin-password-file", "the server was not asked about blobs and index: %v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*doctorTimeout)
	defer cancel()
	s := server{atclient.NewAdminClient(direct, password)}
	var storage struct {
		Quarantined struct{ Blobs int64 }
		Missing     int64
		Scrub       struct {
			EverySeconds int64
			OldestCheck  string
			Checked      struct{ Blobs int64 }
		}
		Live struct{ Blobs int64 }
	}
	if err := s.get(ctx, "getStorageStatus", nil, &storage); err != nil {
		d.fail("operator", "--admin-password-file, if the server has another password", "%v", err)
		return
	}
	if n := storage.Quarantined.Blobs + storage.Missing; n > 0 {
		d.fail("blobs", "herbarium blob fsck --repair-from <a backup>", "%d are damaged and %d are missing", storage.Quarantined.Blobs, storage.Missing)
	} else {
		d.ok("blobs", "%d, none known to be damaged or missing", storage.Live.Blobs)
	}
	d.scrubbing(storage.Scrub.EverySeconds, storage.Scrub.OldestCheck)
	var index struct {
		Sources []struct {
			Name   string
			Cursor int64
		}
		Repos struct{ Total, Desynchronized int64 }
	}
	if err := s.client.Get(ctx, "garden.herbarium.getIndexStatus", nil, &index); err != nil {
		d.fail("index", "look at the server's log", "%v", s.said(err))
		return
	}
	if n := index.Repos.Desynchronized; n > 0 {
		d.warn("index", "the server reads them again by itself; its log says why it could not", "%d of %d repos are desynchronized", n, index.Repos.Total)
	} else {
		d.ok("index", "%d repos, all in step", index.Repos.Total)
	}
}

// scrubbing says how old the oldest check of a blob is.
func (d *doctor) scrubbing(everySeconds int64, oldest string) {
	if everySeconds == 0 {
		return // settings has said so
	}
	every := time.Duration(everySeconds) * time.Second
	at, err := time.Parse(time.RFC3339, oldest)
	if err != nil {
		return // nothing is stored, or nothing was read yet
	}
	if age := d.now().Sub(at); age > 2*every {
		d.warn("scrubber", "a higher BLOB_SCRUB_RATE, or a longer BLOB_SCRUB", "a blob was not read for %s, and each should be every %s", age.Round(time.Hour), every)
		return
	}
	d.ok("scrubber", "the oldest check of a blob is of %s", oldest)
}

func (d *doctor) adminPassword(c *cli.Command) (string, error) {
	if path := c.String("admin-password-file"); path != "" {
		raw, err := os.ReadFile(path)
		return strings.TrimSpace(string(raw)), err
	}
	return adminPassword(d.cfg)
}

// mostAnswer bounds what is read of an answer.
const mostAnswer = 1 << 20

// fetch gets a URL, as host when that is not "", and reads JSON into out unless
// it is nil.
func fetch(ctx context.Context, url, host string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return plainly(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostAnswer)).Decode(out); err != nil {
		return errors.New("it answers something else")
	}
	return nil
}

// plainly leaves out the URL, which the finding names.
func plainly(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}
