package appview

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

type exportListParams struct {
	List   string   `param:"list"`
	Format string   `param:"format"`
	Filter []string `param:"filter"`
}

// exportList answers with the whole of a list, page by page as the list's own
// query answers them, so that an export shows what the list shows, to whom it
// shows it, whatever lists there are.
func (a *Appview) exportList(s *xrpc.Server) func(context.Context, *xrpc.Call, exportListParams) error {
	return func(ctx context.Context, call *xrpc.Call, p exportListParams) error {
		nsid := syntax.NSID(namespace + p.List)
		list, err := s.List(nsid)
		if errors.Is(err, xrpc.ErrNoList) || !strings.HasPrefix(p.List, "list") && !strings.HasPrefix(p.List, "search") {
			return xrpc.InvalidRequest("list: %q is no list that can be exported; name a query such as listObservations", p.List)
		}
		if err != nil {
			return err
		}
		params, err := exportFilters(p, list)
		if err != nil {
			return err
		}
		write := newlines
		contentType := "application/x-ndjson"
		if p.Format == "csv" {
			write, contentType = table(list.Columns), "text/csv; charset=utf-8; header=present"
		}
		// The first page is there before the first byte: what is refused is refused as usual.
		page, err := askPage(ctx, s, call, nsid, params, list)
		if err != nil {
			return err
		}
		header := call.Writer.Header()
		header.Set("Content-Type", contentType)
		header.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", p.List+"."+p.Format))
		call.Writer.WriteHeader(http.StatusOK)
		flush := http.NewResponseController(call.Writer)
		for first := true; ; first = false {
			if err := write(call.Writer, page.items, first); err != nil {
				return err
			}
			if page.cursor == "" {
				return nil
			}
			if err := flush.Flush(); err != nil {
				return err
			}
			params.Set("cursor", page.cursor)
			if page, err = askPage(ctx, s, call, nsid, params, list); err != nil {
				return err
			}
		}
	}
}

// exportFilters reads the filters of an export, name=value each, into parameters of the list.
func exportFilters(p exportListParams, list *xrpc.List) (url.Values, error) {
	params := url.Values{"limit": {strconv.Itoa(index.MaxLimit)}}
	for _, filter := range p.Filter {
		name, value, ok := strings.Cut(filter, "=")
		switch {
		case !ok:
			return nil, xrpc.InvalidRequest("filter: want name=value, with a parameter of %s", p.List)
		case slices.Contains([]string{"cursor", "limit", "format", "minRev"}, name):
			return nil, xrpc.InvalidRequest("filter: %s cannot be set; an export has all pages, and a query with minRev before it waits for a write", name)
		case !slices.Contains(list.Parameters, name):
			return nil, xrpc.InvalidRequest("filter: %s has no parameter %q; it has %s", p.List, name, strings.Join(list.Parameters, ", "))
		}
		params.Add(name, value)
	}
	return params, nil
}

// exportPage is one page of a list.
type exportPage struct {
	items  []json.RawMessage
	cursor string
}

func askPage(ctx context.Context, s *xrpc.Server, call *xrpc.Call, nsid syntax.NSID, params url.Values, list *xrpc.List) (*exportPage, error) {
	body, err := s.Ask(ctx, call, nsid, params)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, fmt.Errorf("page of %s: %w", nsid, err)
	}
	page := &exportPage{}
	if cursor, more := members["cursor"]; more {
		if err := json.Unmarshal(cursor, &page.cursor); err != nil {
			return nil, fmt.Errorf("page of %s: %w", nsid, err)
		}
	}
	if err := json.Unmarshal(members[list.Items], &page.items); err != nil {
		return nil, fmt.Errorf("page of %s: %w", nsid, err)
	}
	return page, nil
}

// newlines writes items as they are in the list, one on each line.
func newlines(out io.Writer, items []json.RawMessage, _ bool) error {
	for _, item := range items {
		if _, err := out.Write(append(bytes.TrimSpace(item), '\n')); err != nil {
			return err
		}
	}
	return nil
}

// table writes items as rows of columns, after a row with their names (RFC 4180).
func table(columns []string) func(io.Writer, []json.RawMessage, bool) error {
	paths := each(columns, func(c string) []string { return strings.Split(c, ".") })
	return func(out io.Writer, items []json.RawMessage, first bool) error {
		rows := csv.NewWriter(out)
		rows.UseCRLF = true
		if first {
			if err := rows.Write(columns); err != nil {
				return err
			}
		}
		for _, item := range items {
			decoder := json.NewDecoder(bytes.NewReader(item))
			decoder.UseNumber()
			var value any
			if err := decoder.Decode(&value); err != nil {
				return err
			}
			if err := rows.Write(each(paths, func(path []string) string { return cell(value, path) })); err != nil {
				return err
			}
		}
		rows.Flush()
		return rows.Error()
	}
}

// cell is the value at path as text; "" when there is none, JSON when it is no scalar.
func cell(value any, path []string) string {
	for _, name := range path {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return plainCell(value)
	case json.Number:
		return value.String()
	case bool:
		return strconv.FormatBool(value)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// plainCell keeps a spreadsheet from taking what an agent wrote for a formula, by
// an apostrophe before it.
func plainCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
