package pds

import (
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/bluesky-social/indigo/util/ssrf"
)

// publicOrLoopbackTransport is ssrf.PublicOnlyTransport with loopback
// addresses, on any port, let through as well: for development and tests.
func publicOrLoopbackTransport() *http.Transport {
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		Control: func(network, address string, conn syscall.RawConn) error {
			if addr, err := netip.ParseAddrPort(address); err == nil && addr.Addr().Unmap().IsLoopback() {
				return nil
			}
			return ssrf.PublicOnlyControl(network, address, conn)
		},
	}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        100,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
}
