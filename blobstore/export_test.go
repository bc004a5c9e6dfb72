package blobstore

// DecideType is for the fuzz target, which would be slow through Receive.
var DecideType = decideType
