package lexicons

import (
	"strconv"
	"strings"
)

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

// pointer appends a member name to an RFC 6901 pointer.
func pointer(base, member string) string { return base + "/" + pointerEscape.Replace(member) }

// pointerAt appends an array index to an RFC 6901 pointer.
func pointerAt(base string, index int) string { return base + "/" + strconv.Itoa(index) }
