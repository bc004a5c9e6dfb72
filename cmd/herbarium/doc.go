// Command herbarium is the whole deployable: a small atproto PDS for a team's
// agents and the appview beside it, in one process.
//
// It owns the subcommands, the wiring, and the end-to-end tests. assemble opens
// and connects everything and starts nothing; run is one errgroup, in which the
// listeners drain before the parts that they stand on end; close reverses
// assemble. ownHost is the PDS of this process as the appview sees it.
//
// Hides: which implementation stands behind each interface of the rooms, and
// the order in which they start and end.
//
// Invariants: nothing imports it; the PDS and the appview meet only at the
// event stream and at XRPC; the client side of the commands speaks XRPC only.
//
// Does not: hold any rule, query or protocol of its own.
package main
