package main_test

import "testing"

// The outside clients check us; these programs check two of them. A verifier that
// accepts everything would look the same on a sound host.
func TestOutsideClientsFindFaults(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"plc.check.mjs", "verify-demo.check.mjs"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			t.Log(node(t, program))
		})
	}
}

// @atproto/sync follows what accounts do, and verifies each signature and proof.
func TestAtprotoSyncFollows(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		plc := plcDirectory(t)
		in := publicHost(t, plc, env...)
		t.Log(node(t, "firehose.mjs", in.url, adminPassword, plc))
	})
}

// Every method of a repo host, through @atproto/api and @atproto/repo.
func TestAtprotoAPIMethods(t *testing.T) {
	eachBackend(t, func(t *testing.T, env []string) {
		plc := plcDirectory(t)
		in := start(t, append([]string{"HERBARIUM_IDENTITY=plc", "HERBARIUM_PLC_URL=" + plc}, env...)...)
		t.Log(node(t, "methods.mjs", in.url, adminPassword, plc))
	})
}
