package sequencer

import (
	"bytes"
	"fmt"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	"github.com/bluesky-social/indigo/atproto/atdata"
)

// A frame is a header and a body, two DAG-CBOR objects one after the other
// (https://atproto.com/specs/event-stream). The headers are so few that they
// are written here byte by byte.
const (
	headerOpen  = "\xa2\x61t"      // map of 2; "t": the kind follows as text
	headerClose = "\x62op\x01"     // "op": 1
	errorHeader = "\xa1\x62op\x20" // map of 1; "op": -1
)

// header is the first object of a message frame.
func header(kind Kind) []byte {
	// All kinds are shorter than 24 bytes: one byte of text header.
	return fmt.Appendf(nil, "%s%c%s%s", headerOpen, 0x60+rune(len(kind)), kind, headerClose)
}

// message is a whole message frame.
func message(kind Kind, body cborMarshaler) ([]byte, error) {
	buf := bytes.NewBuffer(header(kind))
	if err := body.MarshalCBOR(buf); err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return buf.Bytes(), nil
}

// info is an #info message, which is outside the sequence.
func info(name, text string) ([]byte, error) {
	return message("#info", &comatproto.SyncSubscribeRepos_Info{Name: name, Message: &text})
}

// failure is an error frame. The server closes the connection after it.
func failure(name, text string) ([]byte, error) {
	body, err := atdata.MarshalCBOR(map[string]any{"error": name, "message": text})
	if err != nil {
		return nil, fmt.Errorf("encode error frame: %w", err)
	}
	return append([]byte(errorHeader), body...), nil
}
