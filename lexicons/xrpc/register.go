package xrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/bluesky-social/indigo/atproto/lexicon"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// None stands for "no parameters", "no input" or "no output".
type None struct{}

// Query registers a lexicon query with JSON output.
//
// P is a struct whose fields carry `param:"name"` tags, one for each parameter
// of the lexicon; O is a struct whose json tags are the lexicon's output. Both
// are compared with the lexicon here, so that a slip fails at start-up:
// parameter fields are strings, syntax types, cid.Cid (anything that decodes
// itself from text), integers, booleans, slices of these, or pointers to them;
// an optional integer without a default must be a pointer. Ignores names the
// parameters without a field. Values arrive checked against the lexicon, with
// its defaults filled in; an empty value counts as absent, unknown parameters
// are ignored.
//
// An output field that the lexicon does not have needs the tag `xrpc:"extra"`.
func Query[P, O any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, v Viewer, p P) (*O, error), opts ...Option) error {
	rt := newRoute(nsid, http.MethodGet, access, opts)
	return s.register(rt, func(def any) error {
		d, ok := def.(lexicon.SchemaQuery)
		if !ok {
			return fmt.Errorf("its lexicon is no query but a %T", def)
		}
		params, err := planParams(reflect.TypeFor[P](), d.Parameters, rt.ignored)
		if err != nil {
			return err
		}
		write, err := planOutput[O](s.schemas(nsid), d.Output)
		if err != nil {
			return err
		}
		rt.handle = func(ctx context.Context, call *Call) error {
			var p P
			if err := params.decode(call.Request.URL.RawQuery, reflect.ValueOf(&p).Elem()); err != nil {
				return err
			}
			settle, err := s.audit(ctx, rt, call, call.Request.URL.Query())
			if err != nil {
				return err
			}
			out, err := h(ctx, call.Viewer, p)
			settle(out, err)
			if err != nil {
				return err
			}
			return write(call, out)
		}
		return nil
	})
}

// Procedure registers a lexicon procedure with JSON input and output; I and O
// are None where the lexicon has no input or output.
//
// The body is checked against the lexicon's input schema, as deep as that
// goes, before it is decoded into I by its json tags; absent fields of the top
// level with a default get it. What the schema calls unknown (records) is not
// looked into and should be a json.RawMessage. A nullable field is a Nullable.
// CIDs in string form are syntax.CID (cid.Cid has another form in JSON).
// Ignores names the input fields without one in I. Without an input in the
// lexicon a body is not read; an empty body counts as {} when no field is
// required.
func Procedure[I, O any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, v Viewer, in I) (*O, error), opts ...Option) error {
	rt := newRoute(nsid, http.MethodPost, access, opts)
	return s.register(rt, func(def any) error {
		d, err := procedure(def)
		if err != nil {
			return err
		}
		if rt.maxBody == 0 {
			rt.maxBody = s.cfg.MaxBody
		}
		read, err := planInput[I](s.schemas(nsid), d.Input, rt)
		if err != nil {
			return err
		}
		write, err := planOutput[O](s.schemas(nsid), d.Output)
		if err != nil {
			return err
		}
		rt.handle = func(ctx context.Context, call *Call) error {
			in, err := read(call, rt.maxBody)
			if err != nil {
				return err
			}
			settle, err := s.audit(ctx, rt, call, in)
			if err != nil {
				return err
			}
			out, err := h(ctx, call.Viewer, in)
			settle(out, err)
			if err != nil {
				return err
			}
			return write(call, out)
		}
		return nil
	})
}

// Stream registers a query whose output is not JSON: the handler writes
// headers and bytes to call.Writer. An error before the first byte is answered
// as usual; one after it breaks the connection off, so that a client cannot
// take half a CAR for a whole one.
func Stream[P any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, call *Call, p P) error, opts ...Option) error {
	rt := newRoute(nsid, http.MethodGet, access, opts)
	return s.register(rt, func(def any) error {
		d, ok := def.(lexicon.SchemaQuery)
		if !ok {
			return fmt.Errorf("its lexicon is no query but a %T", def)
		}
		params, err := planParams(reflect.TypeFor[P](), d.Parameters, rt.ignored)
		if err != nil {
			return err
		}
		rt.handle = withParams(params, h)
		return nil
	})
}

