package xrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

var (
	// ErrTooManySubscribers refuses a connection over SubscribersConfig.Max.
	ErrTooManySubscribers = Errorf(http.StatusServiceUnavailable, "TooManySubscribers", "there are as many subscribers here as there may be; try again later")
	// ErrSubscribersClosed refuses a connection to a server that is shutting down.
	ErrSubscribersClosed = Errorf(http.StatusServiceUnavailable, "ShuttingDown", "the host is shutting down")
	// ErrTooSlow is returned by a Feed whose next events are no longer kept.
	ErrTooSlow = errors.New("the subscriber is too slow")
)

// Defaults of SubscribersConfig.
const (
	DefaultMaxSubscribers = 1000
	DefaultWriteTimeout   = 30 * time.Second
	DefaultPingEvery      = 30 * time.Second
	DefaultReadmitEvery   = 5 * time.Second
)

const (
	// maxClientMessage bounds one message of a client; a longer one ends the connection.
	maxClientMessage = 1024 // bytes
	// closeGrace is how long Close lets a connection say goodbye.
	closeGrace = 5 * time.Second
)

// SubscribersConfig is what Subscribers are made of.
type SubscribersConfig struct {
	Log *slog.Logger // slog.Default() when nil
	// Max bounds open connections; DefaultMaxSubscribers when zero.
	Max int
	// WriteTimeout is how long one frame may take to be sent before the
	// subscriber counts as too slow; DefaultWriteTimeout when zero.
	WriteTimeout time.Duration
	// PingEvery is how long a connection may be silent before it is pinged;
	// DefaultPingEvery when zero.
	PingEvery time.Duration
	// ReadmitEvery is how often a subscriber's credential is looked at again;
	// DefaultReadmitEvery when zero.
	ReadmitEvery time.Duration
	// Last is the seq that Subscribers measures the lag from; no lag when nil.
	Last func() int64
	Now  func() time.Time // time.Now when nil
}

// Subscribers are the open websocket connections of one lexicon subscription:
// the way from a Feed of frames to clients of any pace. Each connection pulls
// from its feed in a goroutine of its own, so a slow one holds nobody up. Safe
// for concurrent use.
type Subscribers struct {
	cfg SubscribersConfig

	closed    chan struct{} // closed by Close
	closeOnce sync.Once

	mu   sync.Mutex
	all  map[*subscriber]struct{} // guarded by mu
	open sync.WaitGroup           // one for each connection; Add only under mu, before closing
}

// Feed is what one connection is sent: frames in order of their seq, of which
// those that are not for it may be missing.
type Feed interface {
	// Bounds are the cursor from which the feed is complete, 0 when nothing was
	// removed from it yet, and the highest seq that there is, 0 for none.
	Bounds(ctx context.Context) (oldest, last int64, err error)
	// Next returns some frames after cursor, in order, and the seq up to which it
	// looked: cursor itself at the end of the feed. ErrTooSlow when what follows
	// on cursor is no longer kept.
	Next(ctx context.Context, cursor int64) (frames []SeqFrame, upTo int64, err error)
	// Wait blocks until Next(cursor) may have something, or ctx ends.
	Wait(ctx context.Context, cursor int64) error
}

// SeqFrame is a whole websocket message with its place in the feed.
type SeqFrame struct {
	Seq   int64
	Frame []byte // not to be changed
}

// Subscriber tells about one open connection.
type Subscriber struct {
	Remote    string // address of the peer as the request has it
	UserAgent string
	Since     time.Time
	Cursor    int64 // last seq sent, or passed over
	Lag       int64 // how far behind the end of the feed
}

// subscriber is one open connection. conn and gone belong to Serve's goroutine.
type subscriber struct {
	remote, agent string
	since         time.Time
	feed          Feed
	cursor        atomic.Int64 // last seq sent, or passed over
	revoked       atomic.Bool  // the client may no longer read
	conn          *websocket.Conn
	gone          context.Context //nolint:containedctx // ends with the connection, which outlives no call of Serve
}

