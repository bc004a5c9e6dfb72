package xrpc

// EncodeCursor makes the opaque cursor of a list from the position of the last
// row shown. list names the list that it belongs to (the NSID), so that a
// cursor of one list is refused by another. Position is a small struct of
// strings, syntax types and integers. A cursor is not a secret and not signed:
// whoever makes one up sees nothing more than the query's own filters allow.
func EncodeCursor[T any](list string, position T) string { return "" }

// DecodeCursor reads what EncodeCursor made for the same list and type.
// Anything else is a 400 InvalidRequest.
func DecodeCursor[T any](list, cursor string) (T, error) {
	var position T
	return position, nil
}
