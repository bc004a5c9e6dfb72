package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"herbarium.garden/blobstore"
	"herbarium.garden/config"
	"herbarium.garden/migrations"
)

// configuration loads it, and says where it comes from. The values stay with
// `config show`.
func (d *doctor) configuration(c *cli.Command) {
	cfg, err := configure(c)
	if err != nil {
		d.fail("configuration", "herbarium config template explains each key", "%v", err)
		return
	}
	d.cfg = cfg
	from := map[config.Source]int{}
	secretsInFile := false
	for _, v := range cfg.Values() {
		from[v.Source]++
		switch v.Name {
		case "ADMIN_PASSWORD", "MASTER_KEY", "JWT_SECRET", "PDS_DB", "APPVIEW_DB":
			secretsInFile = secretsInFile || v.Source == config.FromFile
		}
	}
	d.ok("configuration", "%d keys from the file, %d from the environment, %d from flags; the others are defaults",
		from[config.FromFile], from[config.FromEnvironment], from[config.FromFlag])
	if !secretsInFile || cfg.ConfigFile == "" {
		return
	}
	if info, err := os.Stat(cfg.ConfigFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		d.warn("configuration", "chmod 600 "+cfg.ConfigFile, "%s holds secrets and has mode %04o", cfg.ConfigFile, info.Mode().Perm())
	}
}

// settings looks for what is allowed, and seldom meant.
func (d *doctor) settings() {
	cfg, before := d.cfg, d.counts[warn]
	danger := func(is bool, repair, detail string) {
		if is {
			d.warn("settings", repair, "%s", detail)
		}
	}
	public := cfg.Visibility == config.VisibilityPublic
	danger(cfg.DevLoopback, "unset DEV_LOOPBACK", "DEV_LOOPBACK is on: http on loopback counts as safe; for development alone")
	danger(public && cfg.Invites == config.InvitesOpen, "INVITES=required", "anybody can make an account, and VISIBILITY is public")
	danger(!cfg.RateLimits, "RATE_LIMITS=on", "RATE_LIMITS is off: one client can take all there is")
	danger(cfg.SecretsPolicy == "off", "unset SECRETS_POLICY", "records are not searched for secrets")
	danger(cfg.BlobScrub == 0, "BLOB_SCRUB=720h", "BLOB_SCRUB is off: damage of stored blobs is found when somebody reads them")
	local := isLoopback(cfg.PublicURL.Hostname())
	danger(cfg.PublicURL.Scheme == "http" && !local, "put a proxy with TLS before it, and set PUBLIC_URL to https://…",
		"PUBLIC_URL is http: passwords and tokens travel in the open")
	listenHost, _, _ := net.SplitHostPort(cfg.Listen)
	danger(!isLoopback(listenHost) && cfg.PublicURL.Scheme == "https" && len(cfg.TrustedProxies) == 0, "TRUSTED_PROXIES=<address of the proxy>",
		"a proxy is before it (PUBLIC_URL is https) and TRUSTED_PROXIES is empty: all clients have one address, for limits and for the audit log")
	if cfg.MetricsListen != "" {
		host, _, _ := net.SplitHostPort(cfg.MetricsListen)
		danger(!isLoopback(host), "METRICS_LISTEN=127.0.0.1:…, or let a firewall keep it", "the metrics, which need no credential, listen on "+cfg.MetricsListen)
	}
	if d.counts[warn] == before {
		d.ok("settings", "visibility %s, invites %s, rate limits on, identities did:%s", cfg.Visibility, cfg.Invites, cfg.Identity)
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// secrets looks at who may open the files, not at what is in them.
func (d *doctor) secrets() {
	dir := secretsDir(d.cfg)
	info, err := os.Stat(dir)
	given := d.cfg.AdminPassword.IsSet() && d.cfg.MasterKey.IsSet() && d.cfg.JWTSecret.IsSet()
	switch {
	case errors.Is(err, fs.ErrNotExist) && given:
		d.ok("secrets", "all three are given by the configuration")
		return
	case errors.Is(err, fs.ErrNotExist):
		d.ok("secrets", "%s is not there yet; the first start makes it", dir)
		return
	case err != nil:
		d.fail("secrets", "let the server's user read "+dir, "%v", err)
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		d.fail("secrets", "let the server's user read "+dir, "%v", err)
		return
	}
	sound := true
	open := func(path string, mode fs.FileMode, want string) {
		if mode.Perm()&0o077 != 0 {
			sound = false
			d.fail("secrets", "chmod "+want+" "+path+"; then change what was in it, for it may have been read", "%s has mode %04o", path, mode.Perm())
		}
	}
	open(dir, info.Mode(), "700")
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			open(filepath.Join(dir, e.Name()), info.Mode(), "600")
		}
	}
	if sound {
		d.ok("secrets", "%d files in %s, for their owner alone", len(entries), dir)
	}
}

// Free room under which doctor warns, and under which it fails: a full disk
// refuses every write.
const (
	littleRoom = 2 << 30
	noRoom     = 200 << 20
)

