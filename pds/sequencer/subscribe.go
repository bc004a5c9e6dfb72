package sequencer

import (
	"context"
	"net/http"

	"herbarium.garden/lexicons/xrpc"
)

// subscribePage is how many events a subscriber takes at a time.
const subscribePage = 256

// Serve answers com.atproto.sync.subscribeRepos: see xrpc.Subscribers.Serve.
func (s *Sequencer) Serve(w http.ResponseWriter, r *http.Request, cursor *int64, admitted func(context.Context) bool) error {
	return s.subscribers.Serve(w, r, feed{s}, cursor, admitted)
}

// Subscribers lists the open connections, oldest first.
func (s *Sequencer) Subscribers() []xrpc.Subscriber { return s.subscribers.List() }

// Close ends all subscriptions with close code 1001 and waits for them; new
// ones are refused. Appending and reading still work. It is safe to repeat.
func (s *Sequencer) Close() error {
	s.subscribers.Close()
	return nil
}

// feed is the whole log, as every subscriber is sent it.
type feed struct{ *Sequencer }

var _ xrpc.Feed = feed{}

func (f feed) Bounds(ctx context.Context) (oldest, last int64, err error) {
	state, err := f.state(ctx)
	return state.PrunedSeq, state.LastSeq, err
}

// Next reads the events after cursor and makes sure that none is missing.
func (f feed) Next(ctx context.Context, cursor int64) ([]xrpc.SeqFrame, int64, error) {
	events, err := f.ReadFrom(ctx, cursor, subscribePage)
	if err != nil || len(events) == 0 {
		return nil, cursor, err
	}
	if events[0].Seq != cursor+1 {
		// A hole: an erased DID, or retention has overtaken this reader.
		oldest, err := f.Oldest(ctx)
		if err != nil {
			return nil, cursor, err
		}
		if cursor < oldest {
			return nil, cursor, xrpc.ErrTooSlow
		}
	}
	frames := make([]xrpc.SeqFrame, len(events))
	for i, e := range events {
		frames[i] = xrpc.SeqFrame{Seq: e.Seq, Frame: e.Frame}
	}
	return frames, events[len(events)-1].Seq, nil
}
