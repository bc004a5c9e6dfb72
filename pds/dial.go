package pds

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/bluesky-social/indigo/util/ssrf"
)

// tunnels are IPv6 networks, public by their form, whose addresses stand for
// IPv4 ones, which may be private: 6to4 (RFC 3056) and Teredo (RFC 4380).
// NAT64 and IPv4-mapped addresses ssrf knows.
var tunnels = []netip.Prefix{netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32")}

// publicAddress refuses, as the Control of a net.Dialer, what is not a public
// address at port 80 or 443. It sees the address that is about to be dialled,
// so a name that resolves differently the next time gains nothing.
func publicAddress(network, address string, conn syscall.RawConn) error {
	if addr, err := netip.ParseAddrPort(address); err == nil {
		for _, tunnel := range tunnels {
			if tunnel.Contains(addr.Addr()) {
				return fmt.Errorf("%s is the end of a tunnel, not a public address", addr.Addr())
			}
		}
	}
	return ssrf.PublicOnlyControl(network, address, conn)
}

// publicOrLoopback also lets loopback addresses through, on any port: for
// development and tests.
func publicOrLoopback(network, address string, conn syscall.RawConn) error {
	if addr, err := netip.ParseAddrPort(address); err == nil && addr.Addr().Unmap().IsLoopback() {
		return nil
	}
	return publicAddress(network, address, conn)
}

// outwardTransport dials public addresses, and loopback too when devLoopback
// is set. A forward proxy is not used: it would dial for us, past the check.
func outwardTransport(devLoopback bool) *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: publicAddress}
	if devLoopback {
		dialer.Control = publicOrLoopback
	}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        100,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
	}
}
