package pds

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"herbarium.garden/lexicons/xrpc"
)

// How often relays are asked.
const (
	// crawlEvery is the least time between two requests that a relay took, as at
	// the reference host.
	crawlEvery = 20 * time.Minute
	// crawlRetry is how long a relay is left alone after a request that it did
	// not take; twice as long after each further one, up to crawlRetryMost.
	crawlRetry     = time.Minute
	crawlRetryMost = 4 * time.Hour
	// crawlLook is how often it is looked again whether anybody listens, while
	// there are writes and somebody does.
	crawlLook = time.Minute
)

const (
	crawlTimeout = 30 * time.Second
	crawlAnswer  = 4 << 10 // bytes of a relay's answer that are read
)

// eventLog is what a Crawler has to know of the event log.
// sequencer.Sequencer satisfies it.
type eventLog interface {
	Last(ctx context.Context) (seq int64, err error)
	Wait(ctx context.Context, cursor int64) error
	Subscribers() []xrpc.Subscriber
}

// CrawlerConfig is what a Crawler is made of. Relays, PublicURL, Visibility
// and Events are required.
type CrawlerConfig struct {
	// Relays are asked to crawl this host: a scheme and an authority each, https
	// or, with DevLoopback, http on loopback.
	Relays []*url.URL
	// PublicURL is where this host answers; its authority is what relays are told.
	PublicURL *url.URL
	// Visibility must be xrpc.Public: what only the team may read is announced
	// to nobody.
	Visibility  xrpc.Visibility
	Events      eventLog
	DevLoopback bool

	Log    *slog.Logger                           // slog.Default() when nil
	Client *http.Client                           // one that reaches public addresses only when nil
	After  func(d time.Duration) <-chan time.Time // time.After when nil
}

// Crawler asks relays to crawl this host (com.atproto.sync.requestCrawl): once
// there is an account, and again, every 20 minutes at most, when there are
// writes and nobody is subscribed to hear of them. A relay that went away for
// long has forgotten us, and does not come back by itself. Each process asks
// for itself, and knows only its own subscribers.
type Crawler struct {
	cfg CrawlerConfig
}

// NewCrawler checks the configuration. It starts nothing.
func NewCrawler(cfg CrawlerConfig) (*Crawler, error) {
	switch {
	case len(cfg.Relays) == 0:
		return nil, errors.New("crawler: CrawlerConfig.Relays is required")
	case cfg.PublicURL == nil || cfg.PublicURL.Host == "":
		return nil, errors.New("crawler: CrawlerConfig.PublicURL is required")
	case cfg.Visibility != xrpc.Public:
		return nil, fmt.Errorf("crawler: in visibility %q nobody is asked to crawl this host", cfg.Visibility)
	case cfg.Events == nil:
		return nil, errors.New("crawler: CrawlerConfig.Events is required")
	}
	for _, relay := range cfg.Relays {
		if !mayDial(relay, cfg.DevLoopback) {
			return nil, fmt.Errorf("crawler: relay %s: want a https URL", relay.Redacted())
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Client == nil {
		cfg.Client = newProxyClient(cfg.DevLoopback)
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	return &Crawler{cfg: cfg}, nil
}

// Run asks until ctx ends. A relay that does not answer holds up no other.
func (c *Crawler) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, relay := range c.cfg.Relays {
		group.Go(func() error { return c.tell(ctx, relay) })
	}
	return group.Wait()
}

// tell asks one relay, again and again.
func (c *Crawler) tell(ctx context.Context, relay *url.URL) error {
	// An account's first event is what there is to crawl; it may be long pruned.
	if seq, err := c.cfg.Events.Last(ctx); err != nil || seq == 0 {
		if err := c.unheard(ctx, 0, func() bool { return false }); err != nil {
			return err
		}
	}
	for failures := 0; ; {
		seq, err := c.cfg.Events.Last(ctx)
		if err != nil {
			c.cfg.Log.WarnContext(ctx, "requestCrawl: the event log cannot be read", "err", err)
		}
		pause := crawlEvery
		if c.request(ctx, relay) {
			failures = 0
		} else {
			pause = min(crawlRetry<<min(failures, 10), crawlRetryMost)
			failures++
		}
		if err := c.pause(ctx, pause); err != nil {
			return err
		}
		if failures > 0 {
			continue
		}
		heard := func() bool { return len(c.cfg.Events.Subscribers()) > 0 }
		if err := c.unheard(ctx, seq, heard); err != nil {
			return err
		}
	}
}

// unheard blocks until there is an event after seq while nobody listens.
func (c *Crawler) unheard(ctx context.Context, seq int64, heard func() bool) error {
	for {
		err := c.cfg.Events.Wait(ctx, seq)
		if err == nil && !heard() {
			return nil
		}
		if err == nil { // what was heard needs no crawl; look again from here
			seq, err = c.cfg.Events.Last(ctx)
		}
		if err != nil && ctx.Err() == nil {
			c.cfg.Log.WarnContext(ctx, "requestCrawl: the event log cannot be read", "err", err)
		}
		if err := c.pause(ctx, crawlLook); err != nil {
			return err
		}
	}
}

func (c *Crawler) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-c.cfg.After(d):
		return nil
	}
}

// request asks one relay once, logs what it says, and reports whether it took
// the request.
func (c *Crawler) request(ctx context.Context, relay *url.URL) bool {
	log := c.cfg.Log.With("relay", relay.Host)
	status, answer, err := c.post(ctx, relay)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		log.WarnContext(ctx, "requestCrawl failed", "err", err)
		return false
	case status/100 != 2:
		var refusal struct{ Error, Message string }
		if json.Unmarshal(answer, &refusal) != nil {
			refusal.Message = string(answer)
		}
		log.WarnContext(ctx, "the relay refused requestCrawl", "status", status, "error", refusal.Error, "message", refusal.Message)
		return false
	}
	log.InfoContext(ctx, "the relay was asked to crawl this host", "hostname", c.cfg.PublicURL.Host)
	return true
}

// post sends the request and answers the status and the beginning of the body.
func (c *Crawler) post(ctx context.Context, relay *url.URL) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, crawlTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]string{"hostname": c.cfg.PublicURL.Host})
	if err != nil {
		return 0, nil, err
	}
	target := relay.JoinPath("xrpc", "com.atproto.sync.requestCrawl")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.cfg.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, crawlAnswer))
	if err != nil && resp.StatusCode/100 == 2 {
		err = nil // it took the request, whatever it meant to say
	}
	return resp.StatusCode, answer, err
}
