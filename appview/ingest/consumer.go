package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
)

// Index is what the consumer needs of package index. *index.Index satisfies it.
type Index interface {
	Apply(ctx context.Context, source string, cursor int64, events []index.Event) error
	Cursor(ctx context.Context, source string) (int64, error)
	Repos(ctx context.Context, dids []syntax.DID) (map[syntax.DID]index.Repo, error)
	ListRepos(ctx context.Context, v index.Viewer, sync index.SyncState, p index.Page) (index.List[index.Repo], error)
}

// Config is what a Consumer is made of. Source, Fetcher, Index and Directory
// are required.
type Config struct {
	Source    Source
	Fetcher   RepoFetcher
	Index     Index
	Directory Directory
	Log       *slog.Logger     // slog.Default() when nil
	Now       func() time.Time // time.Now when nil

	// SampleSignatures verifies the signature of every n-th commit only, for a
	// source whose commits this process has signed itself; 1 or less for all.
	// A repo that is fetched whole is always verified.
	SampleSignatures int
	MaxRepoBytes     int64 // DefaultMaxRepoBytes when zero
	PageSize         int   // events per transaction; DefaultPageSize when zero
	// Backoff is the pause before work that failed is tried again, doubled each
	// time up to MaxBackoff; DefaultBackoff when zero.
	Backoff time.Duration
}

// Defaults of Config.
const (
	DefaultPageSize = 200
	DefaultBackoff  = time.Second
	MaxBackoff      = 5 * time.Minute
)

// Consumer reads one source into the index.
type Consumer struct {
	cfg    Config
	verify *verifier
	resync *resyncer

	mu      sync.Mutex
	status  Status
	applied chan struct{} // closed and replaced after each transaction
}

// Status is how a consumer is doing.
type Status struct {
	Source    string
	Cursor    int64         // everything up to here is applied
	Lag       time.Duration // age of the last event applied, while there may be more; 0 when caught up
	CaughtUp  bool          // the last read found nothing new
	Applied   int64         // events applied since the start
	Rejected  int64         // events judged unfit since the start
	Resynced  int64         // repos taken whole since the start
	LastError string        // why it stands still; "" when it does not
}

