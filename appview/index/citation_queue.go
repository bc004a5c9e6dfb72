package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
)

// ErrNoContent is returned by a Content that does not have the blob.
var ErrNoContent = errors.New("the content is not here")

// Content opens the bytes behind observations, as far as this process has them.
type Content interface {
	// OpenContent opens a blob of a repo. ErrNoContent when it cannot be had now.
	OpenContent(ctx context.Context, did syntax.DID, c cid.Cid) (io.ReadCloser, error)
}

// Bounds of the work on the queue.
const (
	recheckPage  = 100            // citing records in one transaction
	recheckTests = 32             // blobs that are read for one citing record before the next has its turn
	firstRetry   = time.Minute    // after which bytes that could not be had are asked for again,
	lastRetry    = 24 * time.Hour // twice as long each time, up to this
)

// RecheckCitations does what Apply leaves for later, until nothing is due: it
// compares citations with the new head of what they cite, and looks for them in
// the bytes behind it. Where it was cut off it goes on the next time. Several
// processes may do it at once.
//
// After it the answers do not depend on what it found first: they are those of
// Reindex.
func (x *Index) RecheckCitations(ctx context.Context, content Content) error {
	for worked := false; ; worked = true {
		var due []struct {
			Kind string
			URI  string `gorm:"column:uri"`
		}
		err := x.db.Read.WithContext(ctx).Raw("SELECT kind, uri FROM citation_queue WHERE due_at <= ? ORDER BY due_at, kind, uri LIMIT 1",
			migrations.FormatTime(x.now())).Scan(&due).Error
		if err != nil {
			return fmt.Errorf("read queue of citations: %w", err)
		}
		if len(due) == 0 {
			if worked {
				err = x.forgetContentTests(ctx)
			}
			return err
		}
		recheck := x.recheckRecord
		if due[0].Kind == queueHead {
			recheck = x.recheckHead
		}
		if err := recheck(ctx, due[0].URI, content); err != nil {
			return fmt.Errorf("check citations again, %s %s: %w", due[0].Kind, due[0].URI, err)
		}
	}
}

// recheckHead settles who was compared with a head that is none any more. The
// row's tries tell whether the head moved again meanwhile: then it stays.
func (x *Index) recheckHead(ctx context.Context, head string, _ Content) error {
	for after, last := "", false; !last; {
		err := x.db.Tx(ctx, func(tx *gorm.DB) error {
			w, err := x.newWriter(tx, "citations")
			if err != nil {
				return err
			}
			if after == "" {
				if err := tx.Exec("UPDATE citation_queue SET tries = 1 WHERE kind = ? AND uri = ?", queueHead, head).Error; err != nil {
					return err
				}
			}
			var from []string
			err = tx.Raw("SELECT DISTINCT from_uri FROM citations WHERE head_uri = ? AND from_uri > ? ORDER BY from_uri LIMIT ?",
				head, after, recheckPage).Scan(&from).Error
			if err != nil {
				return err
			}
			for _, uri := range from {
				w.restale[syntax.ATURI(uri)] = true
			}
			if err := w.settle(ctx); err != nil {
				return err
			}
			if last = len(from) < recheckPage; !last {
				after = from[len(from)-1]
				return nil
			}
			return tx.Exec("DELETE FROM citation_queue WHERE kind = ? AND uri = ? AND tries = 1", queueHead, head).Error
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recheckRecord reads the bytes that citations of one record wait for, and then
// settles it.
func (x *Index) recheckRecord(ctx context.Context, uri string, content Content) error {
	waits, err := x.awaited(ctx, syntax.ATURI(uri))
	if err != nil {
		return err
	}
	outcomes := map[contentKey]lexicons.Tested{}
	for i, t := range waits {
		if i == recheckTests {
			break
		}
		if _, done := outcomes[t.key()]; done {
			continue
		}
		if outcomes[t.key()], err = look(ctx, content, t); err != nil {
			return err
		}
	}
	return x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, "citations")
		if err != nil {
			return err
		}
		unavailable := false
		for key, t := range outcomes {
			if t.Reason == lexicons.ReasonUnavailable {
				unavailable = true
				continue
			}
			if err := w.keepOutcome(key, t); err != nil {
				return err
			}
		}
		// Before it is settled, which puts it on the queue again while it waits.
		var tries []int
		if err := tx.Raw("DELETE FROM citation_queue WHERE kind = ? AND uri = ? RETURNING tries", queueRecord, uri).Scan(&tries).Error; err != nil {
			return err
		}
		w.restale[syntax.ATURI(uri)] = true
		if err := w.settle(ctx); err != nil {
			return err
		}
		if !unavailable || len(tries) == 0 {
			return nil
		}
		again := w.now.Add(min(lastRetry, firstRetry<<min(tries[0], 20)))
		return tx.Exec("UPDATE citation_queue SET due_at = ?, tries = ? WHERE kind = ? AND uri = ?",
			migrations.FormatTime(again), tries[0]+1, queueRecord, uri).Error
	})
}

// awaited are the tests that the citations of a record wait for.
func (x *Index) awaited(ctx context.Context, uri syntax.ATURI) ([]*contentTest, error) {
	rec, err := x.Record(ctx, Viewer{Admin: true}, uri)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value := evidenceOf(string(rec.Collection), rec.CBOR)
	if value == nil {
		return nil, nil
	}
	checked, err := x.Examine(ctx, value, lexicons.FindCitations(value))
	if err != nil {
		return nil, err
	}
	var waits []*contentTest
	for _, c := range checked {
		waits = append(waits, c.waits...)
	}
	return waits, nil
}

// look runs a test on the bytes. Bytes that cannot be had, or that break off,
// are no verdict: they are asked for again.
func look(ctx context.Context, content Content, t *contentTest) (lexicons.Tested, error) {
	unavailable := lexicons.Tested{Verdict: lexicons.CitationUnknown, Haystack: lexicons.HaystackBlob, Reason: lexicons.ReasonUnavailable}
	if t.test.Blob.Size > lexicons.MaxEvidence {
		return t.test.Run(nil) // says so without a byte
	}
	bytes, err := content.OpenContent(ctx, t.did, t.test.Blob.CID)
	if err != nil {
		return unavailable, ctx.Err()
	}
	defer func() { _ = bytes.Close() }() // it was only read
	outcome, err := t.test.Run(bytes)
	if err != nil {
		return unavailable, ctx.Err()
	}
	return outcome, nil
}

func (w *writer) keepOutcome(key contentKey, t lexicons.Tested) error {
	start, end := bounds(t.At)
	err := w.tx.Exec("INSERT INTO content_tests ("+contentTestColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		key.did, key.cid, key.test, string(t.Verdict), t.Reason, start, end, t.Selected).Error
	if err != nil {
		return fmt.Errorf("keep outcome of a test of %s: %w", key.cid, err)
	}
	return nil
}

// forgetContentTests removes outcomes about blobs that no record names any more.
func (x *Index) forgetContentTests(ctx context.Context) error {
	err := x.db.Write.WithContext(ctx).Exec(`DELETE FROM content_tests WHERE NOT EXISTS
		(SELECT 1 FROM blob_refs b WHERE b.did = content_tests.did AND b.cid = content_tests.cid)`).Error
	if err != nil {
		return fmt.Errorf("forget tests of blobs that are gone: %w", err)
	}
	return nil
}
