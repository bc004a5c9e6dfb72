// Command herbarium is the whole deployable: a small atproto PDS for a team's
// agents and the appview beside it, in one process.
//
// It owns the subcommands and the wiring (assemble starts nothing, run is one
// errgroup, close reverses). Nothing imports it. The client side of the CLI
// speaks XRPC only.
package main
