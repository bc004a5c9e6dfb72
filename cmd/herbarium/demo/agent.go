package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
	"github.com/bluesky-social/indigo/atproto/syntax"
)

// The collections that the demo writes.
const (
	observationType = "garden.engram.agents.observation"
	sessionType     = "garden.engram.session"
	claimType       = "garden.herbarium.claim"
	skillType       = "com.publicdomainrelay.temp.agent.skill"
	classType       = "com.publicdomainrelay.temp.agent.class"
	chatType        = "click.aligned.chat.session"
	messageType     = "click.aligned.chat.message"
)

// object is the JSON of a record or of a part of one.
type object = map[string]any

// strongRef is com.atproto.repo.strongRef.
type strongRef struct {
	URI string `json:"uri"`
	CID string `json:"cid"`
}

// agent is an account that runs by itself, logged in.
type agent struct {
	client   *atclient.APIClient
	did      syntax.DID
	handle   string
	password string
	device   string // the machine that it says it runs on: self-reported
	model    string
	run      syntax.TID // minted when the working session starts
	clock    *syntax.TIDClock

	records []strongRef
	blobs   []blob
}

// blob is an uploaded blob as uploadBlob answered it.
type blob struct {
	Raw      json.RawMessage // the blob object, to be put into a record as it is
	CID      string
	MimeType string
	Size     int64
}

// enroll has the operator make an invite and the agent an account with it.
func enroll(ctx context.Context, admin *atclient.APIClient, host, handle, device, model string) (*agent, error) {
	var invite struct {
		Code string `json:"code"`
	}
	if err := admin.Post(ctx, "com.atproto.server.createInviteCode", object{"useCount": 1}, &invite); err != nil {
		return nil, fmt.Errorf("create an invite code: %w", err)
	}
	password := rand.Text()
	anonymous := atclient.NewAPIClient(host)
	body := object{"handle": handle, "password": password, "inviteCode": invite.Code}
	if err := anonymous.Post(ctx, "com.atproto.server.createAccount", body, nil); err != nil {
		return nil, fmt.Errorf("create account %s: %w", handle, err)
	}
	client, err := atclient.LoginWithPasswordHost(ctx, host, handle, password, "", nil)
	if err != nil {
		return nil, fmt.Errorf("log in as %s: %w", handle, err)
	}
	clock := syntax.NewTIDClock(0)
	return &agent{
		client: client, did: *client.AccountDID, handle: handle, password: password,
		device: device, model: model, run: clock.Next(), clock: clock,
	}, nil
}

// created is the answer of the write methods, as far as the demo reads it.
type created struct {
	strongRef
	ValidationStatus string `json:"validationStatus"`
}

// create writes one record and remembers what the host acknowledged.
func (a *agent) create(ctx context.Context, collection, rkey string, record object) (strongRef, error) {
	body := object{"repo": a.did, "collection": collection, "record": record}
	if rkey != "" {
		body["rkey"] = rkey
	}
	var out created
	if err := a.client.Post(ctx, "com.atproto.repo.createRecord", body, &out); err != nil {
		return strongRef{}, fmt.Errorf("create %s: %w", collection, err)
	}
	a.records = append(a.records, out.strongRef)
	return out.strongRef, nil
}

// put writes one record over what stands at its key, which must be swap when that is given.
func (a *agent) put(ctx context.Context, collection, rkey string, record object, swap string) (strongRef, error) {
	body := object{"repo": a.did, "collection": collection, "rkey": rkey, "record": record}
	if swap != "" {
		body["swapRecord"] = swap
	}
	var out created
	if err := a.client.Post(ctx, "com.atproto.repo.putRecord", body, &out); err != nil {
		return strongRef{}, fmt.Errorf("put %s/%s: %w", collection, rkey, err)
	}
	for i, old := range a.records {
		if old.URI == out.URI {
			a.records[i] = out.strongRef
			return out.strongRef, nil
		}
	}
	a.records = append(a.records, out.strongRef)
	return out.strongRef, nil
}

// upload stores bytes as a blob of the agent's.
func (a *agent) upload(ctx context.Context, content []byte, mimeType string) (blob, error) {
	req := atclient.NewAPIRequest(http.MethodPost, "com.atproto.repo.uploadBlob", bytes.NewReader(content))
	req.Headers.Set("Content-Type", mimeType)
	resp, err := a.client.Do(ctx, req)
	if err != nil {
		return blob{}, fmt.Errorf("upload a blob: %w", err)
	}
	defer resp.Body.Close()
	var out struct {
		Blob  json.RawMessage `json:"blob"`
		Error string          `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return blob{}, fmt.Errorf("upload a blob: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return blob{}, fmt.Errorf("upload a blob: %s %s", resp.Status, out.Error)
	}
	var parts struct {
		Ref struct {
			Link string `json:"$link"`
		} `json:"ref"`
		MimeType string `json:"mimeType"`
		Size     int64  `json:"size"`
	}
	if err := json.Unmarshal(out.Blob, &parts); err != nil {
		return blob{}, fmt.Errorf("upload a blob: %w", err)
	}
	b := blob{Raw: out.Blob, CID: parts.Ref.Link, MimeType: parts.MimeType, Size: parts.Size}
	a.blobs = append(a.blobs, b)
	return b, nil
}

// observation is the record of a specimen, its bytes uploaded as a blob.
func (a *agent) observation(ctx context.Context, s specimen, supersedes *strongRef) (object, error) {
	content, err := a.upload(ctx, s.content, s.mimeType)
	if err != nil {
		return nil, err
	}
	record := object{
		"$type":      observationType,
		"source":     object{"kind": s.kind, "value": s.value},
		"method":     s.method,
		"observedAt": timestamp(s.seen),
		"createdAt":  timestamp(time.Now()),
		"text":       s.text(),
		"content":    content.Raw,
		"generator": object{
			"run": a.run, "device": a.device, "harness": "herbarium-demo", "model": a.model,
		},
	}
	if supersedes != nil {
		record["supersedes"] = supersedes
	}
	return record, nil
}

// observe records a specimen.
func (a *agent) observe(ctx context.Context, s specimen, supersedes *strongRef) (strongRef, error) {
	record, err := a.observation(ctx, s, supersedes)
	if err != nil {
		return strongRef{}, fmt.Errorf("observe %s: %w", s.value, err)
	}
	ref, err := a.create(ctx, observationType, "", record)
	if err != nil {
		return strongRef{}, fmt.Errorf("observe %s: %w", s.value, err)
	}
	return ref, nil
}

// timestamp is atproto's datetime: RFC 3339 in UTC.
func timestamp(t time.Time) string { return t.UTC().Format(syntax.AtprotoDatetimeLayout) }

// rkey is the last part of an AT URI.
func rkey(uri string) string { return uri[strings.LastIndexByte(uri, '/')+1:] }

// refusal is the answer of the host to a write that it turned down; nil when
// the error is something else.
func refusal(err error) *atclient.APIError {
	var refused *atclient.APIError
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}
