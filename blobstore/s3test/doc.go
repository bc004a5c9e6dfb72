// Package s3test starts a real S3-compatible server for tests: versitygw, over a
// directory of the test. It mocks nothing, so that what passes here is known to
// work over HTTP, with signatures and checksums.
package s3test