// disk looks at the folders.
func (d *doctor) disk() {
	dir := d.cfg.DataDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn("disk", "herbarium serve makes it; or name another one with DATA_DIR", "there is no %s yet", dir)
		return
	case err != nil:
		d.fail("disk", "let the server's user use "+dir, "%v", err)
		return
	case !info.IsDir():
		d.fail("disk", "DATA_DIR=<a folder>", "%s is no folder", dir)
		return
	}
	free, known, err := freeBytes(dir)
	switch {
	case err != nil:
		d.fail("disk", "look at the file system of "+dir, "%v", err)
	case !known:
		d.ok("disk", "%s is there; how much room it has is not known here", dir)
	case free < noRoom:
		d.fail("disk", "make room; herbarium blob gc tells what can go", "%s has %d MiB left", dir, free>>20)
	case free < littleRoom:
		d.warn("disk", "make room; herbarium blob gc tells what can go", "%s has %d MiB left", dir, free>>20)
	default:
		d.ok("disk", "%s has %d MiB left", dir, free>>20)
	}
	blobs, isDir := strings.CutPrefix(d.cfg.Blobs, "dir:")
	if !isDir {
		return
	}
	same, err := sameFileSystem(existing(d.cfg.SpoolDir), existing(blobs))
	switch {
	case err != nil:
		d.fail("disk", "let the server's user use both", "the folders of blobs and spool: %v", err)
	case !same:
		d.warn("disk", "SPOOL_DIR=<a folder beside the blobs>", "%s and %s are on two file systems: each upload is written twice", d.cfg.SpoolDir, blobs)
	}
}

// existing is the path, or the folder above it that is there.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// Differences of clocks that are worth a word, and that break tokens and leases.
const (
	clockOff   = 2 * time.Second
	clockWrong = time.Minute
)

// databases looks at both, without applying anything.
func (d *doctor) databases(ctx context.Context) {
	for _, name := range []migrations.Database{migrations.PDS, migrations.Appview} {
		check := string(name) + " database"
		asked := d.now()
		found, err := migrations.Inspect(ctx, name, databases(d.cfg)[name].Reveal())
		switch {
		case errors.Is(err, migrations.ErrNoDatabase):
			d.warn(check, "herbarium serve makes it", "there is none yet")
			continue
		case err != nil:
			d.fail(check, "look at the address and at the database's own log", "%v", err)
			continue
		}
		sound := true
		if found.Ahead > 0 {
			sound = false
			d.fail(check, "use the newer program again, or a backup from before it", "a newer program has changed it: version %d", found.Ahead)
		}
		if n := found.Missing(); n > 0 {
			sound = false
			d.warn(check, "herbarium migrate, or start the server", "%d of %d migrations are missing", n, len(found.Steps))
		}
		if found.Dialect == migrations.SQLite && found.JournalMode != "wal" {
			sound = false
			d.warn(check, "start the server, which sets it", "the journal mode is %s and not wal: readers hold up writers", found.JournalMode)
		}
		if !found.Durable {
			sound = false
			d.fail(check, "fsync=on and synchronous_commit=on in the settings of the database", "it acknowledges what is not on disk: a power cut loses writes")
		}
		if !found.Now.IsZero() {
			if off := found.Now.Sub(asked).Abs(); off > clockOff+d.now().Sub(asked) {
				sound = false
				d.clock(check, off)
			}
		}
		if sound {
			d.ok(check, "%s, all %d migrations, commits are on disk when they are acknowledged", found.Dialect, len(found.Steps))
		}
	}
}

func (d *doctor) clock(check string, off time.Duration) {
	verdict := warn
	if off > clockWrong {
		verdict = fail
	}
	d.say(check, verdict, "let both machines ask a time server", "its clock and this one differ by %s", off.Round(time.Second))
}

// bucket tries out what the bucket does.
func (d *doctor) bucket(ctx context.Context) {
	if dir, isDir := strings.CutPrefix(d.cfg.Blobs, "dir:"); isDir {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			d.warn("bucket", "herbarium serve makes it", "there is no %s yet", dir)
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 3*doctorTimeout)
	defer cancel()
	found, err := d.probe(ctx)
	if err != nil {
		d.fail("bucket", "look at BLOBS, and at the credentials of the AWS chain", "%v", err)
		return
	}
	took := found.Took.Round(time.Millisecond)
	if found.Kind != "s3" { // a file system has none of the features that are asked of a server
		d.ok("bucket", "%s takes, gives and deletes objects in %s", found.Where, took)
		return
	}
	can := func(is bool, what string) string {
		if is {
			return what
		}
		return "no " + what
	}
	d.ok("bucket", "%s takes, gives and deletes objects in %s; %s, %s, %s, %s", found.Where, took,
		can(found.PathStyle, "path style"), can(found.Ranges, "ranges"), can(found.Checksums, "checksums"), can(found.ConditionalWrites, "conditional writes"))
	if !found.Ranges {
		d.warn("bucket", "another store, or BLOB_REDIRECT=0", "it ignores ranges: a part of a blob costs the whole")
	}
	if !found.Checksums {
		d.warn("bucket", "another store; until then herbarium blob fsck --full", "it does not check what it takes: damage on the way is found when the blob is read")
	}
	if found.Versioned {
		d.warn("bucket", "a purge removes the versions of what it purges; suspend versioning, or let old versions expire", "it keeps versions: what was deleted stays behind")
	}
}

func (d *doctor) probe(ctx context.Context) (blobstore.Probe, error) {
	bucket, err := blobstore.OpenBucket(ctx, d.cfg.Blobs)
	if err != nil {
		return blobstore.Probe{}, err
	}
	store, err := blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: d.cfg.SpoolDir, Limit: int64(d.cfg.BlobLimit)})
	if err != nil {
		return blobstore.Probe{}, err
	}
	return store.Probe(ctx)
}
