package lexicons

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

const (
	// scanBuffer is how much of a stream is looked at together, in bytes.
	scanBuffer = 256 << 10
	// scanBefore is how far back of a keyword a rule may look.
	scanBefore = 64
	// textHead is how much of a stream tells whether it is text; git takes as much.
	textHead = 8000
)

// ScanSecrets reads a stream to its end and looks for credentials as
// FindSecrets does; offsets are in bytes of the stream. It takes bytes without
// a NUL for text, whatever their encoding, and UTF-16 with a byte order mark.
// Of anything else it reads the head alone and finds nothing: what is
// compressed or encrypted is not opened. The error is r's.
func ScanSecrets(r io.Reader) ([]Secret, error) {
	head := make([]byte, textHead)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	head = head[:n]
	whole := io.MultiReader(bytes.NewReader(head), r)
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		found, err := scanStream(&utf16Reader{r: whole, low: 0})
		return widened(found), err
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		found, err := scanStream(&utf16Reader{r: whole, low: 1})
		return widened(found), err
	case bytes.IndexByte(head, 0) >= 0:
		return nil, nil
	}
	return scanStream(whole)
}

// HoldsNoText reports whether bytes of a MIME type need not be looked at:
// pictures, sound and letters have credentials in them by chance alone.
func HoldsNoText(mime string) bool {
	kind, rest, _ := strings.Cut(strings.ToLower(mime), "/")
	switch kind {
	case "image", "audio", "video", "font":
		return !strings.Contains(rest, "xml")
	}
	return false
}

// scanStream goes through a stream in parts that overlap, so that each keyword
// is seen with all around it that its rules may look at.
func scanStream(r io.Reader) ([]Secret, error) {
	s := secretScan{secretFinder: secretsFinder}
	part := make([]byte, 0, scanBuffer)
	for {
		n, err := io.ReadFull(r, part[len(part):cap(part)])
		part = part[:len(part)+n]
		last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return nil, err
		}
		s.to = len(part)
		if !last {
			s.to -= longestReach
		}
		scanPart(&s, part)
		if last {
			return s.settled(), nil
		}
		kept := copy(part, part[s.to-scanBefore:])
		s.offset += int64(s.to - scanBefore)
		s.from = scanBefore
		part = part[:kept]
	}
}

// utf16Reader reads UTF-16 as one byte for each code unit. Credentials are
// ASCII; what is not becomes a byte that no word has.
type utf16Reader struct {
	r   io.Reader
	low int // where of the two bytes the low one stands
	buf [32 << 10]byte
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	n, err := io.ReadFull(u.r, u.buf[:min(len(u.buf), 2*len(p))])
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	for i := 0; i+1 < n; i += 2 {
		p[i/2] = u.buf[i+u.low]
		if u.buf[i+1-u.low] != 0 {
			p[i/2] = 0xff
		}
	}
	return n / 2, err
}

// widened has the offsets of UTF-16 in bytes.
func widened(found []Secret) []Secret {
	for i := range found {
		found[i].Start *= 2
		found[i].End *= 2
	}
	return found
}
