package repostore

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bluesky-social/indigo/atproto/atdata"
	"github.com/ipfs/go-cid"
	"github.com/multiformats/go-multihash"

	"herbarium.garden/lexicons"
)

// Limits of a CAR that is imported.
const (
	// MaxImportBytes bounds the file.
	MaxImportBytes = 512 << 20
	// maxImportBlocks bounds its blocks: what is kept in memory is some 100
	// bytes for each, 50 MB at most.
	maxImportBlocks = 500_000
	// maxImportBlock bounds one block, in bytes: a record is at most 1 MiB, a
	// commit and an MST node far less.
	maxImportBlock = 2 << 20
)

// extent is where a block lies in a spool.
type extent struct {
	offset int64
	size   int
}

// spool is a CAR as it was sent, on disk, each block hashed: an import holds
// where the blocks are, not the blocks.
type spool struct {
	root   cid.Cid
	file   spoolFile
	blocks map[[sha256.Size]byte]extent // by the digest: all are DAG-CBOR under SHA-256
}

// spoolFile is what holds a spool's bytes: an unnamedFile, or memory in tests
// that read many small CARs.
type spoolFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// unnamedFile is a file that is gone when it is closed.
type unnamedFile struct {
	*os.File
	named bool // it is still to be removed
}

func newUnnamedFile(dir string) (unnamedFile, error) {
	file, err := os.CreateTemp(dir, "import-*.car")
	if err != nil {
		return unnamedFile{}, fmt.Errorf("spool import: %w", err)
	}
	// Where the system allows it the file has no name from the start, so that
	// nothing is left behind by a crash.
	return unnamedFile{File: file, named: os.Remove(file.Name()) != nil}, nil
}

