// Package ingest owns sources of events behind one interface, order per DID, verification, backfill and resync.
package ingest