// Upload registers a procedure whose input is not JSON. The reader is
// decompressed (gzip) and bounded by the option MaxBody, which is required;
// over the limit it fails with a 413 *Error that the handler only needs to wrap.
func Upload[O any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, call *Call, body io.Reader) (*O, error), opts ...Option) error {
	rt := newRoute(nsid, http.MethodPost, access, opts)
	return s.register(rt, func(def any) error {
		d, err := procedure(def)
		if err != nil {
			return err
		}
		if d.Input == nil || d.Input.Schema != nil {
			return errors.New("its lexicon has no input that is not JSON")
		}
		if rt.maxBody == 0 {
			return errors.New("an upload needs the option MaxBody")
		}
		write, err := planOutput[O](s.schemas(nsid), d.Output)
		if err != nil {
			return err
		}
		rt.handle = func(ctx context.Context, call *Call) error {
			if err := checkContentType(call.Request, d.Input.Encoding); err != nil {
				return err
			}
			body, err := openBody(call, rt.maxBody)
			if err != nil {
				return err
			}
			out, err := h(ctx, call, body)
			if err != nil {
				return err
			}
			return write(call, out)
		}
		return nil
	})
}

// Subscription registers a lexicon subscription. The handler is only called
// for a websocket upgrade and upgrades call.Writer itself; a plain GET gets
// 426 with a hint, credential or not.
func Subscription[P any](s *Server, nsid syntax.NSID, access Access, h func(ctx context.Context, call *Call, p P) error, opts ...Option) error {
	rt := newRoute(nsid, http.MethodGet, access, opts)
	rt.early = wantsWebSocket
	return s.register(rt, func(def any) error {
		d, ok := def.(lexicon.SchemaSubscription)
		if !ok {
			return fmt.Errorf("its lexicon is no subscription but a %T", def)
		}
		params, err := planParams(reflect.TypeFor[P](), d.Parameters, rt.ignored)
		if err != nil {
			return err
		}
		rt.handle = withParams(params, h)
		return nil
	})
}

func withParams[P any](plan params, h func(ctx context.Context, call *Call, p P) error) Handler {
	return func(ctx context.Context, call *Call) error {
		var p P
		if err := plan.decode(call.Request.URL.RawQuery, reflect.ValueOf(&p).Elem()); err != nil {
			return err
		}
		return h(ctx, call, p)
	}
}

func wantsWebSocket(call *Call) error {
	if strings.EqualFold(call.Request.Header.Get("Upgrade"), "websocket") {
		return nil
	}
	err := Errorf(http.StatusUpgradeRequired, "InvalidRequest", "this is a subscription: connect with a websocket (ws:// or wss://), not a plain GET")
	err.Header = map[string]string{"Upgrade": "websocket", "Connection": "Upgrade"}
	return err
}

func procedure(def any) (lexicon.SchemaProcedure, error) {
	d, ok := def.(lexicon.SchemaProcedure)
	if !ok {
		return d, fmt.Errorf("its lexicon is no procedure but a %T", def)
	}
	if d.Parameters != nil && len(d.Parameters.Properties) > 0 {
		return d, errors.New("procedures with parameters are not supported")
	}
	return d, nil
}

func (s *Server) schemas(nsid syntax.NSID) schemas { return schemas{s.cfg.Catalog, nsid} }

// register looks the method up in the catalog, lets plan fit the handler to
// it, and adds the route.
func (s *Server) register(rt *route, plan func(def any) error) error {
	nsid := rt.info.NSID
	if _, err := syntax.ParseNSID(string(nsid)); err != nil {
		return fmt.Errorf("register %q: %w", nsid, err)
	}
	if _, taken := s.methods[nsid]; taken {
		return fmt.Errorf("register %s: already registered", nsid)
	}
	schema, err := s.cfg.Catalog.Resolve(string(nsid))
	if err != nil {
		return fmt.Errorf("register %s: %w", nsid, err)
	}
	if err := plan(schema.Def); err != nil {
		return fmt.Errorf("register %s: %w", nsid, err)
	}
	if err := rt.check(); err != nil {
		return fmt.Errorf("register %s: %w", nsid, err)
	}
	s.methods[nsid] = rt
	return nil
}

