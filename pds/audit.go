package pds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/operator"
)

const listAuditMethod = "garden.herbarium.admin.listAudit"

func (p *PDS) registerAudit(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, listAuditMethod, xrpc.AdminOnly, p.listAudit),
	)
}

// auditable are the fields of inputs whose values the audit log keeps, in
// whatever method and depth. It lists what may be kept, not what must not: a
// field that is new is hidden until somebody has thought about it.
var auditable = func() map[string]bool {
	fields := map[string]bool{}
	for _, name := range []string{
		"$type", "account", "accounts", "action", "all", "applied", "blob", "blobs", "cid", "class", "codeCount", "collections", "createOnly", "cursor",
		"deactivated", "did", "dids", "displayName", "dryRun", "endpoint", "expiresAt", "force", "forAccount", "forAccounts", "handle", "id", "lexicons", "limit",
		"maxBlobBytes", "maxRecords", "members", "name", "nsids", "owner", "privileged", "publicKey", "recordUri", "records", "ref", "scope", "subject", "takedown",
		"uri", "uris", "useCount", "writesPerDay", "writesPerHour",
	} {
		fields[name] = true
	}
	return fields
}()

// Bounds of what is kept of one input.
const (
	maxAuditText  = 512 // bytes of one text
	maxAuditItems = 32  // of one list
	hidden        = "(hidden)"
)

// fitForAudit keeps of an input what auditable allows; of the rest, that it
// was there.
func fitForAudit(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			switch {
			case item == nil || item == "":
			case auditable[name]:
				out[name] = fitForAudit(item)
			default:
				out[name] = hidden
			}
		}
		return out
	case []any:
		out := []any{}
		for _, item := range v[:min(len(v), maxAuditItems)] {
			out = append(out, fitForAudit(item))
		}
		if len(v) > maxAuditItems {
			out = append(out, fmt.Sprintf("and %d more", len(v)-maxAuditItems))
		}
		return out
	case string:
		if strings.Contains(v, "://") && strings.Contains(v, "@") {
			return hidden // an address may carry a password
		}
		if len(v) > maxAuditText {
			return strings.ToValidUTF8(v[:maxAuditText], "") + "…"
		}
	}
	return v
}

// asObject is an input or output as the client writes or reads it.
func asObject(v any) map[string]any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		return nil
	}
	return object
}

// aboutWhat finds the account, and the record if it is about one, that an
// input names; of several records the first.
func aboutWhat(in map[string]any) (did, subject string) {
	for _, name := range []string{"did", "account", "uri"} {
		text, _ := in[name].(string)
		if parsed, err := syntax.ParseDID(text); err == nil {
			return string(parsed), string(parsed)
		}
		if uri, err := syntax.ParseATURI(text); err == nil {
			return uri.Authority().String(), text
		}
	}
	if nested, ok := in["subject"].(map[string]any); ok {
		return aboutWhat(nested)
	}
	if list, _ := in["records"].([]any); len(list) > 0 {
		if first, ok := list[0].(map[string]any); ok {
			return aboutWhat(first)
		}
	}
	handle, _ := in["handle"].(string)
	return "", handle
}

// Audit is the hook of the XRPC server around what operators call: it writes
// the entry before the call is carried out, without which it is not, and the
// outcome after it. That the outcome cannot be written changes nothing of what
// was done; it is logged, and the entry says that nobody knows.
func (p *PDS) Audit(ctx context.Context, call *xrpc.Call, input any) (func(output any, refusal *xrpc.Error), error) {
	in := asObject(input)
	did, subject := aboutWhat(in)
	kept, err := json.Marshal(fitForAudit(in))
	if err != nil {
		return nil, fmt.Errorf("audit %s: %w", call.NSID, err)
	}
	if in == nil {
		kept = []byte("{}")
	}
	id, err := p.audit.Begin(ctx, operator.Entry{
		Actor: string(call.Viewer.Kind), Method: string(call.NSID), DID: did, Subject: subject,
		Input: string(kept), Client: call.ClientIP.String(), RequestID: call.RequestID,
	})
	if err != nil {
		return nil, err
	}
	return func(output any, refusal *xrpc.Error) {
		outcome := operator.Outcome{State: operator.Done}
		switch {
		case refusal == nil:
			outcome.DID, _ = asObject(output)["did"].(string)
		case refusal.Status < 500:
			outcome.State, outcome.Error = operator.Refused, refusal.Name
		default:
			outcome.State, outcome.Error = operator.Failed, refusal.Name
		}
		// The client may be gone; what it did is not.
		if err := p.audit.Settle(context.WithoutCancel(ctx), id, outcome); err != nil {
			p.log.ErrorContext(ctx, "the outcome of an operator's call is not in the audit log", "entry", id, "method", call.NSID, "outcome", outcome.State, "err", err)
		}
	}, nil
}

type listAuditParams struct {
	DID    *syntax.DID      `param:"did"`
	Method *syntax.NSID     `param:"method"`
	Since  *syntax.Datetime `param:"since"`
	Until  *syntax.Datetime `param:"until"`
	Limit  int              `param:"limit"`
	Cursor string           `param:"cursor"`
}

type listAuditOutput struct {
	Cursor  string      `json:"cursor,omitempty"`
	Entries []auditView `json:"entries"`
}

// auditView is garden.herbarium.admin.defs#auditEntry.
type auditView struct {
	ID        int64           `json:"id"`
	At        string          `json:"at"`
	Actor     string          `json:"actor"`
	Method    string          `json:"method"`
	Subject   string          `json:"subject,omitempty"`
	Input     json.RawMessage `json:"input"`
	Client    string          `json:"client"`
	RequestID string          `json:"requestId"`
	Outcome   string          `json:"outcome"`
	Error     string          `json:"error,omitempty"`
}

func viewAudit(e operator.Entry) auditView {
	view := auditView{
		ID: e.ID, At: migrations.FormatTime(e.At), Actor: e.Actor, Method: e.Method, Subject: e.Subject, Input: json.RawMessage(e.Input),
		Client: e.Client, RequestID: e.RequestID, Outcome: string(e.Outcome.State), Error: e.Outcome.Error,
	}
	if e.Outcome.DID != "" {
		view.Subject = e.Outcome.DID
	}
	if e.Outcome.State == operator.Unknown {
		view.Outcome = "unknown"
	}
	return view
}

func (p *PDS) listAudit(ctx context.Context, _ xrpc.Viewer, in listAuditParams) (*listAuditOutput, error) {
	filter := operator.Filter{}
	if in.DID != nil {
		filter.DID = string(*in.DID)
	}
	if in.Method != nil {
		filter.Method = string(*in.Method)
	}
	if in.Since != nil {
		filter.Since = in.Since.Time()
	}
	if in.Until != nil {
		filter.Until = in.Until.Time()
	}
	if in.Cursor != "" {
		var err error
		if filter.Before, err = xrpc.DecodeCursor[int64](listAuditMethod, in.Cursor); err != nil {
			return nil, err
		}
	}
	entries, more, err := p.audit.List(ctx, filter, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listAuditOutput{Entries: make([]auditView, len(entries))}
	for i, e := range entries {
		out.Entries[i] = viewAudit(e)
	}
	if more {
		out.Cursor = xrpc.EncodeCursor(listAuditMethod, entries[len(entries)-1].ID)
	}
	return out, nil
}
