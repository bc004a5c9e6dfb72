package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/repo"
	"github.com/bluesky-social/indigo/events"
	"github.com/coder/websocket"
	"github.com/ipfs/go-cid"
	"github.com/stretchr/testify/require"
)

// moved is what migration.mjs reports of the account that it moved.
type moved struct {
	DID   string `json:"did"`
	Stays []struct {
		Host string `json:"host"`
		Key  string `json:"key"` // did:key that the document named then
	} `json:"stays"`
	Records map[string]string `json:"records"` // path -> CID
}

// migrate moves a new account along the hosts. Where a host of ours is
// left, it signs the operation; the reference is left by its owner's own key.
func migrate(t *testing.T, plc string, hosts ...string) moved {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	t.Log(node(t, "migration.mjs", append([]string{plc, "--report", file, "--admin-password", adminPassword}, hosts...)...))
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var report moved
	require.NoError(t, json.Unmarshal(raw, &report))
	require.Len(t, report.Stays, len(hosts))
	return report
}

// traveller is where a consumer that follows one account over all its hosts
// stands: it has seen no export, only events.
type traveller struct {
	did       string
	rev       string
	head      cid.Cid // the commit at rev
	data      cid.Cid // root of the tree at rev
	records   map[string]string
	commits   int
	syncs     int
	lastEvent string // of the account's status: host and status
}

// commit takes the next commit: signed by key, it must follow what was seen
// without a gap, and undo itself to where the traveller stands.
func (f *traveller) commit(t *testing.T, key atcrypto.PublicKey, msg *comatproto.SyncSubscribeRepos_Commit) {
	t.Helper()
	signed, _, err := repo.LoadRepoFromCAR(t.Context(), bytes.NewReader(msg.Blocks))
	require.NoError(t, err)
	require.NoError(t, signed.VerifySignature(key), "rev %s", msg.Rev)
	_, err = repo.VerifyCommitMessage(t.Context(), msg)
	require.NoError(t, err, "rev %s", msg.Rev)
	require.Greater(t, msg.Rev, f.rev)
	if f.rev != "" {
		require.NotNil(t, msg.Since, "rev %s", msg.Rev)
		require.Equal(t, f.rev, *msg.Since, "rev %s does not follow what was seen", msg.Rev)
		require.NotNil(t, msg.PrevData, "rev %s", msg.Rev)
		require.Equal(t, f.data.String(), msg.PrevData.String(), "rev %s", msg.Rev)
	}
	for _, op := range msg.Ops {
		if op.Cid == nil {
			delete(f.records, op.Path)
		} else {
			f.records[op.Path] = op.Cid.String()
		}
	}
	f.rev, f.head, f.data = signed.Rev, cid.Cid(msg.Commit), signed.Data
	f.commits++
}

// sync takes a #sync. It may name a commit that was not seen, made by an
// import, but never a tree that was not: then nothing was missed.
func (f *traveller) sync(t *testing.T, key atcrypto.PublicKey, msg *comatproto.SyncSubscribeRepos_Sync) {
	t.Helper()
	signed, head, err := repo.LoadCommitFromCAR(t.Context(), bytes.NewReader(msg.Blocks))
	require.NoError(t, err)
	f.syncs++
	if head.Equals(f.head) {
		// Seen, and verified, with the key of its time: the reference signs anew
		// only with the first write, and announces until then what the old host signed.
		return
	}
	require.NoError(t, signed.VerifySignature(key), "rev %s", msg.Rev)
	require.Equal(t, msg.Rev, signed.Rev)
	require.GreaterOrEqual(t, signed.Rev, f.rev)
	if f.rev != "" {
		require.Equal(t, f.data.String(), signed.Data.String(), "the #sync of rev %s has another tree than the events led to", msg.Rev)
	}
	f.rev, f.head, f.data = signed.Rev, *head, signed.Data
}

// stay follows the account on one host, from what next reads until the host
// says that the account is gone from there or, on its last host, until all
// records that it has are seen.
func (f *traveller) stay(t *testing.T, host, didKey string, next func(context.Context) (*events.XRPCStreamEvent, error), last map[string]string) {
	t.Helper()
	key, err := atcrypto.ParsePublicDIDKey(didKey)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		event, err := next(ctx)
		require.NoError(t, err, "%s, after %d commits", host, f.commits)
		switch {
		case event.RepoCommit != nil && event.RepoCommit.Repo == f.did:
			f.commit(t, key, event.RepoCommit)
		case event.RepoSync != nil && event.RepoSync.Did == f.did:
			f.sync(t, key, event.RepoSync)
		case event.RepoAccount != nil && event.RepoAccount.Did == f.did:
			status := "active"
			if !event.RepoAccount.Active {
				status = *event.RepoAccount.Status
			}
			wasHere := f.lastEvent == host+" active"
			f.lastEvent = host + " " + status
			if wasHere && status == "deactivated" {
				return // it may say so again later
			}
		}
		if last != nil && len(f.records) == len(last) && f.lastEvent == host+" active" {
			same := true
			for path, c := range last {
				same = same && f.records[path] == c
			}
			if same {
				return
			}
		}
	}
}

