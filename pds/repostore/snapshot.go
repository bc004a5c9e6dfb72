package repostore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// maxChain bounds the edges that a walk along a chain looks at.
const maxChain = 100_000

// futureSlack is how far in the future an rkey may lie and still win a fork.
const futureSlack = 24 * time.Hour

// snapshot is the lexicons.Snapshot of a view.
type snapshot struct {
	view *view
	now  time.Time
}

var _ lexicons.Snapshot = (*snapshot)(nil)

// locate splits the URI of a record; ok is false unless it names a DID, a
// collection and an rkey.
func locate(uri syntax.ATURI) (did syntax.DID, path string, ok bool) {
	rest, _ := strings.CutPrefix(string(uri), "at://")
	authority, path, _ := strings.Cut(rest, "/")
	if !strings.HasPrefix(authority, "did:") || strings.Count(path, "/") != 1 {
		return "", "", false
	}
	return syntax.DID(authority), path, true
}

func (s *snapshot) Record(ctx context.Context, uri syntax.ATURI) (*lexicons.StoredRecord, error) {
	did, path, ok := locate(uri)
	if !ok {
		return nil, nil
	}
	var (
		found *recordChange
		err   error
	)
	if did == s.view.did {
		found, err = s.view.record(ctx, path)
	} else {
		found, err = s.view.read.record(ctx, did, path)
	}
	if err != nil || found == nil {
		return nil, err
	}
	return &lexicons.StoredRecord{URI: uri, CID: found.cid, CBOR: found.cbor}, nil
}

func (s *snapshot) Tombstone(ctx context.Context, uri syntax.ATURI) (*lexicons.Tombstone, error) {
	did, path, ok := locate(uri)
	switch {
	case !ok:
		return nil, nil
	case did == s.view.did:
		return s.view.tombstone(ctx, path)
	default:
		return s.view.read.tombstone(ctx, did, path)
	}
}

func (s *snapshot) Blob(ctx context.Context, did syntax.DID, c cid.Cid) (*lexicons.StoredBlob, error) {
	b, err := s.view.read.blob(ctx, did, c)
	if err != nil || b == nil {
		return nil, err
	}
	return &lexicons.StoredBlob{CID: b.CID, MimeType: b.MimeType, Size: b.Size}, nil
}

func (s *snapshot) LiveSuccessor(ctx context.Context, uri syntax.ATURI) (*lexicons.StrongRef, error) {
	did, path, ok := locate(uri)
	if !ok {
		return nil, nil
	}
	chain := chain{did: did, successors: map[string][]string{}, live: map[string]cid.Cid{}}
	if err := chain.readFrom(ctx, s.view.read, path); err != nil {
		return nil, fmt.Errorf("walk the chain of %s: %w", uri, err)
	}
	if did == s.view.did {
		if err := chain.overlay(ctx, s.view, path); err != nil {
			return nil, fmt.Errorf("walk the chain of %s: %w", uri, err)
		}
	}
	head := chain.head(path, s.now)
	if head == "" {
		return nil, nil
	}
	return &lexicons.StrongRef{URI: recordURI(did, head), CID: chain.live[head]}, nil
}

// chain is the part of a repo's supersedes edges that descends from one observation.
type chain struct {
	did        syntax.DID
	successors map[string][]string // target's path -> successors' paths
	live       map[string]cid.Cid  // successors that are records now
	edges      int
}

// descentQuery walks down from a target (DID, target's URI, DID, URI prefix,
// DID, limit). It ends on cycles, because a UNION keeps each edge once. CROSS
// JOIN keeps SQLite from putting the edges outside: each step would then read
// all edges of the DID.
const descentQuery = `WITH RECURSIVE descent (target, successor) AS (
	SELECT target, successor FROM supersedes WHERE did = ? AND target = ?
	UNION
	SELECT s.target, s.successor FROM descent d CROSS JOIN supersedes s WHERE s.did = ? AND s.target = ? || d.successor
)
SELECT d.target, d.successor, r.cid FROM descent d
LEFT JOIN records r ON r.repo_id = (SELECT id FROM repos WHERE did = ?) AND r.path = d.successor LIMIT ?`

// readFrom reads the stored edges that descend from path.
func (c *chain) readFrom(ctx context.Context, read reader, path string) error {
	prefix := "at://" + string(c.did) + "/"
	return each(read.db.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			target, successor string
			key               []byte
		)
		if err := rows.Scan(&target, &successor, &key); err != nil {
			return err
		}
		c.add(strings.TrimPrefix(target, prefix), successor)
		if key != nil {
			at, err := castCID(key)
			if err != nil {
				return err
			}
			c.live[successor] = at
		}
		return nil
	}, descentQuery,
		string(c.did), prefix+path, string(c.did), prefix, string(c.did), maxChain)
}

func (c *chain) add(target, successor string) {
	for _, known := range c.successors[target] {
		if known == successor {
			return
		}
	}
	c.successors[target] = append(c.successors[target], successor)
	c.edges++
}

// overlay adds what waits in the view's layers: first the edges that descend
// from path, then the records and deletions.
func (c *chain) overlay(ctx context.Context, v *view, path string) error {
	reached := map[string]bool{path: true}
	for next := []string{path}; len(next) > 0; {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		uri := recordURI(c.did, at)
		for _, l := range v.layers {
			for _, successor := range l.successors[uri] {
				if c.edges >= maxChain {
					return nil
				}
				c.add(at, successor)
				// What is stored may name it already: an import brings edges before their target.
				if err := c.readFrom(ctx, v.read, successor); err != nil {
					return err
				}
			}
		}
		for _, successor := range c.successors[at] {
			if !reached[successor] {
				reached[successor] = true
				next = append(next, successor)
			}
		}
	}
	for _, l := range v.layers {
		for successor := range reached {
			if change, ok := l.records[successor]; !ok {
				continue
			} else if change.deleted() {
				delete(c.live, successor)
			} else {
				c.live[successor] = change.cid
			}
		}
	}
	return nil
}

// head answers the live record that descends from path and that no live one
// descends from, "" for none. Of a fork the greatest rkey wins.
func (c *chain) head(path string, now time.Time) string {
	latest := syntax.NewTIDFromTime(now.Add(futureSlack), 0).String()
	best := ""
	better := func(p string) bool {
		plausible := func(p string) int {
			if p[strings.LastIndexByte(p, '/')+1:] <= latest {
				return 1
			}
			return 0
		}
		return best == "" || cmp.Or(cmp.Compare(plausible(p), plausible(best)), cmp.Compare(p, best)) > 0
	}
	// descends tells whether a live record descends from p, and offers each
	// live record from which none does.
	visited := map[string]bool{}
	var descends func(p string) bool
	descends = func(p string) bool {
		if known, seen := visited[p]; seen {
			return known
		}
		visited[p] = false // a cycle leads nowhere
		found := false
		for _, successor := range c.successors[p] {
			below := descends(successor)
			_, live := c.live[successor]
			if live && !below && successor != path && better(successor) {
				best = successor
			}
			found = found || live || below
		}
		visited[p] = found
		return found
	}
	descends(path)
	return best
}
