package main_test

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// 64 clients write to eight repos, half of them with swapCommit, while the
// process is killed: nothing that was acknowledged is missing anywhere, and
// nothing that was refused is anywhere. TestSoakKill does the same for longer.
func TestKillWhile64ClientsWrite(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		killWhileClientsWrite(t, env, 2, 500*time.Millisecond)
	})
}

// The load of killWhileClientsWrite.
const (
	crashRepos   = 8
	crashWriters = 64
)

// killWhileClientsWrite kills the process so many times, each time after it
// took writes for a while, then holds against each other what the clients were
// told, the log of events from its start, what a follower saw across the
// crashes, the exported trees and the tables of records.
func killWhileClientsWrite(t *testing.T, env []string, kills int, between time.Duration) {
	in := start(t, append(env, "HERBARIUM_LOG_LEVEL=warn", "HERBARIUM_RATE_LIMITS=off")...)
	seen := followAcrossCrashes(t, in)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	told := &testimony{writes: map[write]outcome{}}
	clients := make([]*atclient.APIClient, crashRepos)
	for i := range clients {
		clients[i] = in.account(fmt.Sprintf("crash-%d.test", i))
		clients[i].Client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: crashWriters}}
	}
	for i := range crashWriters {
		w := &crashWriter{
			client: clients[i%crashRepos], told: told,
			clock: syntax.NewTIDClock(uint(i)),
			swaps: swaps(i%crashRepos, i/crashRepos),
			blobs: i/crashRepos == 0,
		}
		group.Go(func() error { return w.run(ctx) })
	}
	for kill := range kills + 1 {
		acked, until := told.acked.Load(), time.Now().Add(between)
		eventually(t, time.Minute+between, "writes are acknowledged", func() error {
			if n := told.acked.Load() - acked; n < crashWriters || time.Now().Before(until) {
				return fmt.Errorf("%d so far", n)
			}
			return ctx.Err() // a writer has given up
		})
		if kill < kills {
			in.kill() // while all of them write
			in.launch()
		}
	}
	stop()
	require.NoError(t, group.Wait())

	end := createNote(t, clients[0], "the end") // after all others, so it is where the log ends
	log := newWitness(t, in, clients)
	log.read(end)
	log.check(told, end)
	for _, client := range clients {
		log.checkRepo(*client.AccountDID)
	}
	seen.check(log)
	t.Logf("%d kills; %d writes acknowledged, %d of them with swapCommit; %d lost a swap; %d had no answer, of which %d landed; %d events; %d blobs",
		kills, told.acked.Load(), told.swapped.Load(), told.count(refusedWrite), told.count(unanswered), log.landed, len(log.frames), log.blobs)
	require.Positive(t, told.swapped.Load(), "some win a swap")
	require.Positive(t, told.count(refusedWrite), "some lose one")
	require.Positive(t, log.blobs)
}

// swaps says who writes with swapCommit: half of the 64. On three repos all do,
// on three nobody does, and on two every other one, who loses nearly always.
func swaps(repo, writer int) bool {
	switch {
	case repo < 3:
		return true
	case repo < 6:
		return false
	default:
		return writer%2 == 1
	}
}

// write is one operation that a client asked for; no two are the same.
type write struct {
	did   syntax.DID
	path  string
	value string // CID of the record; "" for a delete
}

// outcome is what the client was told of a write.
type outcome struct {
	kind   int
	commit string // the commit that has it, when it was acknowledged
}

const (
	unanswered   = iota // the connection broke: it may have landed or not
	acknowledged        // it landed
	refusedWrite        // it lost a swap: it must not have landed
)

// testimony collects what all clients were told.
type testimony struct {
	mu      sync.Mutex
	writes  map[write]outcome // guarded by mu
	acked   atomic.Int64
	swapped atomic.Int64 // acked with swapCommit
}

func (a *testimony) add(w write, o outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, twice := a.writes[w]; twice {
		panic(fmt.Sprintf("the test asks twice for %+v", w))
	}
	a.writes[w] = o
}

func (a *testimony) count(kind int) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.writes {
		if o.kind == kind {
			n++
		}
	}
	return n
}

// crashWriter is one client. It creates records of its own and changes and
// deletes some of them. The client (and its session) is shared by those who
// write to the same repo.
type crashWriter struct {
	client *atclient.APIClient
	told   *testimony
	clock  *syntax.TIDClock
	swaps  bool
	blobs  bool
	head   string // the commit that the next swap expects
}

