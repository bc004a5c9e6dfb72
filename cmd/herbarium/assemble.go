package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview"
	"herbarium.garden/appview/index"
	"herbarium.garden/appview/ingest"
	"herbarium.garden/blobstore"
	"herbarium.garden/config"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/operator"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

// service is the assembled program.
type service struct {
	cfg     *config.Config
	log     *slog.Logger
	metrics *metrics
	api     http.Handler

	accounts *account.Store
	events   *sequencer.Sequencer
	repos    *repostore.Store
	blobs    *blobstore.Store
	consumer *ingest.Consumer
	crawler  *pds.Crawler // nil without CRAWLERS
	host     *pds.PDS
	index    *index.Index
	views    *appview.Appview
	content  index.Content // the bytes behind observations, as far as they are here

	closers []func() error // what was opened, in order
}

// ownSignatureSample is how many commits of this process's own PDS pass for
// each whose signature is verified again.
const ownSignatureSample = 100

// pruneEvery is how often the event log is cut to its retention.
const pruneEvery = 10 * time.Minute

// blobsEvery is how often the bucket is probed, and relieved of uploads that were
// begun before as long and never ended.
const blobsEvery = 24 * time.Hour

// takedownsEvery is how often the index is told again of what is taken down: it
// hears of each at once, and this heals what it missed.
const takedownsEvery = 10 * time.Minute

// lexiconsEvery is how soon a replica knows of a lexicon that another one added.
const lexiconsEvery = 2 * time.Second

// revalidateEvery is how soon records are judged again by what changed.
const revalidateEvery = time.Second

// purgesEvery is how often purges that were cut off go on, and purgesCheckEvery
// how often it is looked whether what was purged is there again.
const (
	purgesEvery      = 10 * time.Minute
	purgesCheckEvery = 24 * time.Hour
)

// deleteEvery is how often accounts are deleted whose owner set a time.
const deleteEvery = time.Minute

// expireEvery is how often the agents are looked for whose time is over.
const expireEvery = 10 * time.Second

// scrubEvery is how often it is looked whether blobs are due to be read again.
const scrubEvery = time.Minute

// citationsEvery is how often it is looked whether citations are to be checked
// again, for their evidence was superseded or its bytes are to be read.
const citationsEvery = 2 * time.Second

// searchEvery is how often it is looked whether there are blobs to be searched for secrets.
const searchEvery = time.Minute

// collectEvery is how often blobs are collected that nobody refers to.
const collectEvery = time.Hour

// parts are what runs beside the listeners, by the name that errors carry.
func (s *service) parts() map[string]func(context.Context) error {
	parts := map[string]func(context.Context) error{
		"accounts":  s.accounts.Run,
		"repos":     s.repos.Run,
		"sequencer": s.events.Run,
		"ingest":    s.consumer.Run,
		"changes":   s.views.Run,
		"retention": every(s.log, pruneEvery, "prune the event log and the changes", func(ctx context.Context) error {
			_, pruned := s.events.Prune(ctx)
			_, forgot := s.index.PruneChanges(ctx, s.cfg.EventRetention)
			return errors.Join(pruned, forgot)
		}),
		"bucket": every(s.log, blobsEvery, "look after the bucket of blobs", s.lookAfterBlobs),
		"blobs": every(s.log, collectEvery, "collect blobs", func(ctx context.Context) error {
			_, err := s.host.CollectBlobs(ctx, false)
			return err
		}),
		"scrub":        every(s.log, scrubEvery, "scrub the blobs", s.host.ScrubBlobs),
		"secrets":      every(s.log, searchEvery, "search the blobs for secrets", s.host.SearchBlobs),
		"takedowns":    every(s.log, takedownsEvery, "tell the index what is taken down", s.host.SyncTakedowns),
		"lexicons":     every(s.log, lexiconsEvery, "tell the index of the lexicons", s.host.SyncLexicons),
		"revalidation": every(s.log, revalidateEvery, "judge records again", s.revalidate),
		"citations": every(s.log, citationsEvery, "check citations again", func(ctx context.Context) error {
			return s.index.RecheckCitations(ctx, s.content)
		}),
		"deletions": every(s.log, deleteEvery, "delete accounts whose time has come", s.host.DeleteDue),
		"expiries":  every(s.log, expireEvery, "deactivate agents whose time is over", s.host.ExpireAgents),
		"purges":    every(s.log, purgesEvery, "complete the purges", s.host.ResumePurges),
		"purged":    every(s.log, purgesCheckEvery, "look for what was purged", s.host.RecheckPurges),
	}
	if s.crawler != nil {
		parts["crawlers"] = s.crawler.Run
	}
	return parts
}

