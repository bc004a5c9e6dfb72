package appview

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

// Follow is how subscribeChanges is served; zero fields are the defaults.
type Follow struct {
	// StillMember is asked again and again whether who opened a stream as a
	// member of the team still is one; nobody is asked when it is nil.
	StillMember func(ctx context.Context, r *http.Request, v xrpc.Viewer) bool
	// PollEvery is how soon changes of other processes are seen; 250 ms when zero.
	PollEvery time.Duration
	Log       *slog.Logger
	// Of the connections of members, and as many of others: see xrpc.SubscribersConfig.
	MaxSubscribers int
	WriteTimeout   time.Duration
	ReadmitEvery   time.Duration
}

// defaultPoll is Follow.PollEvery when that is zero.
const defaultPoll = 250 * time.Millisecond

// Bounds of what followers are served without the database.
const (
	recentChanges = 4096
	changesPage   = 256
)

type subscribeChangesParams struct {
	Cursor     *int64             `param:"cursor"`
	Collection []syntax.NSID      `param:"collection"`
	DID        []syntax.DID       `param:"did"`
	Kind       []index.ChangeKind `param:"kind"`
}

// wants tells whether the parameters ask for a change. What concerns all of a
// repo concerns each collection, and what concerns the index everybody.
func (p *subscribeChangesParams) wants(c *index.Change) bool {
	return (len(p.Kind) == 0 || slices.Contains(p.Kind, c.Kind)) &&
		(len(p.Collection) == 0 || c.Collection == "" || slices.Contains(p.Collection, c.Collection)) &&
		(len(p.DID) == 0 || c.DID == "" || slices.Contains(p.DID, c.DID))
}

func (a *Appview) subscribeChanges(ctx context.Context, call *xrpc.Call, p subscribeChangesParams) error {
	feed := &changesFeed{follower: a.follower, viewer: a.viewer(call.Viewer), params: p, now: a.now}
	cursor := p.Cursor
	if cursor == nil && feed.viewer.Restricted() {
		r, err := a.index.ChangesRange(ctx)
		if err != nil {
			return err
		}
		cursor = &r.Last
	}
	var admitted func(context.Context) bool
	if a.service.Visibility == xrpc.Team && call.Viewer.Member && a.stillMember != nil {
		admitted = func(ctx context.Context) bool { return a.stillMember(ctx, call.Request, call.Viewer) }
	}
	subscribers := a.follower.members
	if feed.viewer.Restricted() {
		subscribers = a.follower.strangers
	}
	return subscribers.Serve(call.Writer, call.Request, feed, cursor, admitted)
}

// Run lets followers hear of what changes until ctx ends, then closes their
// connections.
func (a *Appview) Run(ctx context.Context) error { return a.follower.run(ctx) }

// Followers lists the open connections of subscribeChanges, those of members
// first, the oldest first of each.
func (a *Appview) Followers() []xrpc.Subscriber {
	return append(a.follower.members.List(), a.follower.strangers.List()...)
}

// follower reads the changes of the index once for all who follow: the newest
// are kept in memory with their frames. It is silent while nobody does.
type follower struct {
	index *index.Index
	log   *slog.Logger
	every time.Duration
	// Whoever hears of published records alone takes no place of a member.
	members, strangers *xrpc.Subscribers

	mu     sync.Mutex
	recent []toldChange  // guarded by mu: ascending; all with after < seq <= head
	after  int64         // guarded by mu: where recent begins, exclusive
	head   int64         // guarded by mu: up to where was read; -1 while nobody follows
	bell   chan struct{} // guarded by mu: closed when head moves
}

// toldChange is a change and the message that tells it.
type toldChange struct {
	change index.Change
	frame  []byte
}

func newFollower(x *index.Index, f Follow, now func() time.Time) *follower {
	if f.PollEvery == 0 {
		f.PollEvery = defaultPoll
	}
	if f.Log == nil {
		f.Log = slog.Default()
	}
	w := &follower{index: x, log: f.Log, every: f.PollEvery, head: -1, bell: make(chan struct{})}
	config := xrpc.SubscribersConfig{
		Log: f.Log, Max: f.MaxSubscribers, WriteTimeout: f.WriteTimeout, ReadmitEvery: f.ReadmitEvery, Last: w.last, Now: now,
	}
	w.members, w.strangers = xrpc.NewSubscribers(config), xrpc.NewSubscribers(config)
	return w
}

func (w *follower) run(ctx context.Context) error {
	defer func() {
		w.members.Close()
		w.strangers.Close()
	}()
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.index.Changed():
		case <-tick.C:
		}
		// A database that is away for a while is no reason to stop: those who follow
		// wait. Said once per outage.
		err := w.read(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			w.log.WarnContext(ctx, "changes cannot be read", "err", err)
		}
		failing = err != nil
	}
}

// read takes in what changed since the last time.
func (w *follower) read(ctx context.Context) error {
	if w.members.Len()+w.strangers.Len() == 0 {
		w.mu.Lock()
		w.recent, w.head = nil, -1
		w.mu.Unlock()
		return nil
	}
	head := w.last()
	if head < 0 {
		r, err := w.index.ChangesRange(ctx)
		if err != nil {
			return err
		}
		w.advance(nil, r.Last)
		return nil
	}
	for {
		page, err := w.page(ctx, head)
		if err != nil || len(page) == 0 {
			return err
		}
		head = page[len(page)-1].change.Seq
		w.advance(page, head)
	}
}

