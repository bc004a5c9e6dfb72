package main_test

import "testing"

// Fifty clients of the npm package @atproto/api supersede one head at once:
// exactly one wins, the others learn the head from the message of the refusal
// alone, and all end in one chain.
func TestForkRaceThroughAtprotoAPI(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		in := start(t, env...)
		t.Log(node(t, "fork-race.mjs", in.url, adminPassword))
	})
}