// NewSubscribers makes a Subscribers without connections. It starts nothing.
func NewSubscribers(cfg SubscribersConfig) *Subscribers {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Last == nil {
		cfg.Last = func() int64 { return 0 }
	}
	cfg.Max = cmp.Or(cfg.Max, DefaultMaxSubscribers)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, DefaultWriteTimeout)
	cfg.PingEvery = cmp.Or(cfg.PingEvery, DefaultPingEvery)
	cfg.ReadmitEvery = cmp.Or(cfg.ReadmitEvery, DefaultReadmitEvery)
	return &Subscribers{cfg: cfg, closed: make(chan struct{}), all: map[*subscriber]struct{}{}}
}

// Serve upgrades a request and sends the frames of feed until the client goes
// or Close is called. A nil cursor means from now on; a cursor is the last seq
// that the client has. admitted, when not nil, is asked every ReadmitEvery
// whether the client may still read; a no closes with code 1008. An error is
// returned only while the request can still be answered in plain HTTP.
func (s *Subscribers) Serve(w http.ResponseWriter, r *http.Request, feed Feed, cursor *int64, admitted func(context.Context) bool) error {
	sub := &subscriber{remote: r.RemoteAddr, agent: r.UserAgent(), since: s.cfg.Now(), feed: feed}
	if err := s.enter(sub); err != nil {
		return err
	}
	defer s.leave(sub)
	start, opening, fatal, err := sub.opening(r.Context(), cursor)
	if err != nil {
		return err
	}
	sub.cursor.Store(start)
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // any origin: nothing here goes by cookies
		CompressionMode:    websocket.CompressionDisabled,
	})
	if err != nil {
		return nil // Accept has answered
	}
	conn.SetReadLimit(maxClientMessage)
	sub.conn = conn
	// gone must not end with the request's context, or a server that shuts down
	// would cut connections instead of closing them.
	gone, hangUp := context.WithCancel(context.WithoutCancel(r.Context()))
	sub.gone = gone
	go func() { // ends with the connection
		defer hangUp()
		listen(gone, conn)
	}()
	ctx, cancel := context.WithCancel(gone)
	defer cancel()
	go s.watch(sub, cancel) // ends with the connection
	if admitted != nil {
		go sub.readmit(ctx, cancel, s.cfg.ReadmitEvery, admitted) // ends with ctx
	}
	s.finish(sub, s.stream(ctx, sub, opening, fatal))
	return nil
}

// listen reads until the connection ends: pongs and the client's close are
// handled on the way, and a client has nothing else to say that matters.
func listen(ctx context.Context, conn *websocket.Conn) {
	for {
		_, message, err := conn.Reader(ctx)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, message); err != nil {
			return
		}
	}
}

// watch stops the stream when the subscription closes. A write that is under way
// may still end in time for a proper goodbye.
func (s *Subscribers) watch(sub *subscriber, stop context.CancelFunc) {
	select {
	case <-sub.gone.Done():
		return
	case <-s.closed:
		stop()
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-sub.gone.Done():
	case <-grace.C:
		_ = sub.conn.CloseNow()
	}
}

// readmit asks again and again whether the client may still read, and stops the
// stream when not: a subscription outlives the look at its credential.
func (sub *subscriber) readmit(ctx context.Context, stop context.CancelFunc, every time.Duration, admitted func(context.Context) bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !admitted(ctx) && ctx.Err() == nil {
			sub.revoked.Store(true)
			stop()
			return
		}
	}
}

// opening decides where a subscription starts and what is said first: an
// #info about an outdated cursor, or the error frame that ends it (fatal).
func (sub *subscriber) opening(ctx context.Context, cursor *int64) (start int64, frame []byte, fatal bool, err error) {
	oldest, last, err := sub.feed.Bounds(ctx)
	if err != nil {
		return 0, nil, false, err
	}
	if cursor == nil {
		return last, nil, false, nil
	}
	start = max(*cursor, 0)
	switch {
	case start > last:
		frame, err = errorFrame("FutureCursor", fmt.Sprintf("the cursor is %d, but the last event here is %d", start, last))
		return start, frame, true, err
	case start < oldest:
		frame, err = infoFrame("OutdatedCursor", "the cursor is older than the events kept here; going on from the oldest of them")
		return oldest, frame, false, err
	default:
		return start, nil, false, nil
	}
}

// Why a stream ended, beside ErrTooSlow; what is none of these is our own fault.
var (
	errRefused = errors.New("the subscription was refused") // the error frame is out
	errGone    = errors.New("the client went away")
)

