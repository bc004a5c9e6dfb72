package ingest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/bluesky-social/indigo/atproto/atdata"
	blocks "github.com/ipfs/go-block-format"
	"github.com/ipfs/go-cid"
	ipld "github.com/ipfs/go-ipld-format"

	"herbarium.garden/lexicons"
)

// limits of one CAR file.
type carLimits struct {
	bytes  int64 // of the whole file
	blocks int
}

// maxBlock bounds one block, in bytes: a record is at most 1 MiB, an MST node
// and a commit far less.
const maxBlock = 2 << 20

// car is a CAR v1 file with one root, each block hashed.
type car struct {
	root   cid.Cid
	blocks map[cid.Cid][]byte
}

// readCAR reads a CAR v1 file from anyone. The readers that exist trust the
// CIDs in it; this one takes SHA-256 over DAG-CBOR alone and hashes each block.
func readCAR(r io.Reader, limits carLimits) (*car, error) {
	in := bufio.NewReader(r)
	budget := limits.bytes
	header, err := readSection(in, &budget)
	if err != nil {
		return nil, fmt.Errorf("car header: %w", err)
	}
	root, err := parseHeader(header)
	if err != nil {
		return nil, fmt.Errorf("car header: %w", err)
	}
	c := &car{root: root, blocks: map[cid.Cid][]byte{}}
	for n := 0; ; n++ {
		section, err := readSection(in, &budget)
		if errors.Is(err, io.EOF) {
			return c, nil
		}
		if err != nil {
			return nil, fmt.Errorf("car block %d: %w", n, err)
		}
		if n == limits.blocks {
			return nil, fmt.Errorf("car has over %d blocks", limits.blocks)
		}
		id, data, err := splitBlock(section)
		if err != nil {
			return nil, fmt.Errorf("car block %d: %w", n, err)
		}
		c.blocks[id] = data
	}
}

// readSection reads one length-prefixed section and takes it off the budget of
// the file; io.EOF exactly at the end.
func readSection(in *bufio.Reader, budget *int64) ([]byte, error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err // io.EOF before the first byte, io.ErrUnexpectedEOF inside
	}
	if size == 0 || size > maxBlock {
		return nil, fmt.Errorf("section of %d bytes, want 1 to %d", size, maxBlock)
	}
	if *budget -= int64(size); *budget < 0 {
		return nil, errors.New("the file is over its limit")
	}
	// Grow with what comes, not with what is announced.
	var b bytes.Buffer
	if n, err := io.CopyN(&b, in, int64(size)); err != nil {
		return nil, fmt.Errorf("section cut off after %d of %d bytes", n, size)
	}
	return b.Bytes(), nil
}

func parseHeader(raw []byte) (cid.Cid, error) {
	header, err := lexicons.DecodeCBOR(raw)
	if err != nil {
		return cid.Undef, err
	}
	if version, _ := header["version"].(int64); version != 1 {
		return cid.Undef, fmt.Errorf("version %v, want 1", header["version"])
	}
	roots, _ := header["roots"].([]any)
	if len(roots) == 0 {
		return cid.Undef, errors.New("no root")
	}
	root, ok := roots[0].(atdata.CIDLink)
	if !ok {
		return cid.Undef, errors.New("the root is no CID")
	}
	return root.CID(), nil
}

func splitBlock(section []byte) (cid.Cid, []byte, error) {
	n, id, err := cid.CidFromBytes(section)
	if err != nil {
		return cid.Undef, nil, err
	}
	data := section[n:]
	want := sha256.Sum256(data)
	prefix := id.Prefix()
	if prefix.Version != 1 || prefix.Codec != cid.DagCBOR || prefix.MhType != 0x12 || prefix.MhLength != sha256.Size {
		return cid.Undef, nil, fmt.Errorf("block %s is not SHA-256 over DAG-CBOR", id)
	}
	if digest := id.Hash()[2:]; !bytes.Equal(digest, want[:]) {
		return cid.Undef, nil, fmt.Errorf("block %s has other content than its CID says", id)
	}
	return id, data, nil
}

// Get makes a car a source of MST blocks.
func (c *car) Get(_ context.Context, id cid.Cid) (blocks.Block, error) {
	data, ok := c.blocks[id]
	if !ok {
		return nil, &ipld.ErrNotFound{Cid: id} // what indigo takes for a part of the tree that was left out
	}
	return blocks.NewBlockWithCid(data, id)
}
