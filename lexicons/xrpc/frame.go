package xrpc

import (
	"fmt"

	"github.com/bluesky-social/indigo/atproto/atdata"
)

// A frame is a header and a body, two DAG-CBOR objects one after the other
// (https://atproto.com/specs/event-stream). The headers are so few that they
// are written here byte by byte.
const (
	headerOpen  = "\xa2\x61t"      // map of 2; "t": the type follows as text
	headerClose = "\x62op\x01"     // "op": 1
	errorHeader = "\xa1\x62op\x20" // map of 1; "op": -1
)

// maxFrameType is the greatest length of a message type whose text header is
// one byte.
const maxFrameType = 23

// FrameHeader is the first object of a message frame. kind is the type of the
// message, such as "#commit", of 23 bytes at most: it is the program's own, so
// a longer one is a bug.
func FrameHeader(kind string) []byte {
	if len(kind) > maxFrameType {
		panic("xrpc: message type " + kind + " is too long for a frame")
	}
	return fmt.Appendf(nil, "%s%c%s%s", headerOpen, 0x60+rune(len(kind)), kind, headerClose)
}

// Frame is a whole message frame with a body in the data model of atproto.
func Frame(kind string, body map[string]any) ([]byte, error) {
	b, err := atdata.MarshalCBOR(body)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return append(FrameHeader(kind), b...), nil
}

// infoFrame is an #info message, which is outside the sequence.
func infoFrame(name, text string) ([]byte, error) {
	return Frame("#info", map[string]any{"name": name, "message": text})
}

// errorFrame is an error frame. The server closes the connection after it.
func errorFrame(name, text string) ([]byte, error) {
	body, err := atdata.MarshalCBOR(map[string]any{"error": name, "message": text})
	if err != nil {
		return nil, fmt.Errorf("encode error frame: %w", err)
	}
	return append([]byte(errorHeader), body...), nil
}
