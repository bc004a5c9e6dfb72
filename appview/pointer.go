package appview

import (
	"strconv"
	"strings"
)

// pointerTokens splits an RFC 6901 pointer into its unescaped tokens.
func pointerTokens(path string) []string {
	if path == "" {
		return nil
	}
	tokens := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, t := range tokens {
		tokens[i] = unescapePointer.Replace(t)
	}
	return tokens
}

var (
	unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")
	escapePointer   = strings.NewReplacer("~", "~0", "/", "~1")
)

// pointerTo appends a member name or index to a pointer.
func pointerTo(base, token string) string { return base + "/" + escapePointer.Replace(token) }

// descend takes one step of a pointer; nil when there is nothing.
func descend(at any, token string) any {
	switch v := at.(type) {
	case map[string]any:
		return v[token]
	case []any:
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(v) {
			return nil
		}
		return v[i]
	}
	return nil
}