// page reads changes after cursor from the database.
func (w *follower) page(ctx context.Context, cursor int64) ([]toldChange, error) {
	changes, err := w.index.Changes(ctx, cursor, changesPage)
	if err != nil {
		return nil, err
	}
	page := make([]toldChange, len(changes))
	for i, c := range changes {
		frame, err := changeFrame(&c)
		if err != nil {
			return nil, fmt.Errorf("change %d: %w", c.Seq, err)
		}
		page[i] = toldChange{c, frame}
	}
	return page, nil
}

// advance appends a page, up to head, and wakes who waits.
func (w *follower) advance(page []toldChange, head int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.head < 0 {
		w.after = head
	}
	w.head = head
	w.recent = append(w.recent, page...)
	if drop := len(w.recent) - recentChanges; drop > 0 {
		w.after = w.recent[drop-1].change.Seq
		clear(w.recent[:drop])
		w.recent = w.recent[drop:]
	}
	close(w.bell)
	w.bell = make(chan struct{})
}

func (w *follower) last() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head
}

// since are kept changes after cursor, a page at most; ok is false when memory
// does not reach back that far.
func (w *follower) since(cursor int64) (page []toldChange, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.head < 0 || cursor < w.after {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(w.recent, cursor+1, func(c toldChange, seq int64) int { return int(c.change.Seq - seq) })
	return slices.Clone(w.recent[i:min(i+changesPage, len(w.recent))]), true
}

// wait blocks until head is beyond cursor, or ctx ends.
func (w *follower) wait(ctx context.Context, cursor int64) error {
	for {
		w.mu.Lock()
		head, bell := w.head, w.bell
		w.mu.Unlock()
		if head > cursor {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-bell:
		}
	}
}

// changesFeed is what one connection is sent of the changes.
type changesFeed struct {
	*follower
	viewer index.Viewer
	params subscribeChangesParams
	now    func() time.Time
}

var _ xrpc.Feed = (*changesFeed)(nil)

// Bounds of the changes. When something last happened is nothing that a viewer
// is told who may know of some alone: to it the end is now, for seqs are times.
func (f *changesFeed) Bounds(ctx context.Context) (oldest, last int64, err error) {
	r, err := f.index.ChangesRange(ctx)
	if f.viewer.Restricted() {
		r.Last = max(r.Last, f.now().UnixMicro())
	}
	return r.Pruned, r.Last, err
}

// Next returns what of the next changes is for this connection.
func (f *changesFeed) Next(ctx context.Context, cursor int64) (frames []xrpc.SeqFrame, upTo int64, err error) {
	page, ok := f.since(cursor)
	if !ok {
		if page, err = f.page(ctx, cursor); err != nil {
			return nil, cursor, err
		}
		// After the page, or a removal between the two would go unseen.
		r, err := f.index.ChangesRange(ctx)
		if err != nil {
			return nil, cursor, err
		}
		if cursor < r.Pruned {
			return nil, cursor, xrpc.ErrTooSlow
		}
	}
	for i := range page {
		c := &page[i].change
		if upTo = c.Seq; !f.params.wants(c) {
			continue
		}
		told, err := f.index.Tells(ctx, f.viewer, c)
		if err != nil {
			return nil, cursor, err
		}
		if told {
			frames = append(frames, xrpc.SeqFrame{Seq: c.Seq, Frame: page[i].frame})
		}
	}
	return frames, max(upTo, cursor), nil
}

// Wait blocks until there are more changes, or ctx ends.
func (f *changesFeed) Wait(ctx context.Context, cursor int64) error { return f.wait(ctx, cursor) }

// changeFrame is the message that tells a change, by its lexicon: nothing in it
// depends on who is told.
func changeFrame(c *index.Change) ([]byte, error) {
	body := map[string]any{"seq": c.Seq, "time": string(datetime(c.At)), "kind": string(c.Kind)}
	set := func(name, value string) {
		if value != "" {
			body[name] = value
		}
	}
	set("uri", string(c.URI))
	set("did", string(c.DID))
	set("collection", string(c.Collection))
	set("cid", string(viewCID(c.CID)))
	set("rev", string(c.Rev))
	kind := "#record"
	switch c.Kind {
	case index.ChangeHead:
		kind = "#head"
		body["old"] = refBody(c.Old)
		if c.New != nil {
			body["new"] = refBody(c.New)
		}
	case index.ChangeFindingAdded, index.ChangeFindingRemoved:
		kind = "#finding"
		body["code"], body["severity"] = c.Code, string(c.Severity)
	case index.ChangeCitation:
		kind = "#citation"
		set("support", c.Support)
	case index.ChangeSession:
		kind = "#session"
		body["version"] = c.Version
		set("status", c.Status)
		if c.HandOver {
			body["handOver"] = true
		}
	case index.ChangeAccount:
		kind = "#account"
		body["active"] = c.Active
	case index.ChangeReindexed:
		kind = "#reindexed"
	}
	return xrpc.Frame(kind, body)
}

func refBody(r *lexicons.StrongRef) map[string]any {
	return map[string]any{"uri": string(r.URI), "cid": r.CID.String()}
}