// verifyFirehoses follows the account along its hosts. stream opens the firehose
// of a host at its start; a host that comes again is read on.
func verifyFirehoses(t *testing.T, report moved, stream func(t *testing.T, host string) func(context.Context) (*events.XRPCStreamEvent, error)) *traveller {
	t.Helper()
	f := &traveller{did: report.DID, records: map[string]string{}}
	streams := map[string]func(context.Context) (*events.XRPCStreamEvent, error){}
	for i, stay := range report.Stays {
		if streams[stay.Host] == nil {
			streams[stay.Host] = stream(t, stay.Host)
		}
		var last map[string]string
		if i == len(report.Stays)-1 {
			last = report.Records
		}
		f.stay(t, stay.Host, stay.Key, streams[stay.Host], last)
	}
	require.Len(t, f.records, len(report.Records))
	require.Equal(t, report.Records, f.records)
	t.Logf("%d hosts, %d commits and %d #sync, no gap", len(report.Stays), f.commits, f.syncs)
	return f
}

// firehose opens the event stream of a public host at its start.
func firehose(t *testing.T, host string) func(context.Context) (*events.XRPCStreamEvent, error) {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(host, "http")+"/xrpc/com.atproto.sync.subscribeRepos?cursor=0", nil)
	require.NoError(t, err)
	conn.SetReadLimit(8 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return func(ctx context.Context) (*events.XRPCStreamEvent, error) {
		_, frame, err := conn.Read(ctx)
		if err != nil {
			return nil, err
		}
		var event events.XRPCStreamEvent
		return &event, event.Deserialize(bytes.NewReader(frame))
	}
}

// publicHost starts an instance that anybody may join and read.
func publicHost(t *testing.T, plc string, env ...string) *instance {
	t.Helper()
	return start(t, append([]string{
		"HERBARIUM_VISIBILITY=public", "HERBARIUM_INVITES=open", "HERBARIUM_IDENTITY=plc", "HERBARIUM_PLC_URL=" + plc,
	}, env...)...)
}

// An account moves from one Herbarium to another and comes back. Who follows
// both by their events alone misses nothing, and each index labels as baseline
// what it was not there to see written.
func TestMigrationBetweenHosts(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		plc := plcDirectory(t)
		home, away := publicHost(t, plc, env...), publicHost(t, plc)
		report := migrate(t, plc, home.url, away.url, home.url)
		f := verifyFirehoses(t, report, firehose)
		require.GreaterOrEqual(t, f.syncs, 2, "each activation tells where the repo stands")
		requireBaselines(t, baselines(t, home, report))
	})
}

// A did:web is bound to a name of the host that issued it: it moves by the word
// of that host, which goes on serving its document.
func TestMigrationOfADidWeb(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		// Two hosts of one machine tell their names apart by the port.
		web := append([]string{"HERBARIUM_VISIBILITY=public", "HERBARIUM_INVITES=open", "HERBARIUM_HANDLE_DOMAINS=.{port}.test"}, env...)
		home, away := start(t, web...), start(t, web[:3]...)
		report := migrate(t, "http://localhost:1", home.url, away.url, home.url)
		require.Regexp(t, `^did:web:mover-[0-9a-f]{8}\.\d+\.test$`, report.DID)
		verifyFirehoses(t, report, firehose)
		requireBaselines(t, baselines(t, home, report))
	})
}

// requireBaselines holds what an index was there to see written, and what it was
// not. When the account comes back its repo is read whole, at a moment of the
// index's own: what is written right after may be in it already or come by itself,
// and either is told as it was.
func requireBaselines(t *testing.T, baseline map[string]bool) {
	t.Helper()
	require.Len(t, baseline, 3)
	require.Contains(t, baseline, "seen in round 2")
	require.Equal(t, []bool{false, true}, []bool{baseline["seen in round 0"], baseline["seen in round 1"]})
}

// baselines reads the account's observations from the index of a host: for the
// text of each, whether it is a baseline.
func baselines(t *testing.T, in *instance, report moved) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for path, c := range report.Records {
		if !strings.HasPrefix(path, "garden.engram.agents.observation/") {
			continue
		}
		uri := "at://" + report.DID + "/" + path
		var got struct {
			CID, State string
			Value      struct{ Text string }
			Provenance struct{ Baseline bool }
		}
		eventually(t, time.Minute, "the index has "+uri, func() error {
			err := in.admin().Get(t.Context(), "garden.herbarium.getRecord", map[string]any{"uri": uri}, &got)
			if err == nil && got.CID != c {
				err = fmt.Errorf("its CID is %s", got.CID)
			}
			return err
		})
		found[got.Value.Text] = got.Provenance.Baseline
	}
	return found
}
