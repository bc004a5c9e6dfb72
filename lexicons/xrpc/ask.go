package xrpc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// Ask is for a handler that answers with the answers of another query of this
// server, such as an export with the pages of a list. It asks for whoever made
// call: the other method's class, the scope of the credential, parameters and
// lexicon decide as if it had been called by itself. The body is JSON; an error
// is one to return. It is neither counted (Admit) nor audited nor logged as a
// request of its own, so only queries that are not Audited can be asked.
func (s *Server) Ask(ctx context.Context, call *Call, nsid syntax.NSID, params url.Values) (json.RawMessage, error) {
	rt := s.methods[nsid]
	if rt == nil || rt.info.Verb != http.MethodGet || rt.audited || rt.early != nil || rt.info.Access == OwnGate {
		return nil, fmt.Errorf("ask %s: no query of this server that can be asked", nsid)
	}
	if rt.info.Access != Open {
		if err := s.admit(rt.info.Access, call.Viewer); err != nil {
			return nil, err
		}
		if err := s.granted(rt, call.Viewer); err != nil {
			return nil, err
		}
	}
	inner := *call
	inner.NSID, inner.route = nsid, rt
	inner.Request = call.Request.Clone(ctx)
	inner.Request.URL.RawQuery = params.Encode()
	var body collected
	inner.Writer = &body
	if err := rt.handle(ctx, &inner); err != nil {
		return nil, err
	}
	if body.status != http.StatusOK {
		return nil, fmt.Errorf("ask %s: answered with status %d", nsid, body.status)
	}
	return body.Bytes(), nil
}

// collected is a ResponseWriter that keeps an answer of a handler.
type collected struct {
	bytes.Buffer
	header http.Header
	status int
}

func (c *collected) Header() http.Header {
	if c.header == nil {
		c.header = http.Header{}
	}
	return c.header
}

func (c *collected) WriteHeader(status int) { c.status = status }

// List is the shape of a query that answers with pages of one list.
type List struct {
	Items      string   // the member of the answer that holds the page
	Parameters []string // that the query knows, in order
	// Columns are the values of an item, sorted but for uri and cid, which come
	// first: the names of the members that lead to each, joined by dots.
	Columns []string
}

// maxColumnDepth bounds how deep the members of an item are looked for; what lies
// deeper is one column, as an array is.
const maxColumnDepth = 3

// List tells the shape of the list that a registered query answers with, by its
// lexicon: an output with a cursor and one array of objects. An array within an
// item is one column. ErrNoList for any other.
func (s *Server) List(nsid syntax.NSID) (*List, error) {
	rt := s.methods[nsid]
	if rt == nil || rt.info.Verb != http.MethodGet {
		return nil, ErrNoList
	}
	schema, err := s.cfg.Catalog.Resolve(string(nsid))
	if err != nil {
		return nil, err
	}
	def, ok := schema.Def.(lexicon.SchemaQuery)
	if !ok || def.Output == nil || def.Output.Schema == nil {
		return nil, ErrNoList
	}
	output, _, ok, err := s.schemas(nsid).object(def.Output.Schema.Inner)
	if err != nil {
		return nil, err
	}
	if _, pages := output.Properties["cursor"]; !ok || !pages {
		return nil, ErrNoList
	}
	list := &List{}
	if def.Parameters != nil {
		list.Parameters = slices.Sorted(maps.Keys(def.Parameters.Properties))
	}
	for name, property := range output.Properties {
		array, ok := property.Inner.(lexicon.SchemaArray)
		if !ok {
			continue
		}
		if _, _, ok, err := s.schemas(nsid).object(array.Items.Inner); err != nil || !ok {
			continue
		}
		if list.Items != "" {
			return nil, ErrNoList // of two lists neither is the one
		}
		list.Items = name
		if list.Columns, err = s.schemas(nsid).columns(array.Items.Inner, 1); err != nil {
			return nil, err
		}
	}
	if list.Items == "" {
		return nil, ErrNoList
	}
	return list, nil
}

// columns are the values of an object that lies depth levels deep.
func (s schemas) columns(def any, depth int) ([]string, error) {
	object, at, ok, err := s.object(def)
	if err != nil || !ok {
		return nil, err
	}
	var columns []string
	for name, property := range object.Properties {
		_, _, nested, err := at.object(property.Inner)
		if err != nil {
			return nil, err
		}
		if !nested || depth == maxColumnDepth {
			columns = append(columns, name)
			continue
		}
		members, err := at.columns(property.Inner, depth+1)
		if err != nil {
			return nil, err
		}
		for _, member := range members {
			columns = append(columns, name+"."+member)
		}
	}
	first := map[string]string{"uri": "\x00", "cid": "\x01"} // before all names
	slices.SortFunc(columns, func(a, b string) int {
		return strings.Compare(cmp.Or(first[a], a), cmp.Or(first[b], b))
	})
	return columns, nil
}

// ErrNoList is returned by Server.List for a method that does not answer with a list.
var ErrNoList = errors.New("the method answers with no list")
