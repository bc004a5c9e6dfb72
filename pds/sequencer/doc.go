// Package sequencer owns the event log of com.atproto.sync.subscribeRepos.
//
// Owns: the tables events and event_sequence; the order of events (seq); the
// frames, built once and sent as they are stored; reading from a cursor;
// websocket subscribers; retention and erasure.
//
// Fan-out is pull, not push. An appender stores its events in the transaction
// that makes them true (Append) and, after the commit, says so (Published).
// Every reader, whether a websocket subscriber or our own index, loops over
// ReadFrom(cursor) and Wait(cursor): recent events come from a bounded ring in
// memory, older ones from the database. There is no queue per reader, so a slow
// one costs nothing, holds nobody up, and cannot lose or double an event when
// it changes over from the past to the present: both are one sequence read with
// one cursor.
//
// Invariants:
//   - Order of seq is order of commit. The sequence row is locked last in the
//     appending transaction and until its end (SQLite has one writer anyway), so
//     whoever sees an event sees every event before it.
//   - seq never runs backwards and is never given out twice: it lives in its own
//     row, which outlives the events; New and Append stop on a contradiction.
//   - An event is read only after the commit it announces: events reach memory
//     through Published, never through Append.
//   - The ring has no holes that the database has not: on a gap it starts anew.
//   - The bytes sent are the bytes stored.
//
// Does not: know repos, build CARs or decide what is announced (repostore and
// account do), or authenticate subscribers (lexicons/xrpc does).
package sequencer