// close closes what assemble opened, the last first. It may be called twice.
func (s *service) close() error {
	var errs []error
	for _, closer := range slices.Backward(s.closers) {
		errs = append(errs, closer())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// assemble puts the program together from its configuration: it opens the
// databases, which applies their migrations, and starts nothing.
func assemble(ctx context.Context, cfg *config.Config, log *slog.Logger) (_ *service, err error) {
	s := &service{cfg: cfg, log: log, metrics: newMetrics()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if cfg.DevLoopback {
		log.Warn("DEV_LOOPBACK is on: http on loopback counts as safe. Never in production")
	}
	pdsDB, err := s.open(ctx, migrations.PDS, cfg.PDSDB)
	if err != nil {
		return nil, err
	}
	keysExist, err := account.HasKeys(ctx, pdsDB)
	if err != nil {
		return nil, err
	}
	secrets, err := account.LoadOrCreateSecrets(secretsDir(cfg), account.GivenSecrets{
		MasterKey:     cfg.MasterKey.Reveal(),
		JWTSecret:     cfg.JWTSecret.Reveal(),
		AdminPassword: cfg.AdminPassword.Reveal(),
		KeysExist:     keysExist,
	})
	if err != nil {
		return nil, err
	}
	for _, path := range secrets.Created() {
		log.Info("made a secret", "path", path)
	}
	catalog, err := lexicons.Load()
	if err != nil {
		return nil, err
	}
	rules := lexicons.NewRules(catalog, settings(cfg))

	indexDB, err := s.open(ctx, migrations.Appview, cfg.AppviewDB)
	if err != nil {
		return nil, err
	}
	idx, err := index.New(index.Config{DB: indexDB, Rules: rules})
	if err != nil {
		return nil, err
	}

	if s.accounts, err = account.New(account.Config{
		DB: pdsDB, Secrets: secrets, PublicURL: cfg.PublicURL, ServiceDID: cfg.ServiceDID,
		HandleDomains: cfg.HandleDomains, Identity: account.IdentityKind(cfg.Identity), PLCURL: cfg.PLCURL,
		InviteRequired: cfg.Invites == config.InvitesRequired, KeyKind: account.KeyKind(cfg.KeyType), DevLoopback: cfg.DevLoopback,
		Report: func(err error) { log.Warn("accounts: work in the background failed", "err", err) },
	}); err != nil {
		return nil, err
	}
	// A wrong master key must be found before anything is signed or created.
	if err := s.accounts.EnsureHostKeys(ctx); err != nil {
		return nil, err
	}
	network := account.DirectoryConfig{
		Accounts: s.accounts, PLCURL: cfg.PLCURL, DevLoopback: cfg.DevLoopback, Listener: dialable(cfg.Listen),
	}
	directory, err := account.NewDirectory(network)
	if err != nil {
		return nil, err
	}
	handles, err := account.NewHandleResolver(network)
	if err != nil {
		return nil, err
	}
	if s.events, err = sequencer.New(ctx, sequencer.Config{
		DB: pdsDB, Log: log, Retention: cfg.EventRetention,
		// What the index has not applied yet stays, whatever its age.
		HoldBack: func(ctx context.Context) (int64, error) { return idx.Cursor(ctx, ownSourceName) },
	}); err != nil {
		return nil, err
	}
	if err := sameHistory(ctx, s.events, idx); err != nil {
		return nil, err
	}
	if s.repos, err = repostore.New(repostore.Config{DB: pdsDB, Sequencer: s.events, Rules: rules, Keys: s.accounts, SpoolDir: s.cfg.SpoolDir}); err != nil {
		return nil, err
	}
	if s.blobs, err = s.openBlobs(ctx); err != nil {
		return nil, err
	}
	host := &ownHost{accounts: s.accounts, repos: s.repos, events: s.events, blobs: s.blobs, publicURL: cfg.PublicURL.String(), team: cfg.TeamDIDs}
	if s.consumer, err = ingest.New(ingest.Config{
		Index: idx, Source: host, Fetcher: host, Directory: directory, Log: log, SampleSignatures: ownSignatureSample,
	}); err != nil {
		return nil, err
	}

	visibility := xrpc.Visibility(cfg.Visibility)
	var limits pds.Limits
	if cfg.RateLimits {
		limits = pds.DefaultLimits()
	}
	audit, err := operator.NewLog(pdsDB, nil)
	if err != nil {
		return nil, err
	}
	repoHost, err := pds.New(pds.Config{
		PublicURL: cfg.PublicURL, ServiceDID: cfg.ServiceDID, HandleDomains: cfg.HandleDomains, Visibility: visibility,
		PublicCollections: cfg.PublicCollections, InviteRequired: cfg.Invites == config.InvitesRequired, KeepObservations: cfg.ObservationDeletion == "admin", TeamDIDs: cfg.TeamDIDs,
		DevLoopback: cfg.DevLoopback, Limits: limits, BlobGrace: cfg.BlobGrace, BlobTrash: cfg.BlobTrash,
		Scrub: pds.Scrub{Every: cfg.BlobScrub, Rate: int64(cfg.BlobScrubRate)}, Version: buildVersion(),
		Links:       pds.Links{PrivacyPolicy: cfg.PrivacyPolicyURL, TermsOfService: cfg.TermsOfServiceURL},
		Contact:     pds.Contact{Email: cfg.ContactEmail},
		VerifyBlobs: cfg.BlobVerify, BlobRedirect: cfg.BlobRedirect,
	}, pds.Deps{
		DB: pdsDB, Accounts: s.accounts, Repos: s.repos, Events: s.events, Blobs: s.blobs, Rules: rules,
		Audit: audit, Index: besideIndex{idx}, Foresight: besideIndex{idx}.foresight, Directory: directory, Handles: handles, IsAdminPassword: secrets.IsAdminPassword, Log: log,
	})
	if err != nil {
		return nil, err
	}
	if len(cfg.Crawlers) > 0 {
		if s.crawler, err = pds.NewCrawler(pds.CrawlerConfig{
			Relays: cfg.Crawlers, PublicURL: cfg.PublicURL, Visibility: visibility, Events: s.events, DevLoopback: cfg.DevLoopback, Log: log,
		}); err != nil {
			return nil, err
		}
	}
	s.host, s.index, s.content = repoHost, idx, host
	views, err := appview.New(appview.Config{
		Index: idx, Directory: host, Arrivals: s.consumer, PublicCollections: cfg.PublicCollections, ActiveWithin: cfg.SessionActive, IdleWithin: cfg.SessionIdle,
		Service: appview.Service{DID: cfg.ServiceDID, Version: buildVersion(), Visibility: visibility, PublicURL: cfg.PublicURL.String()},
		Follow:  appview.Follow{StillMember: repoHost.Authenticator().StillMember, Log: log},
	})
	if err != nil {
		return nil, err
	}
	s.views = views
	server, err := xrpc.New(xrpc.Config{
		Catalog: catalog, Authenticator: repoHost.Authenticator(), Visibility: visibility, ServiceDID: cfg.ServiceDID, Log: log,
		Published:      len(cfg.PublicCollections) > 0,
		TrustedProxies: cfg.TrustedProxies, Admit: repoHost.Admit, Audit: repoHost.Audit, Observe: s.metrics.observe,
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(repoHost.Register(server), views.Register(server)); err != nil {
		return nil, err
	}
	s.api = server
	s.watch(ctx)
	s.watchStorage(ctx)
	return s, nil
}

// sameHistory refuses a PDS database that is older than what the index has
// seen of it, or another one: its seqs would be given out a second time, and
// what is written from now on would never be indexed.
func sameHistory(ctx context.Context, events *sequencer.Sequencer, idx *index.Index) error {
	last, err := events.Last(ctx)
	if err != nil {
		return err
	}
	seen, err := idx.Cursor(ctx, ownSourceName)
	if err != nil {
		return err
	}
	if seen > last {
		return fmt.Errorf("the index (APPVIEW_DB) has seen event %d of this host, and the event log (PDS_DB) ends at %d: "+
			"PDS_DB was lost, restored from an older backup, or is another one; bring back the PDS_DB that belongs to it, "+
			"or move APPVIEW_DB away to have it made anew from PDS_DB as it is", seen, last)
	}
	return nil
}

// open opens a database and closes it with the service.
func (s *service) open(ctx context.Context, name migrations.Database, dsn config.DSN) (*migrations.DB, error) {
	db, err := migrations.Open(ctx, name, dsn.Reveal())
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, db.Close)
	return db, nil
}

// openBlobs opens the blob store.
func (s *service) openBlobs(ctx context.Context) (*blobstore.Store, error) {
	bucket, err := blobstore.OpenBucket(ctx, s.cfg.Blobs)
	if err != nil {
		return nil, err
	}
	return blobstore.New(blobstore.Config{Bucket: bucket, SpoolDir: s.cfg.SpoolDir, Limit: int64(s.cfg.BlobLimit)})
}

// revalidatePause is the least time that applying gets between two pages of
// records that are judged again.
const revalidatePause = 20 * time.Millisecond

// revalidate judges again whatever is to be, and takes half of the time at most.
func (s *service) revalidate(ctx context.Context) error {
	for {
		start := time.Now()
		more, err := s.index.Revalidate(ctx)
		if err != nil || !more {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(revalidatePause, time.Since(start))):
		}
	}
}

// lookAfterBlobs logs what the bucket was found to do and gives up uploads that a
// crash cut off.
func (s *service) lookAfterBlobs(ctx context.Context) error {
	found, err := s.blobs.Probe(ctx)
	if err != nil {
		return err
	}
	s.log.Info("the bucket of blobs works", "found", found)
	aborted, err := s.blobs.AbortUploads(ctx, time.Now().Add(-blobsEvery))
	if aborted > 0 {
		s.log.Info("gave up uploads that never ended", "uploads", aborted)
	}
	return err
}

// watch adds the gauges of what runs.
func (s *service) watch(ctx context.Context) {
	s.metrics.gauge("herbarium_firehose_seq", "Last seq of the event log.", func() float64 {
		seq, err := s.events.Last(context.WithoutCancel(ctx))
		if err != nil {
			return -1
		}
		return float64(seq)
	})
	s.metrics.gauge("herbarium_firehose_subscribers", "Open connections of subscribeRepos.", func() float64 {
		return float64(len(s.events.Subscribers()))
	})
	s.metrics.gauge("herbarium_change_subscribers", "Open connections of subscribeChanges.", func() float64 {
		return float64(len(s.views.Followers()))
	})
	s.metrics.gauge("herbarium_index_seq", "Seq up to which the index has applied the event log.", func() float64 {
		return float64(s.consumer.Status().Cursor)
	})
	s.metrics.gauge("herbarium_records_quarantined", "Records that do not match their lexicon, and are in no view.", func() float64 {
		n, err := s.index.Quarantined(context.WithoutCancel(ctx))
		if err != nil {
			return -1
		}
		return float64(n)
	})
	s.metrics.gauge("herbarium_index_lag_seconds", "Age of the last event applied while there are more; 0 when caught up.", func() float64 {
		return s.consumer.Status().Lag.Seconds()
	})
}

// dids as a set.
func setOf(dids []syntax.DID) map[syntax.DID]bool {
	set := make(map[syntax.DID]bool, len(dids))
	for _, did := range dids {
		set[did] = true
	}
	return set
}
