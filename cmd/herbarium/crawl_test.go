package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The relays of CRAWLERS are asked by the assembled program: after its first
// account, and after a start that finds accounts.
func TestRelaysAreAskedToCrawl(t *testing.T) {
	asked := make(chan string, 10)
	relay := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct{ Hostname string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		asked <- r.URL.Path + " " + body.Hostname
	}))
	t.Cleanup(relay.Close)
	in := start(t, "HERBARIUM_VISIBILITY=public", "HERBARIUM_CRAWLERS="+relay.URL)
	want := "/xrpc/com.atproto.sync.requestCrawl " + strings.TrimPrefix(in.url, "http://")
	next := func() string {
		t.Helper()
		select {
		case got := <-asked:
			return got
		case <-time.After(30 * time.Second):
			t.Fatal("the relay was not asked")
			return ""
		}
	}
	require.Empty(t, asked, "there is nothing to crawl yet")
	in.account("first.test")
	require.Equal(t, want, next())
	require.Zero(t, in.terminate())
	in.launch()
	require.Equal(t, want, next())
}