// planInput fits I to a JSON input and returns its reader.
func planInput[I any](s schemas, body *lexicon.SchemaBody, rt *route) (func(*Call, int64) (I, error), error) {
	t := reflect.TypeFor[I]()
	if body == nil {
		if t != reflect.TypeFor[None]() {
			return nil, errors.New("its lexicon has no input; use None")
		}
		return func(*Call, int64) (in I, err error) { return in, nil }, nil
	}
	if body.Schema == nil || body.Encoding != "application/json" {
		return nil, fmt.Errorf("its lexicon's input is %s; use Upload", body.Encoding)
	}
	if err := fitBody(s, input, t, body.Schema.Inner, rt.ignored); err != nil {
		return nil, err
	}
	defaults, optional, err := planDefaults(s, t, body.Schema.Inner)
	if err != nil {
		return nil, err
	}
	return func(call *Call, limit int64) (in I, err error) {
		raw, err := readJSON(call, limit)
		if err != nil {
			return in, err
		}
		if raw == nil {
			if !optional {
				return in, InvalidRequest("the request has no body; this method takes %s", body.Encoding)
			}
			raw = json.RawMessage("{}")
		}
		if err := s.check(body.Schema.Inner, raw, ""); err != nil {
			return in, err
		}
		if len(defaults) > 0 {
			v := reflect.ValueOf(&in).Elem()
			for _, d := range defaults { // present fields then overwrite theirs
				setDefault(d.def, v.FieldByIndex(d.index))
			}
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		if rt.strict {
			decoder.DisallowUnknownFields()
		}
		if err := decoder.Decode(&in); err != nil {
			return in, InvalidRequest("the request body: %s", decodeError(err))
		}
		return in, nil
	}, nil
}

// planDefaults finds the top-level fields with a default, and whether the
// input may be empty.
func planDefaults(s schemas, t reflect.Type, def any) (defaults []paramField, optional bool, err error) {
	obj, _, ok, err := s.object(def)
	if err != nil || !ok || t.Kind() != reflect.Struct {
		return nil, false, err
	}
	for _, f := range jsonFields(t) {
		def := obj.Properties[f.name].Inner
		if hasDefault(def) {
			defaults = append(defaults, paramField{name: f.name, index: f.index, def: def})
		}
	}
	return defaults, len(obj.Required) == 0, nil
}

func hasDefault(def any) bool {
	switch d := def.(type) {
	case lexicon.SchemaBoolean:
		return d.Default != nil
	case lexicon.SchemaInteger:
		return d.Default != nil
	case lexicon.SchemaString:
		return d.Default != nil
	}
	return false
}

// decodeError words a failure that the schema let through, such as a syntax
// type that is stricter than its format.
func decodeError(err error) string {
	if at := (*json.UnmarshalTypeError)(nil); errors.As(err, &at) {
		return fmt.Sprintf("the field %s cannot be a %s", at.Field, at.Value)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Sprintf("the method knows no field %s; compare the body with its lexicon", name)
	}
	return "it does not have the form of the method's lexicon; compare it field by field"
}

// planOutput fits O to a JSON output and returns its writer.
func planOutput[O any](s schemas, body *lexicon.SchemaBody) (func(*Call, *O) error, error) {
	t := reflect.TypeFor[O]()
	if body == nil {
		if t != reflect.TypeFor[None]() {
			return nil, errors.New("its lexicon has no output; use None")
		}
		return func(call *Call, _ *O) error {
			call.Writer.Header().Set("Content-Length", "0")
			call.Writer.WriteHeader(http.StatusOK)
			return nil
		}, nil
	}
	if body.Schema == nil || body.Encoding != "application/json" {
		return nil, fmt.Errorf("its lexicon's output is %s; use Stream", body.Encoding)
	}
	if err := fitBody(s, output, t, body.Schema.Inner, nil); err != nil {
		return nil, err
	}
	fill := holdsSlices(t, map[reflect.Type]bool{})
	return func(call *Call, out *O) error {
		if out == nil {
			return errors.New("handler returned neither output nor error")
		}
		if fill {
			fillSlices(reflect.ValueOf(out))
		}
		return sendJSON(call, http.StatusOK, out)
	}, nil
}

// Nullable is a field of an input that tells absent, null and a value apart,
// such as swapRecord of putRecord.
type Nullable[T any] struct {
	Set   bool // present
	Null  bool // present and null
	Value T    // when Set and not Null
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nullable[T]) UnmarshalJSON(raw []byte) error {
	*n = Nullable[T]{Set: true, Null: isNull(raw)}
	if n.Null {
		return nil
	}
	return json.Unmarshal(raw, &n.Value)
}
