// Package sequencer owns the append-only event log: append inside the caller's transaction, pull reads, websocket serving, retention.
package sequencer
