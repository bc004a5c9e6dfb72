package appview

import "strings"

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

// pointerTo appends a member name or index to an RFC 6901 pointer.
func pointerTo(base, token string) string { return base + "/" + escapePointer.Replace(token) }
