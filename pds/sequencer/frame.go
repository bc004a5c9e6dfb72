package sequencer

import (
	"bytes"
	"fmt"

	"herbarium.garden/lexicons/xrpc"
)

// message is a whole message frame.
func message(kind Kind, body cborMarshaler) ([]byte, error) {
	buf := bytes.NewBuffer(xrpc.FrameHeader(string(kind)))
	if err := body.MarshalCBOR(buf); err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return buf.Bytes(), nil
}
