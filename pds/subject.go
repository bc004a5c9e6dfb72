package pds

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
	"herbarium.garden/pds/sequencer"
)

// The three kinds of subject that the operator decides about.
const (
	repoRefType     = "com.atproto.admin.defs#repoRef"
	strongRefType   = "com.atproto.repo.strongRef"
	repoBlobRefType = "com.atproto.admin.defs#repoBlobRef"
)

// subject is the union of those three.
type subject struct {
	Type      string       `json:"$type"`
	DID       syntax.DID   `json:"did,omitempty"`       // of an account, or of the account of a blob
	URI       syntax.ATURI `json:"uri,omitempty"`       // of a record
	CID       syntax.CID   `json:"cid,omitempty"`       // of a record or a blob
	RecordURI syntax.ATURI `json:"recordUri,omitempty"` // with a blob; taken no notice of
}

// content answers the record or blob that a subject is, and its CID; ok is
// false for an account.
func (s subject) content() (_ repostore.Subject, of repostore.Takedown, ok bool, err error) {
	switch s.Type {
	case repoRefType:
		return repostore.Subject{}, of, false, nil
	case strongRefType:
		record, err := recordSubject(s.URI)
		if err != nil {
			return record, of, false, err
		}
		of.CID, err = parseCID("subject.cid", s.CID)
		return record, of, true, err
	case repoBlobRefType:
		of.CID, err = parseCID("subject.cid", s.CID)
		return repostore.BlobSubject(s.DID, of.CID), of, true, err
	}
	return repostore.Subject{}, of, false, xrpc.InvalidRequest("there is no subject of $type %q; send %s, %s or %s", s.Type, repoRefType, strongRefType, repoBlobRefType)
}

func recordSubject(uri syntax.ATURI) (repostore.Subject, error) {
	did, err := uri.Authority().AsDID()
	if err != nil || uri.Collection() == "" || uri.RecordKey() == "" {
		return repostore.Subject{}, xrpc.InvalidRequest("uri does not name a record; send at://, its DID, collection and record key")
	}
	return repostore.RecordSubject(did, uri.Collection(), uri.RecordKey()), nil
}

type getSubjectStatusParams struct {
	DID  *syntax.DID   `param:"did"`
	URI  *syntax.ATURI `param:"uri"`
	Blob *syntax.CID   `param:"blob"`
}

type subjectStatus struct {
	Subject     subject     `json:"subject"`
	Takedown    *statusAttr `json:"takedown,omitempty"`
	Deactivated *statusAttr `json:"deactivated,omitempty"` // of an account
}

func (p *PDS) getSubjectStatus(ctx context.Context, _ xrpc.Viewer, in getSubjectStatusParams) (*subjectStatus, error) {
	switch {
	case in.URI != nil:
		return p.recordStatus(ctx, *in.URI)
	case in.DID == nil:
		return nil, xrpc.InvalidRequest("no subject is named; send did, did with blob, or uri")
	case in.Blob != nil:
		return p.blobStatus(ctx, *in.DID, *in.Blob)
	}
	a, err := p.accounts.Get(ctx, *in.DID)
	if err != nil {
		return nil, notFound(err)
	}
	return &subjectStatus{
		Subject:     subject{Type: repoRefType, DID: a.DID},
		Takedown:    &statusAttr{Applied: a.TakenDownAt != nil, Ref: a.TakedownRef},
		Deactivated: &statusAttr{Applied: a.DeactivatedAt != nil},
	}, nil
}

// recordStatus looks a record up that was not taken down, for its CID.
func (p *PDS) recordStatus(ctx context.Context, uri syntax.ATURI) (*subjectStatus, error) {
	record, err := recordSubject(uri)
	if err != nil {
		return nil, err
	}
	taken, err := p.repos.Takedown(ctx, record)
	if err != nil {
		return nil, err
	}
	if taken != nil {
		return contentStatus(subject{Type: strongRefType, URI: uri, CID: syntax.CID(taken.CID.String())}, taken), nil
	}
	r, err := p.repos.GetRecord(ctx, record.DID, uri.Collection(), uri.RecordKey())
	if err != nil {
		return nil, err
	}
	return contentStatus(subject{Type: strongRefType, URI: uri, CID: syntax.CID(r.CID.String())}, nil), nil
}

