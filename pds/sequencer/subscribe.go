package sequencer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

var (
	// ErrTooManySubscribers refuses a connection over Config.MaxSubscribers.
	ErrTooManySubscribers = errors.New("too many subscribers")
	// ErrClosed refuses a connection to a sequencer that is shutting down.
	ErrClosed = errors.New("sequencer is closed")
)

const (
	// subscribePage is how many events a subscriber takes at a time.
	subscribePage = 256
	// maxClientMessage bounds one message of a client; a longer one ends the connection.
	maxClientMessage = 1024 // bytes
	// closeGrace is how long Close lets a connection say goodbye.
	closeGrace = 5 * time.Second
)

// Subscriber tells about one open connection.
type Subscriber struct {
	Remote    string // address of the peer as the request has it
	UserAgent string
	Since     time.Time
	Cursor    int64 // last seq sent
	Lag       int64 // how far behind the end of the log
}

// subscriber is one open connection. conn and gone belong to Serve's goroutine.
type subscriber struct {
	remote, agent string
	since         time.Time
	cursor        atomic.Int64 // last seq sent
	revoked       atomic.Bool  // the client may no longer read
	conn          *websocket.Conn
	gone          context.Context //nolint:containedctx // ends with the connection, which outlives no call of Serve
}

// Serve answers com.atproto.sync.subscribeRepos: it upgrades the request and
// sends frames until the client goes or Close is called. A nil cursor means
// from now on; a cursor is the last seq that the client has. admitted, when
// not nil, is asked every ReadmitEvery whether the client may still read; a no
// closes with code 1008. An error is returned only while the request can still be answered in plain HTTP.
func (s *Sequencer) Serve(w http.ResponseWriter, r *http.Request, cursor *int64, admitted func(context.Context) bool) error {
	sub := &subscriber{remote: r.RemoteAddr, agent: r.UserAgent(), since: s.now()}
	if err := s.enter(sub); err != nil {
		return err
	}
	defer s.leave(sub)
	start, opening, fatal, err := s.opening(r.Context(), cursor)
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

// watch stops the stream when the sequencer closes. A write that is under way
// may still end in time for a proper goodbye.
func (s *Sequencer) watch(sub *subscriber, stop context.CancelFunc) {
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
func (s *Sequencer) opening(ctx context.Context, cursor *int64) (start int64, frame []byte, fatal bool, err error) {
	state, err := s.state(ctx)
	if err != nil {
		return 0, nil, false, err
	}
	if cursor == nil {
		return state.LastSeq, nil, false, nil
	}
	start = max(*cursor, 0)
	switch {
	case start > state.LastSeq:
		frame, err = failure("FutureCursor", fmt.Sprintf("the cursor is %d, but the last event here is %d", start, state.LastSeq))
		return start, frame, true, err
	case start < state.PrunedSeq:
		frame, err = info("OutdatedCursor", "the cursor is older than the events kept here; going on from the oldest of them")
		return state.PrunedSeq, frame, false, err
	default:
		return start, nil, false, nil
	}
}

// Why a stream ended; what is none of these is our own fault.
var (
	errRefused = errors.New("the subscription was refused") // the error frame is out
	errTooSlow = errors.New("the subscriber is too slow")
	errGone    = errors.New("the client went away")
)

// stream sends events until it cannot, or ctx ends.
func (s *Sequencer) stream(ctx context.Context, sub *subscriber, opening []byte, fatal bool) error {
	if opening != nil {
		if err := s.send(sub, opening); err != nil {
			return err
		}
	}
	if fatal {
		return errRefused
	}
	for {
		events, err := s.next(ctx, sub.cursor.Load())
		if err != nil {
			return err
		}
		for _, e := range events {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := s.send(sub, e.Frame); err != nil {
				return err
			}
			sub.cursor.Store(e.Seq)
		}
		if len(events) > 0 {
			continue
		}
		if err := s.idle(ctx, sub); err != nil {
			return err
		}
	}
}

// next reads the events after cursor and makes sure that none is missing.
func (s *Sequencer) next(ctx context.Context, cursor int64) ([]Event, error) {
	events, err := s.ReadFrom(ctx, cursor, subscribePage)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 || events[0].Seq == cursor+1 {
		return events, nil
	}
	// A hole: an erased DID, or retention has overtaken this reader.
	oldest, err := s.Oldest(ctx)
	if err != nil {
		return nil, err
	}
	if cursor < oldest {
		return nil, errTooSlow
	}
	return events, nil
}

// idle waits for the log to grow, and pings the client when that takes long.
func (s *Sequencer) idle(ctx context.Context, sub *subscriber) error {
	waiting, cancel := context.WithTimeout(ctx, s.cfg.PingEvery)
	defer cancel()
	err := s.Wait(waiting, sub.cursor.Load())
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
func (s *Sequencer) send(sub *subscriber, frame []byte) error {
	writing, cancel := context.WithTimeout(sub.gone, s.cfg.WriteTimeout)
	defer cancel()
	err := sub.conn.Write(writing, websocket.MessageBinary, frame)
	switch {
	case err == nil:
		return nil
	case sub.gone.Err() == nil && errors.Is(writing.Err(), context.DeadlineExceeded):
		return errTooSlow
	default:
		return errGone
	}
}

// finish closes the connection in the way that tells the client why.
func (s *Sequencer) finish(sub *subscriber, why error) {
	log := s.log.With("remote", sub.remote, "seq", sub.cursor.Load())
	switch {
	case errors.Is(why, errRefused):
		_ = sub.conn.Close(websocket.StatusPolicyViolation, "FutureCursor")
	case errors.Is(why, errTooSlow):
		// Best effort: a write that timed out has broken the stream.
		if frame, err := failure("ConsumerTooSlow", "the events that come next are no longer kept here, or were not taken in time"); err == nil {
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

func (s *Sequencer) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

func (s *Sequencer) enter(sub *subscriber) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	if len(s.subscribers) >= s.cfg.MaxSubscribers {
		return ErrTooManySubscribers
	}
	s.subscribers[sub] = struct{}{}
	s.open.Add(1)
	return nil
}

func (s *Sequencer) leave(sub *subscriber) {
	s.mu.Lock()
	delete(s.subscribers, sub)
	s.mu.Unlock()
	s.open.Done()
}

// Subscribers lists the open connections, oldest first.
func (s *Sequencer) Subscribers() []Subscriber {
	last := s.ring.last()
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Subscriber, 0, len(s.subscribers))
	for sub := range s.subscribers {
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

// Close ends all subscriptions with close code 1001 and waits for them; new
// ones are refused. Appending and reading still work. It is safe to repeat.
func (s *Sequencer) Close() error {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		close(s.closed)
		s.mu.Unlock()
	})
	s.open.Wait()
	return nil
}