// stream sends frames until it cannot, or ctx ends.
func (s *Subscribers) stream(ctx context.Context, sub *subscriber, opening []byte, fatal bool) error {
	if opening != nil {
		if err := s.send(sub, opening); err != nil {
			return err
		}
	}
	if fatal {
		return errRefused
	}
	for {
		cursor := sub.cursor.Load()
		frames, upTo, err := sub.feed.Next(ctx, cursor)
		if err != nil {
			return err
		}
		for _, f := range frames {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := s.send(sub, f.Frame); err != nil {
				return err
			}
			sub.cursor.Store(f.Seq)
		}
		if upTo > cursor {
			sub.cursor.Store(upTo)
			continue
		}
		if err := s.idle(ctx, sub); err != nil {
			return err
		}
	}
}

// idle waits for the feed to grow, and pings the client when that takes long.
func (s *Subscribers) idle(ctx context.Context, sub *subscriber) error {
	waiting, cancel := context.WithTimeout(ctx, s.cfg.PingEvery)
	defer cancel()
	err := sub.feed.Wait(waiting, sub.cursor.Load())
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	pinging, cancel := context.WithTimeout(sub.gone, s.cfg.WriteTimeout)
	defer cancel()
	if err := sub.conn.Ping(pinging); err != nil {
		return errGone
	}
	return nil
}

// send writes one frame within the write deadline.
func (s *Subscribers) send(sub *subscriber, frame []byte) error {
	writing, cancel := context.WithTimeout(sub.gone, s.cfg.WriteTimeout)
	defer cancel()
	err := sub.conn.Write(writing, websocket.MessageBinary, frame)
	switch {
	case err == nil:
		return nil
	case sub.gone.Err() == nil && errors.Is(writing.Err(), context.DeadlineExceeded):
		return ErrTooSlow
	default:
		return errGone
	}
}

// finish closes the connection in the way that tells the client why.
func (s *Subscribers) finish(sub *subscriber, why error) {
	log := s.cfg.Log.With("remote", sub.remote, "seq", sub.cursor.Load())
	switch {
	case errors.Is(why, errRefused):
		_ = sub.conn.Close(websocket.StatusPolicyViolation, "FutureCursor")
	case errors.Is(why, ErrTooSlow):
		// Best effort: a write that timed out has broken the stream.
		if frame, err := errorFrame("ConsumerTooSlow", "the events that come next are no longer kept here, or were not taken in time"); err == nil {
			_ = s.send(sub, frame)
		}
		_ = sub.conn.Close(websocket.StatusPolicyViolation, "ConsumerTooSlow")
		log.Info("subscriber is too slow")
	case sub.revoked.Load():
		_ = sub.conn.Close(websocket.StatusPolicyViolation, "the credential is no longer good")
	case s.isClosed():
		_ = sub.conn.Close(websocket.StatusGoingAway, "the host is shutting down")
	case errors.Is(why, errGone) || sub.gone.Err() != nil:
		_ = sub.conn.CloseNow()
	default:
		_ = sub.conn.Close(websocket.StatusInternalError, "internal error")
		log.Error("subscription failed", "err", why)
	}
}

func (s *Subscribers) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

func (s *Subscribers) enter(sub *subscriber) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return ErrSubscribersClosed
	}
	if len(s.all) >= s.cfg.Max {
		return ErrTooManySubscribers
	}
	s.all[sub] = struct{}{}
	s.open.Add(1)
	return nil
}

func (s *Subscribers) leave(sub *subscriber) {
	s.mu.Lock()
	delete(s.all, sub)
	s.mu.Unlock()
	s.open.Done()
}

// Len is how many connections are open.
func (s *Subscribers) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// List is the open connections, oldest first.
func (s *Subscribers) List() []Subscriber {
	last := s.cfg.Last()
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Subscriber, 0, len(s.all))
	for sub := range s.all {
		cursor := sub.cursor.Load()
		list = append(list, Subscriber{
			Remote: sub.remote, UserAgent: sub.agent, Since: sub.since,
			Cursor: cursor, Lag: max(0, last-cursor),
		})
	}
	slices.SortFunc(list, func(a, b Subscriber) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Remote, b.Remote))
	})
	return list
}

// Close ends all connections with close code 1001 and waits for them; new ones
// are refused. It is safe to repeat.
func (s *Subscribers) Close() {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		close(s.closed)
		s.mu.Unlock()
	})
	s.open.Wait()
}
