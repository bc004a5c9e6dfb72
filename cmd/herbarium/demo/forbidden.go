package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/atclient"
)

// forbidden tries each thing that the host must refuse, and prints how it
// refuses: the name of the error and the repair at the end of its message. An
// attempt that succeeds fails the demo.
func (d *demo) forbidden(ctx context.Context) error {
	oldest, newest := d.page[0], d.page[len(d.page)-1]
	first, err := seePage(ctx, d.site.url)
	if err != nil {
		return err
	}
	// Each attempt starts from a record that would be accepted.
	edited := func(change func(record object)) (object, error) {
		record, err := d.scout.observation(ctx, first, nil)
		if err == nil && change != nil {
			change(record)
		}
		return record, err
	}
	doomed, err := d.scout.observe(ctx, first, nil)
	if err != nil {
		return err
	}

	attempts := []struct {
		what string
		want string // the error name
		try  func(context.Context) error
	}{
		{"edit an observation with putRecord", "ImmutableRecord", func(ctx context.Context) error {
			record, err := edited(nil)
			if err != nil {
				return err
			}
			return d.scout.post(ctx, "com.atproto.repo.putRecord", object{"collection": observationType, "rkey": rkey(oldest.URI), "record": record})
		}},
		{"edit an observation inside applyWrites", "ImmutableRecord", func(ctx context.Context) error {
			record, err := edited(nil)
			if err != nil {
				return err
			}
			return d.scout.apply(ctx, object{"$type": "com.atproto.repo.applyWrites#update", "collection": observationType, "rkey": rkey(oldest.URI), "value": record})
		}},
		{"delete and create one record key in one batch", "ImmutableRecord", func(ctx context.Context) error {
			record, err := edited(nil)
			if err != nil {
				return err
			}
			return d.scout.apply(ctx,
				object{"$type": "com.atproto.repo.applyWrites#delete", "collection": observationType, "rkey": rkey(doomed.URI)},
				object{"$type": "com.atproto.repo.applyWrites#create", "collection": observationType, "rkey": rkey(doomed.URI), "value": record})
		}},
		{"write again under the key of a deleted observation", "RecordTombstoned", func(ctx context.Context) error {
			if err := d.scout.delete(ctx, doomed); err != nil {
				return err
			}
			record, err := edited(nil)
			if err != nil {
				return err
			}
			return d.scout.post(ctx, "com.atproto.repo.createRecord", object{"collection": observationType, "rkey": rkey(doomed.URI), "record": record})
		}},
		{"skip validation of an observation", "ValidationRequired", func(ctx context.Context) error {
			record, err := edited(nil)
			if err != nil {
				return err
			}
			return d.scout.post(ctx, "com.atproto.repo.createRecord", object{"collection": observationType, "record": record, "validate": false})
		}},
		{"supersede an observation that is superseded", "AlreadySuperseded", func(ctx context.Context) error {
			return d.tryObservation(ctx, edited, func(r object) { r["supersedes"] = oldest })
		}},
		{"supersede a version that does not exist", "SupersedesCidMismatch", func(ctx context.Context) error {
			return d.tryObservation(ctx, edited, func(r object) { r["supersedes"] = strongRef{newest.URI, oldest.CID} })
		}},
		{"supersede an observation that never was", "SupersedesNotFound", func(ctx context.Context) error {
			uri := strings.TrimSuffix(newest.URI, rkey(newest.URI)) + d.scout.clock.Next().String()
			return d.tryObservation(ctx, edited, func(r object) { r["supersedes"] = strongRef{uri, oldest.CID} })
		}},
		{"supersede something that is no observation", "InvalidRequest", func(ctx context.Context) error {
			return d.tryObservation(ctx, edited, func(r object) { r["supersedes"] = d.work })
		}},
		{"name bytes that were never uploaded", "BlobNotFound", func(ctx context.Context) error {
			return d.tryObservation(ctx, edited, func(r object) {
				r["content"] = object{"$type": "blob", "ref": object{"$link": "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"}, "mimeType": "text/html", "size": 42}
			})
		}},
		{"lie about the size of the bytes", "InvalidSize", func(ctx context.Context) error {
			content, err := d.scout.upload(ctx, first.content, first.mimeType)
			if err != nil {
				return err
			}
			return d.tryObservation(ctx, edited, func(r object) {
				r["content"] = object{"$type": "blob", "ref": object{"$link": content.CID}, "mimeType": content.MimeType, "size": content.Size + 1}
			})
		}},
		{"keep a password inside a URL", "CredentialInUrl", func(ctx context.Context) error {
			return d.tryObservation(ctx, edited, func(r object) {
				r["source"] = object{"kind": "url", "value": "https://scout:correct-horse@example.org/status"}
			})
		}},
		{"keep a private key in the text", "SecretDetected", func(ctx context.Context) error {
			return d.tryObservation(ctx, edited, func(r object) {
				r["text"] = "-----BEGIN " + "PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgZm9yIHRoZSBkZW1v\n-----END " + "PRIVATE KEY-----"
			})
		}},
		{"use a record key that is no TID", "InvalidRequest", func(ctx context.Context) error {
			record, err := edited(nil)
			if err != nil {
				return err
			}
			return d.scout.post(ctx, "com.atproto.repo.createRecord", object{"collection": observationType, "rkey": "my-note", "record": record})
		}},
		{"store a fraction", "InvalidRequest", func(ctx context.Context) error {
			return d.scout.post(ctx, "com.atproto.repo.createRecord", object{"collection": "com.example.reading", "record": object{"$type": "com.example.reading", "celsius": 21.5}})
		}},
		{"observe the future", "InvalidRequest", func(ctx context.Context) error {
			return d.tryObservation(ctx, edited, func(r object) { r["observedAt"] = timestamp(time.Now().Add(72 * time.Hour)) })
		}},
		{"rewrite a session that moved on", "InvalidSwap", func(ctx context.Context) error {
			record := object{"$type": sessionType, "title": "Mine", "summary": "Overwritten from afar.", "updatedAt": timestamp(time.Now())}
			return d.scout.post(ctx, "com.atproto.repo.putRecord", object{"collection": sessionType, "rkey": rkey(d.work.URI), "record": record, "swapRecord": oldest.CID})
		}},
		{"change the words of a published turn", "ImmutableRecord", func(ctx context.Context) error {
			turn := object{"$type": messageType, "session": d.chat.URI, "role": "user", "text": "The build was never red.", "createdAt": timestamp(time.Now())}
			return d.scribe.post(ctx, "com.atproto.repo.putRecord", object{"collection": messageType, "rkey": rkey(d.turns[0].URI), "record": turn})
		}},
		{"write into the other agent's repo", "AuthenticationRequired", func(ctx context.Context) error {
			record, err := edited(nil)
			if err != nil {
				return err
			}
			return d.scribe.client.Post(ctx, "com.atproto.repo.createRecord", object{"repo": d.scout.did, "collection": observationType, "record": record}, nil)
		}},
		{"take the identity of an agent that exists", "InvalidRequest", func(ctx context.Context) error {
			_, err := enroll(ctx, d.admin, d.url, d.scout.handle, "elsewhere", "none")
			return err
		}},
		{"read without a credential", "AuthMissing", func(ctx context.Context) error {
			err := atclient.NewAPIClient(d.url).Get(ctx, "garden.herbarium.getObservation", object{"uri": newest.URI}, nil)
			if err == nil && d.public {
				return errPublic
			}
			return err
		}},
	}
	for _, a := range attempts {
		err := a.try(ctx)
		if errors.Is(err, errPublic) {
			d.say("  %-52s allowed: this host's visibility is public", a.what)
			continue
		}
		refused := refusal(err)
		switch {
		case err == nil:
			return fmt.Errorf("%s: the host allowed it", a.what)
		case refused == nil:
			return fmt.Errorf("%s: %w", a.what, err)
		case refused.Name != a.want:
			return fmt.Errorf("%s: refused as %s (%s), want %s", a.what, refused.Name, refused.Message, a.want)
		}
		d.say("  %s\n      %d %s: %s", a.what, refused.StatusCode, refused.Name, refused.Message)
	}
	return nil
}

