package repostore

import (
	"encoding/binary"
	"io"

	"github.com/ipfs/go-cid"
)

// carHeadStart and carHeadEnd surround the root's CID in the header of a CAR
// v1 with one root: the DAG-CBOR of {roots: [CID], version: 1} behind its
// length. The CIDs of commits all have 36 bytes, so the header never differs.
var (
	carHeadStart = []byte("\x3a\xa2\x65roots\x81\xd8\x2a\x58\x25\x00")
	carHeadEnd   = []byte("\x67version\x01")
)

// carHeadRootless is the header of a CAR that is a heap of blocks: the DAG-CBOR
// of {roots: [], version: 1} behind its length.
var carHeadRootless = []byte("\x11\xa2\x65roots\x80\x67version\x01")

// commitCIDLength is that of a CIDv1 of DAG-CBOR under SHA-256.
const commitCIDLength = 36

// appendCARHeader appends the header of a CAR whose root is a commit.
func appendCARHeader(dst []byte, root cid.Cid) []byte {
	dst = append(dst, carHeadStart...)
	dst = append(dst, root.Bytes()...)
	return append(dst, carHeadEnd...)
}

// appendCARBlock appends a block.
func appendCARBlock(dst []byte, c cid.Cid, raw []byte) []byte {
	key := c.Bytes()
	dst = binary.AppendUvarint(dst, uint64(len(key)+len(raw)))
	dst = append(dst, key...)
	return append(dst, raw...)
}

// writeCARBlock writes a block given the bytes of its CID.
func writeCARBlock(w io.Writer, key, raw []byte) error {
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(key)+len(raw)))
	for _, part := range [][]byte{length[:n], key, raw} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
