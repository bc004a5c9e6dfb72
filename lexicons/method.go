package lexicons

import (
	"iter"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// MethodKind is how an XRPC method is called.
type MethodKind string

// The three kinds of XRPC method.
const (
	Query        MethodKind = "query"        // GET
	Procedure    MethodKind = "procedure"    // POST
	Subscription MethodKind = "subscription" // websocket
)

// Method is an XRPC method as its lexicon defines it. Parameters, Input and
// Output are nil when the lexicon has none. Relative references ("#view") in
// their schemas resolve against NSID; see Catalog.CheckValue.
type Method struct {
	NSID       syntax.NSID
	Kind       MethodKind
	Parameters *lexicon.SchemaParams
	Input      *lexicon.SchemaBody
	Output     *lexicon.SchemaBody
	Message    *lexicon.SchemaUnion // of a subscription
	Errors     []lexicon.SchemaError
}

// Method finds the XRPC method named nsid.
func (c *Catalog) Method(nsid syntax.NSID) (Method, bool) {
	i, ok := slices.BinarySearchFunc(c.methods, nsid, func(m Method, n syntax.NSID) int {
		return strings.Compare(string(m.NSID), string(n))
	})
	if !ok {
		return Method{}, false
	}
	return c.methods[i], true
}

// Methods iterates over all XRPC methods, sorted by NSID.
func (c *Catalog) Methods() iter.Seq[Method] { return slices.Values(c.methods) }

func methodOf(nsid syntax.NSID, def any) (Method, bool) {
	switch d := def.(type) {
	case lexicon.SchemaQuery:
		return Method{NSID: nsid, Kind: Query, Parameters: d.Parameters, Output: d.Output, Errors: d.Errors}, true
	case lexicon.SchemaProcedure:
		return Method{NSID: nsid, Kind: Procedure, Parameters: d.Parameters, Input: d.Input, Output: d.Output, Errors: d.Errors}, true
	case lexicon.SchemaSubscription:
		return Method{NSID: nsid, Kind: Subscription, Parameters: d.Parameters, Message: &d.Message.Schema}, true
	}
	return Method{}, false
}