// tryObservation posts an observation that was changed into something wrong.
func (d *demo) tryObservation(ctx context.Context, edited func(func(object)) (object, error), change func(object)) error {
	record, err := edited(change)
	if err != nil {
		return err
	}
	return d.scout.post(ctx, "com.atproto.repo.createRecord", object{"collection": observationType, "record": record})
}

// post calls a write method on the agent's own repo and answers the host's error as it is.
func (a *agent) post(ctx context.Context, method string, body object) error {
	body["repo"] = a.did
	return a.client.Post(ctx, nsid(method), body, nil)
}

// apply posts a batch of writes.
func (a *agent) apply(ctx context.Context, writes ...object) error {
	return a.post(ctx, "com.atproto.repo.applyWrites", object{"writes": writes})
}

// delete removes a record and forgets it.
func (a *agent) delete(ctx context.Context, ref strongRef) error {
	collection := strings.Split(strings.TrimPrefix(ref.URI, "at://"), "/")[1]
	if err := a.post(ctx, "com.atproto.repo.deleteRecord", object{"collection": collection, "rkey": rkey(ref.URI)}); err != nil {
		return err
	}
	for i, r := range a.records {
		if r.URI == ref.URI {
			a.records = append(a.records[:i], a.records[i+1:]...)
			break
		}
	}
	return nil
}