// New makes a Consumer. It starts nothing.
func New(cfg Config) (*Consumer, error) {
	if cfg.Source == nil || cfg.Fetcher == nil || cfg.Index == nil || cfg.Directory == nil {
		return nil, errors.New("new consumer: want Source, Fetcher, Index and Directory")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.SampleSignatures = max(cfg.SampleSignatures, 1)
	if cfg.MaxRepoBytes <= 0 {
		cfg.MaxRepoBytes = DefaultMaxRepoBytes
	}
	if cfg.PageSize <= 0 {
		cfg.PageSize = DefaultPageSize
	}
	if cfg.Backoff <= 0 {
		cfg.Backoff = DefaultBackoff
	}
	v := &verifier{dir: cfg.Directory, now: cfg.Now, sample: int64(cfg.SampleSignatures), maxRepoBytes: cfg.MaxRepoBytes}
	c := &Consumer{cfg: cfg, verify: v, applied: make(chan struct{}), status: Status{Source: cfg.Source.Name()}}
	c.resync = &resyncer{consumer: c, retries: map[syntax.DID]*retry{}}
	return c, nil
}

// Status is how the consumer is doing now.
func (c *Consumer) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// WaitFor blocks until the index has did at rev or later, or ctx ends. It also
// sees what another process applied to the same index.
func (c *Consumer) WaitFor(ctx context.Context, did syntax.DID, rev syntax.TID) error {
	const poll = 200 * time.Millisecond
	for {
		c.mu.Lock()
		applied := c.applied
		c.mu.Unlock()
		repos, err := c.cfg.Index.Repos(ctx, []syntax.DID{did})
		if err != nil {
			return fmt.Errorf("wait for %s at %s: %w", did, rev, err)
		}
		if repos[did].Rev >= rev {
			return nil
		}
		timer := time.NewTimer(poll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait for %s at %s: %w", did, rev, ctx.Err())
		case <-applied:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Run reads, verifies and applies until ctx ends. What a source sends never
// ends it; work that our own database or the source refuses is tried again, and
// Status says so meanwhile.
func (c *Consumer) Run(ctx context.Context) error {
	if err := c.persist(ctx, "start", c.start); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := c.persist(ctx, "read events", c.step); err != nil {
			return err
		}
	}
	return nil
}

// persist does the work until it succeeds or ctx ends.
func (c *Consumer) persist(ctx context.Context, doing string, work func(context.Context) error) error {
	for pause := c.cfg.Backoff; ; pause = min(2*pause, MaxBackoff) {
		err := work(ctx)
		if ctx.Err() != nil {
			return nil
		}
		c.note(func(s *Status) { s.LastError = errorText(err) })
		if err == nil {
			return nil
		}
		c.cfg.Log.ErrorContext(ctx, "ingest stands still", "source", c.cfg.Source.Name(), "doing", doing, "error", err, "again_in", pause)
		if !sleep(ctx, pause) {
			return nil
		}
	}
}

// start finds out where to go on.
func (c *Consumer) start(ctx context.Context) error {
	cursor, err := c.cfg.Index.Cursor(ctx, c.cfg.Source.Name())
	if err != nil {
		return err
	}
	c.note(func(s *Status) { s.Cursor = cursor })
	return c.resync.loadPending(ctx)
}

// step takes in one page, or waits for one.
func (c *Consumer) step(ctx context.Context) error {
	if err := c.resync.due(ctx); err != nil {
		return err
	}
	cursor := c.Status().Cursor
	page, err := c.cfg.Source.ReadFrom(ctx, cursor, c.cfg.PageSize)
	var outdated *OutdatedCursorError
	if errors.As(err, &outdated) {
		return c.resync.all(ctx, outdated.Oldest)
	}
	if err != nil {
		return err
	}
	if len(page) == 0 {
		c.note(func(s *Status) { s.CaughtUp, s.Lag = true, 0 })
		return c.wait(ctx, cursor)
	}
	return c.take(ctx, page)
}

// wait ends with a new event, or when a resync is due.
func (c *Consumer) wait(ctx context.Context, cursor int64) error {
	until, ok := c.resync.next()
	if !ok {
		return c.cfg.Source.Wait(ctx, cursor)
	}
	waiting, cancel := context.WithTimeout(ctx, max(time.Millisecond, until.Sub(c.cfg.Now())))
	defer cancel()
	if err := c.cfg.Source.Wait(waiting, cursor); err != nil && waiting.Err() == nil {
		return err
	}
	return nil
}

// take applies a page in one transaction. When that fails it applies the
// events one by one, so that the cursor comes as far as it can.
func (c *Consumer) take(ctx context.Context, page []RawEvent) error {
	err := c.applyPage(ctx, page)
	if err == nil || len(page) == 1 || ctx.Err() != nil {
		return err
	}
	for _, raw := range page {
		if err := c.applyPage(ctx, []RawEvent{raw}); err != nil {
			return fmt.Errorf("event %d: %w", raw.Seq, err)
		}
	}
	return nil
}

func (c *Consumer) applyPage(ctx context.Context, page []RawEvent) error {
	p, err := c.prepare(ctx, page)
	if err != nil {
		return err
	}
	cursor := page[len(page)-1].Seq
	if err := c.cfg.Index.Apply(ctx, c.cfg.Source.Name(), cursor, p.events); err != nil {
		return err
	}
	c.note(func(s *Status) {
		s.Cursor, s.CaughtUp = cursor, false
		s.Applied += int64(len(page)) - p.rejected
		s.Rejected += p.rejected
		if !p.last.IsZero() {
			s.Lag = max(0, c.cfg.Now().Sub(p.last))
		}
	})
	c.announce()
	c.resync.request(p.desynchronized)
	return nil
}

// announce wakes who waits for a transaction.
func (c *Consumer) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.applied)
	c.applied = make(chan struct{})
}

func (c *Consumer) note(change func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.status)
}

// prepared is a page that was decoded and verified.
type prepared struct {
	events         []index.Event
	desynchronized []syntax.DID // repos that need a resync after this page
	rejected       int64
	last           time.Time // of the last event that tells its time
}

// prepare verifies a page against the known state of its repos, each event on
// top of those before it.
func (c *Consumer) prepare(ctx context.Context, page []RawEvent) (*prepared, error) {
	messages := make([]any, len(page))
	var dids []syntax.DID
	p := &prepared{}
	for i, raw := range page {
		message, err := decodeFrame(raw.Frame)
		if err != nil {
			p.rejected++
			c.cfg.Log.WarnContext(ctx, "unfit event", "source", c.cfg.Source.Name(), "seq", raw.Seq, "error", err)
			continue
		}
		did, at := about(message)
		if did == "" {
			continue
		}
		messages[i] = message
		dids = append(dids, did)
		if !at.IsZero() {
			p.last = at
		}
	}
	known, err := c.known(ctx, dids)
	if err != nil {
		return nil, err
	}
	for i, message := range messages {
		if message == nil {
			continue
		}
		did, _ := about(message)
		before := known[did]
		if err := c.judge(ctx, p, message, &before); err != nil {
			return nil, fmt.Errorf("event %d: %w", page[i].Seq, err)
		}
		known[did] = before
	}
	return p, nil
}

func (c *Consumer) known(ctx context.Context, dids []syntax.DID) (map[syntax.DID]index.Repo, error) {
	known := make(map[syntax.DID]index.Repo, len(dids))
	for len(dids) > 0 {
		n := min(len(dids), index.MaxBatch)
		part, err := c.cfg.Index.Repos(ctx, dids[:n])
		if err != nil {
			return nil, err
		}
		for _, did := range dids[:n] {
			r, ok := part[did]
			if !ok {
				r = index.Repo{DID: did, Active: true, Sync: index.SyncPending}
			}
			known[did] = r
		}
		dids = dids[n:]
	}
	return known, nil
}

