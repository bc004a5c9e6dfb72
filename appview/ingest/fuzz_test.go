package ingest_test

import (
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/ingest"
)

func FuzzDecodeFrame(f *testing.F) {
	h := newHost()
	r := h.open(f, ada)
	f.Add(frame(f, "#commit", r.write(f, change{notePath(1), note("a")})))
	f.Add([]byte{0xa1, 0x62, 'o', 'p', 0x20})
	f.Add([]byte{0xa2, 0x61, 't', 0x67, '#', 'c', 'o', 'm', 'm', 'i', 't', 0x62, 'o', 'p', 0x01, 0xa0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		message, err := ingest.DecodeFrame(raw)
		if err != nil && message != nil {
			t.Fatal("a message beside an error")
		}
	})
}

func FuzzReadCAR(f *testing.F) {
	h := newHost()
	r := h.open(f, ada)
	r.write(f, change{notePath(1), note("a")}, change{notePath(2), note("b")})
	f.Add(r.export())
	f.Add([]byte{0x01, 0xa0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, _, err := ingest.ReadCAR(raw, 1<<20); err != nil {
			return
		}
		if int64(len(raw)) > 1<<20+1024 {
			t.Fatal("read past the limit")
		}
	})
}

func verifyRepo(t *testing.T, h *host, did syntax.DID, raw []byte, limit int64) error {
	t.Helper()
	return ingest.VerifyRepo(t.Context(), h, did, raw, limit)
}
