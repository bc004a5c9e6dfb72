package sequencer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

type cborMarshaler interface{ MarshalCBOR(w io.Writer) error }

var errNotYet = errors.New("sequencer: not built yet")

// Config is what a Sequencer is made of. DB is required.
type Config struct {
	DB  *migrations.DB
	Log *slog.Logger // slog.Default() when nil

	// Retention is how long an event stays readable; DefaultRetention when zero.
	Retention time.Duration
	// HoldBack, when set, is the cursor of a reader whose unread events Prune
	// must keep past their Retention (our own index), up to MaxRetention.
	HoldBack func(ctx context.Context) (seq int64, err error)
	// MaxSubscribers bounds open websocket connections; DefaultMaxSubscribers when zero.
	MaxSubscribers int

	Now func() time.Time // time.Now when nil
}

// Defaults and bounds of Config.
const (
	DefaultRetention      = 72 * time.Hour
	MaxRetention          = 30 * 24 * time.Hour
	DefaultMaxSubscribers = 1000
)

// Event is one stored event.
type Event struct {
	Seq       int64
	DID       syntax.DID
	Kind      Kind
	Frame     []byte // the whole websocket message: header and body. Not to be changed
	CreatedAt string // RFC 3339, milliseconds, UTC
}

// Sequencer is the event log of one PDS database.
type Sequencer struct{}

// New checks the configuration and reads where the log ends. It starts nothing.
func New(ctx context.Context, cfg Config) (*Sequencer, error) { return nil, errNotYet }

// Batch is what one Append appended. It means nothing until the transaction
// has committed.
type Batch struct{ events []Event }

// Last is the seq of the batch's last event, 0 when it is empty.
func (b Batch) Last() int64 {
	if len(b.events) == 0 {
		return 0
	}
	return b.events[len(b.events)-1].Seq
}

// Append gives the drafts their seqs, in order, and stores their frames,
// inside the caller's transaction (tx). Call it once, as the last statement of
// the transaction: from here to the commit every other appender of the
// database waits, which is what makes commit order seq order.
func (s *Sequencer) Append(ctx context.Context, tx *gorm.DB, drafts ...Draft) (Batch, error) {
	return Batch{}, errNotYet
}

// Published says that the transaction which appended the batch has committed:
// readers wake and get the frames from memory. A process that dies before this
// loses nothing, for readers also find the events in the database.
func (s *Sequencer) Published(b Batch) {}

// ReadFrom returns up to limit events with a seq greater than cursor, in order.
// It returns none, and no error, at the end of the log.
func (s *Sequencer) ReadFrom(ctx context.Context, cursor int64, limit int) ([]Event, error) {
	return nil, errNotYet
}

// Wait blocks until the log has an event after cursor, or ctx ends.
func (s *Sequencer) Wait(ctx context.Context, cursor int64) error { return errNotYet }

// Last is the highest seq ever given out and committed, 0 for none.
func (s *Sequencer) Last(ctx context.Context) (int64, error) { return 0, errNotYet }

// Oldest is the cursor from which the log is complete: a reader behind it has
// missed events that retention removed. 0 when nothing was removed yet.
func (s *Sequencer) Oldest(ctx context.Context) (int64, error) { return 0, errNotYet }

// Erase removes every stored event of a DID, inside the caller's transaction
// (tx): after the deletion of an account, or a purge, its older events must not
// be read again. Append the #account event after it. Call Erased once the
// transaction has committed.
func (s *Sequencer) Erase(ctx context.Context, tx *gorm.DB, did syntax.DID) error { return errNotYet }

// Erased drops the frames of a DID from memory after Erase has committed.
func (s *Sequencer) Erased(did syntax.DID) {}

// Advance makes every seq to come greater than atLeast, and never lowers it.
// A restore from a backup calls it, for consumers may have seen seqs that the
// backup has not.
func (s *Sequencer) Advance(ctx context.Context, atLeast int64) error { return errNotYet }

// Prune removes events older than Retention and returns how many. What
// HoldBack has not read yet stays, up to MaxRetention.
func (s *Sequencer) Prune(ctx context.Context) (int64, error) { return 0, errNotYet }

// Run looks for events of other processes on the same database (Postgres) and,
// when ctx ends, closes the subscribers' connections with code 1001.
func (s *Sequencer) Run(ctx context.Context) error { return errNotYet }

// Serve answers com.atproto.sync.subscribeRepos: it upgrades the request and
// sends frames until the client or the server goes. A nil cursor means from now
// on. An error is returned only while the request can still be answered in
// plain HTTP.
func (s *Sequencer) Serve(w http.ResponseWriter, r *http.Request, cursor *int64) error {
	return errNotYet
}

// Subscriber tells about one open connection.
type Subscriber struct {
	Remote    string
	UserAgent string
	Since     time.Time
	Cursor    int64 // last seq sent
	Lag       int64 // events that it has not been sent yet
}

// Subscribers lists the open connections, oldest first.
func (s *Sequencer) Subscribers() []Subscriber { return nil }