// about reads the DID of a message, "" when it has none that may be indexed,
// and its time.
func about(message any) (syntax.DID, time.Time) {
	var did, at string
	switch m := message.(type) {
	case *comatproto.SyncSubscribeRepos_Commit:
		did, at = m.Repo, m.Time
	case *comatproto.SyncSubscribeRepos_Sync:
		did, at = m.Did, m.Time
	case *comatproto.SyncSubscribeRepos_Identity:
		did, at = m.Did, m.Time
	case *comatproto.SyncSubscribeRepos_Account:
		did, at = m.Did, m.Time
	}
	parsed, err := syntax.ParseDID(did)
	if err != nil || len(parsed) > maxDID {
		return "", time.Time{}
	}
	when, err := syntax.ParseDatetime(at)
	if err != nil {
		return parsed, time.Time{}
	}
	return parsed, when.Time()
}

// maxDID bounds a DID, in bytes: did:plc has 32, did:web a host name.
const maxDID = 300

// judge makes events of one message, on top of what is known of its repo, and
// moves that on. What does not hold desynchronizes the repo; only an error of
// our own is returned.
func (c *Consumer) judge(ctx context.Context, p *prepared, message any, known *index.Repo) error {
	switch m := message.(type) {
	case *comatproto.SyncSubscribeRepos_Commit:
		if known.Sync == index.SyncDesynchronized {
			p.desynchronized = append(p.desynchronized, known.DID) // a resync brings it
			return nil
		}
		e, err := c.verify.commit(ctx, m, *known)
		if err != nil {
			return c.unfit(ctx, p, known, err)
		}
		p.events = append(p.events, e)
		known.Rev, known.Commit, known.Data, known.Sync = e.Rev, e.CID, e.Data, index.SyncSynced
	case *comatproto.SyncSubscribeRepos_Sync:
		e, err := c.verify.sync(ctx, m, *known)
		if err != nil {
			return c.unfit(ctx, p, known, err)
		}
		if e == nil {
			c.desynchronize(p, known, "the host announced a new state of the repo")
			return nil
		}
		p.events = append(p.events, e)
		known.Rev, known.Commit, known.Data, known.Sync = e.Rev, e.CID, e.Data, index.SyncSynced
	case *comatproto.SyncSubscribeRepos_Account:
		e := &index.Account{DID: known.DID, Active: m.Active}
		if m.Status != nil && !m.Active {
			e.Status = *m.Status
		}
		p.events = append(p.events, e)
		if m.Active && known.Sync == index.SyncDesynchronized {
			p.desynchronized = append(p.desynchronized, known.DID) // its host may serve it again
		}
		if !m.Active && e.Status == "deleted" {
			*known = index.Repo{DID: known.DID, Status: e.Status, Sync: index.SyncPending}
		}
	case *comatproto.SyncSubscribeRepos_Identity:
		if e := c.identity(ctx, known.DID); e != nil {
			p.events = append(p.events, e)
		}
	}
	return nil
}

// unfit says what becomes of an event that does not hold.
func (c *Consumer) unfit(ctx context.Context, p *prepared, known *index.Repo, reason error) error {
	if errors.Is(reason, errKnown) {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err() // cut short, not unfit
	}
	p.rejected++
	c.cfg.Log.WarnContext(ctx, "unfit event", "source", c.cfg.Source.Name(), "did", known.DID, "error", reason)
	c.desynchronize(p, known, reason.Error())
	if errors.Is(reason, errUnreachable) {
		p.events = append(p.events, &index.Unreachable{DID: known.DID, Reason: reason.Error()})
	}
	return nil
}

func (c *Consumer) desynchronize(p *prepared, known *index.Repo, reason string) {
	p.events = append(p.events, &index.Desync{DID: known.DID, Reason: reason})
	p.desynchronized = append(p.desynchronized, known.DID)
	known.Sync = index.SyncDesynchronized
}

// identity looks a handle up anew; nil when the DID does not resolve now.
func (c *Consumer) identity(ctx context.Context, did syntax.DID) *index.Identity {
	if err := c.cfg.Directory.Purge(ctx, did.AtIdentifier()); err != nil {
		c.cfg.Log.WarnContext(ctx, "purge identity", "did", did, "error", err)
	}
	id, err := c.cfg.Directory.LookupDID(ctx, did)
	if err != nil {
		c.cfg.Log.WarnContext(ctx, "resolve identity", "did", did, "error", err)
		return nil
	}
	if id.Handle.IsInvalidHandle() {
		return &index.Identity{DID: did}
	}
	return &index.Identity{DID: did, Handle: id.Handle}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// sleep pauses; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
