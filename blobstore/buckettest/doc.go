// Package buckettest is the conformance suite of blobstore.Bucket drivers: what
// the contract in blobstore/bucket.go says, as tests. A driver's own test is one
// call of Run.
package buckettest
