// Package buckettest is the conformance suite of blobstore.Bucket drivers: what
// the contract in blobstore/bucket.go says, as tests. A driver's own test is one
// call of Run. For the tests of what stands on a bucket it has Faulty, a bucket
// that fails as it is told.
package buckettest
