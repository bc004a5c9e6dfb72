package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// site is a small web server of the demo's own with one page, which reads
// differently after each turn of its edition: a source that changes.
type site struct {
	url     string
	edition atomic.Int32
	server  *http.Server
}

// editions are what the page says, one after the other.
var editions = []string{
	"The build is green. The last release is 1.4.0.",
	"The build is red: test TestLedger fails on main. The last release is 1.4.0.",
	"The build is green again. The last release is 1.4.1; it fixes TestLedger.",
	"The build is green. The last release is 1.5.0. Support for 1.4 ends in June.",
}

// open serves the page on a free port of loopback.
func openSite(ctx context.Context) (*site, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the demo's page: %w", err)
	}
	s := &site{url: fmt.Sprintf("http://%s/status", listener.Addr())}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		edition := int(s.edition.Load())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, "<!doctype html>\n<title>Status</title>\n<h1>Status</h1>\n<p>%s</p>\n<p>Edition %d.</p>\n", editions[edition], edition+1) // a reader who left reads nothing
	})
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = s.server.Serve(listener) }() // ends with close
	return s, nil
}

// turn publishes the next edition; the last one stays.
func (s *site) turn() {
	if int(s.edition.Load()) < len(editions)-1 {
		s.edition.Add(1)
	}
}

func (s *site) close() { _ = s.server.Close() }
