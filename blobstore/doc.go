// Package blobstore owns the bytes of blobs: one pass of hash, limit and sniff
// into a spool, one put to the final key, range reads, verification and sweep,
// over a small Bucket driver (Dir, S3, Memory). It knows no accounts and no
// records: who may read a blob and what references it is the repo host's.
package blobstore
