package xrpc

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A cursor is base64url of: version byte, CRC-32 (IEEE, big endian) of the
// list's name and the position, position as JSON. The checksum catches what was
// cut short, edited or taken from another list; it is no signature.
const (
	cursorVersion   = 1
	maxCursorLength = 2048 // characters
	cursorHeader    = 1 + crc32.Size
)

// EncodeCursor makes the opaque cursor of a list from the position of the last
// row shown. list names the list that it belongs to (the NSID), so that a
// cursor of one list is refused by another. Position is a small struct of
// strings, syntax types and integers; one that JSON cannot hold panics. A
// cursor is not a secret and not signed: whoever makes one up sees nothing more
// than the query's own filters allow.
func EncodeCursor[T any](list string, position T) string {
	encoded, err := json.Marshal(position)
	if err != nil {
		panic(fmt.Sprintf("xrpc: cursor position %T: %v", position, err))
	}
	raw := make([]byte, cursorHeader, cursorHeader+len(encoded))
	raw[0] = cursorVersion
	binary.BigEndian.PutUint32(raw[1:], cursorSum(list, encoded))
	return base64.RawURLEncoding.EncodeToString(append(raw, encoded...))
}

// DecodeCursor reads what EncodeCursor made for the same list and type.
// Anything else is a 400 InvalidRequest.
func DecodeCursor[T any](list, cursor string) (T, error) {
	var position T
	if err := decodeCursor(list, cursor, &position); err != nil {
		var none T
		return none, InvalidRequest("the cursor is not one that this list gave; start again without it")
	}
	return position, nil
}

var errCursor = errors.New("not a cursor of this list")

func decodeCursor(list, cursor string, position any) error {
	if len(cursor) > maxCursorLength {
		return errCursor
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return err
	}
	if len(raw) < cursorHeader || raw[0] != cursorVersion {
		return errCursor
	}
	encoded := raw[cursorHeader:]
	if binary.BigEndian.Uint32(raw[1:]) != cursorSum(list, encoded) {
		return errCursor
	}
	dec := json.NewDecoder(bytes.NewReader(encoded))
	dec.DisallowUnknownFields()
	if err := dec.Decode(position); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errCursor
	}
	return nil
}

func cursorSum(list string, position []byte) uint32 {
	sum := crc32.NewIEEE()
	_, _ = io.WriteString(sum, list)
	_, _ = sum.Write([]byte{0})
	_, _ = sum.Write(position)
	return sum.Sum32()
}
