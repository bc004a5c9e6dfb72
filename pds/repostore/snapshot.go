package repostore

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// maxChain bounds the edges that a walk along a chain looks at.
const maxChain = 100_000

// snapshot is the lexicons.Snapshot of a view.
type snapshot struct{ view *view }

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
	chain := newChain(did)
	if err := chain.readFrom(ctx, s.view.read, path); err != nil {
		return nil, fmt.Errorf("walk the chain of %s: %w", uri, err)
	}
	if did == s.view.did {
		if err := chain.overlay(ctx, s.view, path); err != nil {
			return nil, fmt.Errorf("walk the chain of %s: %w", uri, err)
		}
	}
	head := chain.head(path)
	if head == "" {
		return nil, nil
	}
	return &lexicons.StrongRef{URI: recordURI(did, head), CID: chain.live[head]}, nil
}

// chain is the part of a repo's supersedes edges that descends from one observation.
type chain struct {
	did        syntax.DID
	successors map[string][]string   // target's path -> successors' paths
	revs       map[string]syntax.TID // of the commit that wrote a successor; "" when not known
	live       map[string]cid.Cid    // successors that are records now
	edges      int
}

func newChain(did syntax.DID) *chain {
	return &chain{did: did, successors: map[string][]string{}, revs: map[string]syntax.TID{}, live: map[string]cid.Cid{}}
}

// descentQuery walks down from a target (DID, target's URI, DID, URI prefix,
// DID, limit). It ends on cycles, because a UNION keeps each edge once. CROSS
// JOIN keeps SQLite from putting the edges outside: each step would then read
// all edges of the DID.
const descentQuery = `WITH RECURSIVE descent (target, successor, rev) AS (
	SELECT target, successor, rev FROM supersedes WHERE did = ? AND target = ?
	UNION
	SELECT s.target, s.successor, s.rev FROM descent d CROSS JOIN supersedes s WHERE s.did = ? AND s.target = ? || d.successor
)
SELECT d.target, d.successor, d.rev, r.cid FROM descent d
LEFT JOIN records r ON r.repo_id = (SELECT id FROM repos WHERE did = ?) AND r.path = d.successor LIMIT ?`

// readFrom reads the stored edges that descend from path.
func (c *chain) readFrom(ctx context.Context, read reader, path string) error {
	prefix := "at://" + string(c.did) + "/"
	return each(read.db.WithContext(ctx), func(rows *sql.Rows) error {
		var (
			target, successor, rev string
			key                    []byte
		)
		if err := rows.Scan(&target, &successor, &rev, &key); err != nil {
			return err
		}
		c.add(strings.TrimPrefix(target, prefix), successor, syntax.TID(rev))
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

func (c *chain) add(target, successor string, rev syntax.TID) {
	c.revs[successor] = rev
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
				c.add(at, successor, l.edges[successor].rev)
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

// head answers the live record that the chain leads to from path, "" when none
// descends from it: at each fork it goes on into the successor that comes first
// by lexicons.CompareSuccessors.
func (c *chain) head(path string) (head string) {
	alive := c.alive(path)
	gone := map[string]bool{path: true} // a cycle leads nowhere
	for at := path; ; {
		var next string
		var best lexicons.Successor
		for _, p := range c.successors[at] {
			s := lexicons.Successor{URI: p, RecordKey: p[strings.LastIndexByte(p, '/')+1:], Alive: alive[p]}
			s.Future = c.revs[p] != "" && lexicons.FutureKey(s.RecordKey, c.revs[p].Time())
			if s.Alive && !gone[p] && (next == "" || lexicons.CompareSuccessors(s, best) < 0) {
				next, best = p, s
			}
		}
		if next == "" {
			return head
		}
		if _, live := c.live[next]; live {
			head = next
		}
		gone[next] = true
		at = next
	}
}

// alive finds what lives, or has a descendant that does, without recursion: a
// chain is as long as its author likes.
func (c *chain) alive(path string) map[string]bool {
	type step struct {
		path string
		next int // of its successors
	}
	alive, seen := map[string]bool{}, map[string]bool{path: true}
	for stack := []step{{path: path}}; len(stack) > 0; {
		top := &stack[len(stack)-1]
		if successors := c.successors[top.path]; top.next < len(successors) {
			p := successors[top.next]
			top.next++
			if !seen[p] {
				seen[p] = true
				_, alive[p] = c.live[p]
				stack = append(stack, step{path: p})
			}
			continue
		}
		for _, p := range c.successors[top.path] {
			alive[top.path] = alive[top.path] || alive[p]
		}
		stack = stack[:len(stack)-1]
	}
	return alive
}
