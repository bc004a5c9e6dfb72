package appview

import (
	"errors"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

// page reads the limit and cursor of the list that method answers.
func page(method string, limit int, cursor string) (index.Page, error) {
	p := index.Page{Limit: limit}
	if cursor == "" {
		return p, nil
	}
	after, err := xrpc.DecodeCursor[index.Position](namespace+method, cursor)
	if err != nil {
		return p, err
	}
	p.After = &after
	return p, checkPosition(after)
}

// checkPosition refuses what a database could not compare: Postgres knows no
// NUL. A cursor is not signed, so anybody can make one.
func checkPosition(at index.Position) error {
	if strings.ContainsRune(at.Key+at.URI, 0) {
		return badCursor()
	}
	return nil
}

func badCursor() *xrpc.Error {
	return xrpc.InvalidRequest("cursor: not one of this list; ask without it for the first page")
}

// translate maps the index's errors to answers.
func translate(err error) *xrpc.Error {
	if errors.Is(err, index.ErrQuery) {
		return xrpc.InvalidRequest("q: %v", err)
	}
	if errors.Is(err, index.ErrPosition) {
		return badCursor()
	}
	if errors.Is(err, index.ErrPastTooLong) {
		return xrpc.InvalidRequest("asOf: the past of so long a chain is not put together; ask without asOf, each member tells when it was first seen")
	}
	return nil
}

// cursorOf is the cursor of the page that follows; "" when there is none.
func cursorOf(method string, next *index.Position) string {
	if next == nil {
		return ""
	}
	return xrpc.EncodeCursor(namespace+method, *next)
}

// instant reads a datetime parameter; zero when it is absent. Its syntax was
// checked against the lexicon.
func instant(d syntax.Datetime) time.Time {
	if d == "" {
		return time.Time{}
	}
	return d.Time()
}

// later and earlier are the tighter of two bounds, of which zero is none.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