func (p *PDS) blobStatus(ctx context.Context, did syntax.DID, blob syntax.CID) (*subjectStatus, error) {
	c, err := parseCID("blob", blob)
	if err != nil {
		return nil, err
	}
	taken, err := p.repos.Takedown(ctx, repostore.BlobSubject(did, c))
	if err != nil {
		return nil, err
	}
	return contentStatus(subject{Type: repoBlobRefType, DID: did, CID: blob}, taken), nil
}

func contentStatus(s subject, taken *repostore.Takedown) *subjectStatus {
	status := &subjectStatus{Subject: s, Takedown: &statusAttr{Applied: taken != nil}}
	if taken != nil {
		status.Takedown.Ref = taken.Ref
	}
	return status
}

type updateSubjectStatusInput struct {
	Subject     subject     `json:"subject"`
	Takedown    *statusAttr `json:"takedown"`
	Deactivated *statusAttr `json:"deactivated"`
}

type updateSubjectStatusOutput struct {
	Subject  subject     `json:"subject"`
	Takedown *statusAttr `json:"takedown,omitempty"`
}

// updateSubjectStatus takes an account, a record or a blob down or lifts that,
// or (de)activates an account.
func (p *PDS) updateSubjectStatus(ctx context.Context, _ xrpc.Viewer, in updateSubjectStatusInput) (*updateSubjectStatusOutput, error) {
	content, of, isContent, err := in.Subject.content()
	switch {
	case err != nil:
		return nil, err
	case in.Takedown == nil && in.Deactivated == nil:
		return nil, xrpc.InvalidRequest("nothing is to be changed; send takedown or deactivated")
	case isContent && in.Deactivated != nil:
		return nil, xrpc.InvalidRequest("only an account is deactivated; send takedown alone")
	case isContent:
		err = p.setContentStatus(ctx, content, of, *in.Takedown)
	default:
		err = p.setAccountStatus(ctx, in)
	}
	if err != nil {
		return nil, err
	}
	return &updateSubjectStatusOutput{Subject: in.Subject, Takedown: in.Takedown}, nil
}

func (p *PDS) setContentStatus(ctx context.Context, content repostore.Subject, of repostore.Takedown, takedown statusAttr) error {
	if _, err := p.accounts.Get(ctx, content.DID); err != nil {
		return notFound(err)
	}
	of.Ref = takedown.Ref
	var err error
	if takedown.Applied {
		err = p.repos.TakeDown(ctx, content, of)
	} else {
		err = p.repos.LiftTakedown(ctx, content)
	}
	if err != nil {
		return err
	}
	return p.tellIndex(ctx, content)
}

func (p *PDS) setAccountStatus(ctx context.Context, in updateSubjectStatusInput) error {
	if in.Takedown != nil && in.Takedown.Applied && in.Deactivated != nil && !in.Deactivated.Applied {
		return xrpc.InvalidRequest("an account cannot be taken down and activated at once; send one of the two")
	}
	did := in.Subject.DID
	if in.Deactivated != nil && !in.Deactivated.Applied {
		// It may live elsewhere by now, and two hosts must not write to one repo.
		if _, err := p.accounts.Get(ctx, did); err != nil {
			return notFound(err)
		}
		if err := p.checkDocument(ctx, did); err != nil {
			return err
		}
	}
	err := p.changeAccount(ctx, did, func(tx *gorm.DB) ([]sequencer.Draft, error) {
		a, err := p.setStatus(ctx, tx, did, in)
		if err != nil {
			return nil, notFound(err)
		}
		if a.Active() {
			return p.activation(ctx, tx, a)
		}
		return []sequencer.Draft{announce(a)}, nil
	})
	if err != nil {
		return fmt.Errorf("update status of %s: %w", did, err)
	}
	return nil
}

func (p *PDS) setStatus(ctx context.Context, tx *gorm.DB, did syntax.DID, in updateSubjectStatusInput) (a account.Account, err error) {
	if in.Takedown != nil {
		if in.Takedown.Applied {
			a, err = p.accounts.TakeDownTx(ctx, tx, did, in.Takedown.Ref)
		} else {
			a, err = p.accounts.LiftTakedownTx(ctx, tx, did)
		}
	}
	if err == nil && in.Deactivated != nil {
		if in.Deactivated.Applied {
			a, err = p.accounts.DeactivateTx(ctx, tx, did, nil)
		} else {
			a, err = p.accounts.ActivateTx(ctx, tx, did)
		}
	}
	return a, err
}