const crashCollection = "com.example.crash"

// run goes on until ctx ends. A call that is under way then is still answered.
func (w *crashWriter) run(ctx context.Context) error {
	call := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		rkey := w.clock.Next().String()
		// A path whose state is in doubt is left alone.
		for step, method := range []syntax.NSID{"com.atproto.repo.createRecord", "com.atproto.repo.putRecord", "com.atproto.repo.deleteRecord"} {
			kind, err := w.ask(call, method, rkey, step)
			if err != nil {
				return err
			}
			if kind == unanswered {
				select { // the process is being started again
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
				}
			}
			if kind != acknowledged || ctx.Err() != nil || !w.goesOn(rkey) {
				break
			}
		}
	}
	return nil
}

// goesOn says whether a record is changed again: half of them are.
func (w *crashWriter) goesOn(rkey string) bool { return rkey[len(rkey)-3]%2 == 0 }

// ask makes one write and records what came of it.
func (w *crashWriter) ask(ctx context.Context, method syntax.NSID, rkey string, step int) (kind int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	asked := write{did: *w.client.AccountDID, path: crashCollection + "/" + rkey}
	body := map[string]any{"repo": asked.did, "collection": crashCollection, "rkey": rkey}
	if method != "com.atproto.repo.deleteRecord" {
		record := map[string]any{"$type": crashCollection, "rkey": rkey, "step": step}
		if w.blobs && step == 0 {
			blob, err := w.upload(ctx)
			if err != nil {
				return unanswered, refusal(err)
			}
			record["blob"] = blob
		}
		c, err := recordCID(record)
		if err != nil {
			return 0, err
		}
		asked.value, body["record"] = c.String(), record
	}
	if w.swaps {
		if w.head == "" {
			var latest struct{ CID string }
			if err := w.client.Get(ctx, "com.atproto.sync.getLatestCommit", map[string]any{"did": asked.did}, &latest); err != nil {
				return unanswered, refusal(err)
			}
			w.head = latest.CID
		}
		body["swapCommit"] = w.head
	}
	var out struct {
		CID    string
		Commit struct{ CID string }
	}
	err = w.client.Post(ctx, method, body, &out)
	w.head = ""
	var answer *atclient.APIError
	switch {
	case err == nil:
		if out.CID != asked.value {
			return 0, fmt.Errorf("%s of %s answers the CID %q, want %q", method, asked.path, out.CID, asked.value)
		}
		w.head = out.Commit.CID
		w.told.add(asked, outcome{acknowledged, out.Commit.CID})
		w.told.acked.Add(1)
		if w.swaps {
			w.told.swapped.Add(1)
		}
		return acknowledged, nil
	case errors.As(err, &answer) && answer.Name == "InvalidSwap" && w.swaps:
		w.told.add(asked, outcome{kind: refusedWrite})
		return refusedWrite, nil
	default:
		w.told.add(asked, outcome{kind: unanswered})
		return unanswered, refusal(err)
	}
}

// refusal is err when the host gave it as its answer, nil when there was none,
// as at a crash.
func refusal(err error) error {
	var answer *atclient.APIError
	if errors.As(err, &answer) && answer.StatusCode < http.StatusInternalServerError {
		return err
	}
	return nil
}

// upload stores a blob that nobody else has.
func (w *crashWriter) upload(ctx context.Context) (blob json.RawMessage, err error) {
	content := make([]byte, 1000)
	_, _ = crand.Read(content) // never fails
	req := atclient.NewAPIRequest(http.MethodPost, "com.atproto.repo.uploadBlob", bytes.NewReader(content))
	req.Headers.Set("Content-Type", "application/octet-stream")
	resp, err := w.client.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &atclient.APIError{StatusCode: resp.StatusCode}
	}
	var out struct{ Blob json.RawMessage }
	err = json.NewDecoder(resp.Body).Decode(&out)
	return out.Blob, err
}

// recordCID is the CID of a record, by indigo's encoder and not by the host's.
func recordCID(record map[string]any) (cid.Cid, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return cid.Undef, err
	}
	data, err := atdata.UnmarshalJSON(text)
	if err != nil {
		return cid.Undef, err
	}
	raw, err := atdata.MarshalCBOR(data)
	if err != nil {
		return cid.Undef, err
	}
	return cid.NewPrefixV1(cid.DagCBOR, multihash.SHA2_256).Sum(raw)
}