// Close gives the file's room back.
func (f unnamedFile) Close() error {
	err := f.File.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// newSpool reads a CAR v1 from anyone to a file in dir. What it refuses wraps ErrBadCAR; an
// error of r itself does not. The caller closes the spool.
func newSpool(dir string, r io.Reader) (*spool, error) {
	file, err := newUnnamedFile(dir)
	if err != nil {
		return nil, err
	}
	return fillSpool(file, r)
}

// fillSpool reads a CAR to an empty file, which is the spool's from here on.
func fillSpool(file spoolFile, r io.Reader) (*spool, error) {
	s := &spool{file: file, blocks: map[[sha256.Size]byte]extent{}}
	if err := s.fill(r); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close gives the file's room back.
func (s *spool) Close() error { return s.file.Close() }

func (s *spool) fill(r io.Reader) error {
	in := sections{from: bufio.NewReaderSize(r, 64<<10), left: MaxImportBytes}
	header, err := in.next()
	if err != nil {
		return endless(err, "header")
	}
	if s.root, err = parseCARHeader(header); err != nil {
		return err
	}
	out := bufio.NewWriterSize(s.file, 64<<10)
	for n, offset := 0, int64(0); ; n++ {
		section, err := in.next()
		if errors.Is(err, io.EOF) {
			if err := out.Flush(); err != nil {
				return fmt.Errorf("spool import: %w", err)
			}
			return nil
		}
		if err != nil {
			return endless(err, "block %d", n)
		}
		digest, raw, err := splitCARBlock(section)
		if err != nil {
			return fmt.Errorf("block %d: %w", n, err)
		}
		if _, twice := s.blocks[digest]; twice {
			continue
		}
		if len(s.blocks) == maxImportBlocks {
			return fmt.Errorf("%w: it has more than %d blocks", ErrBadCAR, maxImportBlocks)
		}
		if _, err := out.Write(raw); err != nil {
			return fmt.Errorf("spool import: %w", err)
		}
		s.blocks[digest] = extent{offset, len(raw)}
		offset += int64(len(raw))
	}
}

// endless says which section an error is about; an end inside of one is the CAR's fault.
func endless(err error, format string, args ...any) error {
	where := fmt.Sprintf(format, args...)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it ends inside %s", ErrBadCAR, where)
	}
	return fmt.Errorf("%s: %w", where, err)
}

// block answers the bytes of a block; ok is false when the CAR has none.
func (s *spool) block(c cid.Cid) (raw []byte, ok bool, err error) {
	digest, ok := digestOf(c)
	if !ok {
		return nil, false, nil
	}
	at, ok := s.blocks[digest]
	if !ok {
		return nil, false, nil
	}
	raw = make([]byte, at.size)
	if _, err := s.file.ReadAt(raw, at.offset); err != nil {
		return nil, false, fmt.Errorf("read spooled block %s: %w", c, err)
	}
	return raw, true, nil
}

// digestOf answers the hash in a CID; ok is false unless it is SHA-256 over
// DAG-CBOR in a CIDv1, as all blocks of a repo are.
func digestOf(c cid.Cid) (digest [sha256.Size]byte, ok bool) {
	if !c.Defined() || c.ByteLen() != commitCIDLength {
		return digest, false
	}
	prefix := c.Prefix()
	if prefix.Version != 1 || prefix.Codec != cid.DagCBOR || prefix.MhType != multihash.SHA2_256 || prefix.MhLength != sha256.Size {
		return digest, false
	}
	copy(digest[:], c.Bytes()[commitCIDLength-sha256.Size:])
	return digest, true
}

// sections reads the length-prefixed parts of a CAR.
type sections struct {
	from *bufio.Reader
	left int64 // bytes that the file may still have
	buf  bytes.Buffer
}

// next answers the next section, which is good until the call after it; io.EOF
// exactly at the end.
func (s *sections) next() ([]byte, error) {
	size, err := s.length()
	if err != nil {
		return nil, err
	}
	if size == 0 || size > maxImportBlock {
		return nil, fmt.Errorf("%w: a section of %d bytes, where 1 to %d are taken", ErrBadCAR, size, maxImportBlock)
	}
	if s.left -= int64(size); s.left < 0 {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrBadCAR, MaxImportBytes)
	}
	// Grow with what comes, not with what is announced.
	s.buf.Reset()
	if _, err := io.CopyN(&s.buf, s.from, int64(size)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return s.buf.Bytes(), nil
}

// length reads a varint that is not over maxImportBlock by far.
func (s *sections) length() (uint64, error) {
	var size uint64
	for shift := 0; shift < 35; shift += 7 {
		b, err := s.from.ReadByte()
		if errors.Is(err, io.EOF) && shift > 0 {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		size |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return size, nil
		}
	}
	return 0, fmt.Errorf("%w: a section of more than %d bytes", ErrBadCAR, maxImportBlock)
}

// parseCARHeader answers the one root.
func parseCARHeader(raw []byte) (cid.Cid, error) {
	header, err := lexicons.DecodeCBOR(raw)
	if err != nil {
		return cid.Undef, fmt.Errorf("%w: its header is no DAG-CBOR: %w", ErrBadCAR, err)
	}
	if version, _ := header["version"].(int64); version != 1 {
		return cid.Undef, fmt.Errorf("%w: version %v, where 1 is taken", ErrBadCAR, header["version"])
	}
	roots, _ := header["roots"].([]any)
	if len(roots) != 1 {
		return cid.Undef, fmt.Errorf("%w: %d roots, where the commit alone is taken", ErrBadCAR, len(roots))
	}
	root, ok := roots[0].(atdata.CIDLink)
	if !ok {
		return cid.Undef, fmt.Errorf("%w: its root is no CID", ErrBadCAR)
	}
	return root.CID(), nil
}

// splitCARBlock parts a section into CID and content and holds one against the
// other.
func splitCARBlock(section []byte) (digest [sha256.Size]byte, raw []byte, err error) {
	n, c, err := cid.CidFromBytes(section)
	if err != nil {
		return digest, nil, fmt.Errorf("%w: %w", ErrBadCAR, err)
	}
	digest, ok := digestOf(c)
	if !ok {
		return digest, nil, fmt.Errorf("%w: %s is not SHA-256 over DAG-CBOR", ErrBadCAR, c)
	}
	if raw = section[n:]; sha256.Sum256(raw) != digest {
		return digest, nil, fmt.Errorf("%w: %s has other bytes than its CID says", ErrBadCAR, c)
	}
	return digest, raw, nil
}
