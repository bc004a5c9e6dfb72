// Package repostore owns repos: MST, commits, records, blob references, CAR in and out, per-DID locking and the committer.
package repostore
