// Package blobstore owns the bytes of blobs.
//
// # Owns
//
// One pass of hash, limit and sniff over an upload into a spool file, one put
// to the object's final key, reads with ranges, verification, listing, and the
// places that a blob can be in ([Live], [Trash], [Quarantine]): the [Store], over a
// small [Bucket] driver ([Dir], [S3], [Memory]). All drivers pass one conformance
// suite, blobstore/buckettest.
//
// # Hides
//
// The key layout (layout.go), the spool, how a driver makes bytes durable, and
// how ranges are read from a server that has no seek.
//
// # Invariants
//
//   - When [Store.Receive] returns without an error, the bytes behind the CID
//     are durable under their final key. Until then there is nothing there.
//   - An object's key is derived from the hash of its bytes: an object is never
//     changed, only put (again) and deleted.
//   - A move between places never loses the object: after an error or a crash it
//     is in one of them or in both, and moving again ends it.
//   - Memory per upload and per download does not depend on the blob's size.
//   - An upload that fails, is too large or is aborted leaves nothing behind,
//     neither in the spool nor in the bucket; nor does a crash, beyond a spool
//     file that the next New removes where the file system has no unnamed files.
//
// # Does not
//
// It knows no accounts and no records: who may read a blob, who references it,
// whether it is temporary and when it may be deleted is the repo host's, whose
// database says so. It decodes no Content-Encoding: a caller that accepts gzip
// decodes before Receive.
package blobstore
