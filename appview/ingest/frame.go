package ingest

import (
	"bytes"
	"errors"
	"fmt"

	comatproto "github.com/bluesky-social/indigo/api/atproto"
	cbg "github.com/whyrusleeping/cbor-gen"

	"herbarium.garden/lexicons"
)

// maxFrame bounds one event: two million bytes of blocks and 200 operations
// fit well within.
const maxFrame = 5 << 20

// errorFrame is what a source sends instead of events.
type errorFrame struct{ name, message string }

func (e *errorFrame) Error() string { return fmt.Sprintf("the source says %s: %s", e.name, e.message) }

// decodeFrame reads a message of com.atproto.sync.subscribeRepos from anyone.
// The result is a pointer to one of indigo's SyncSubscribeRepos_* types, or nil
// for a type that this build does not know, which the protocol says to ignore.
func decodeFrame(frame []byte) (message any, err error) {
	defer recovered("decode frame", &err)
	if len(frame) > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes, at most %d", len(frame), maxFrame)
	}
	r := bytes.NewReader(frame)
	var raw cbg.Deferred
	if err := raw.UnmarshalCBOR(r); err != nil {
		return nil, fmt.Errorf("frame header: %w", err)
	}
	header, err := lexicons.DecodeCBOR(raw.Raw)
	if err != nil {
		return nil, fmt.Errorf("frame header: %w", err)
	}
	switch op, _ := header["op"].(int64); op {
	case 1:
	case -1:
		return nil, decodeError(frame[len(frame)-r.Len():])
	default:
		return nil, fmt.Errorf("frame header: op %v", header["op"])
	}
	kind, _ := header["t"].(string)
	body := bodyOf(kind)
	if body == nil {
		return nil, nil
	}
	if err := body.UnmarshalCBOR(r); err != nil {
		return nil, fmt.Errorf("%s frame: %w", kind, err)
	}
	if r.Len() > 0 {
		return nil, fmt.Errorf("%s frame: %d bytes too many", kind, r.Len())
	}
	return body, nil
}

func bodyOf(kind string) cbg.CBORUnmarshaler {
	switch kind {
	case "#commit":
		return &comatproto.SyncSubscribeRepos_Commit{}
	case "#sync":
		return &comatproto.SyncSubscribeRepos_Sync{}
	case "#identity":
		return &comatproto.SyncSubscribeRepos_Identity{}
	case "#account":
		return &comatproto.SyncSubscribeRepos_Account{}
	}
	return nil
}

func decodeError(body []byte) error {
	v, err := lexicons.DecodeCBOR(body)
	if err != nil {
		return errors.New("error frame that does not parse")
	}
	name, _ := v["error"].(string)
	message, _ := v["message"].(string)
	return &errorFrame{name: name, message: message}
}

// recovered turns a panic of a decoder that trusts its input into an error.
func recovered(doing string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s: panic: %v", doing, p)
	}
}
