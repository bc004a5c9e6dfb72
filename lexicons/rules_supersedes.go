package lexicons

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// headRepair is the fixed form in which a refusal names a chain head.
func headRepair(head StrongRef) string { return fmt.Sprintf("head %s %s", head.URI, head.CID) }

// supersedesForm: what an observation supersedes is another observation, named
// by DID. A handle would let the rules within one repo be walked round.
func supersedesForm(s *subject, o Observation) {
	raw, present := s.Record.Value["supersedes"]
	if !present {
		return
	}
	s.strongRef("/supersedes", raw)
	target := o.Supersedes
	switch {
	case target == nil:
	case target.URI.Collection() != ObservationNSID:
		s.refuse(CodeSupersedesWrongType, RefusalInvalidRequest, "/supersedes/uri", "want at://<did>/"+string(ObservationNSID)+"/<rkey>",
			"an observation supersedes an observation, not a record of %s", target.URI.Collection())
	case target.URI == s.URI:
		s.refuse(CodeSupersedesSelf, RefusalInvalidRequest, "/supersedes/uri", "name the earlier observation", "the observation supersedes itself")
	}
}

// supersedesTarget: within one repo the host knows every chain, and keeps it a
// chain: the target exists, at the CID that is named, and nothing live
// descends from it yet.
func supersedesTarget(ctx context.Context, s *subject, o Observation, snap Snapshot) error {
	target := o.Supersedes
	if target == nil || s.Prev != nil || target.URI == s.URI || target.URI.Collection() != ObservationNSID {
		return nil
	}
	if target.URI.Authority().String() != s.DID.String() {
		s.flag(Warning, CodeSupersedesForeign, "/supersedes", "the target is in another repo: a proposal, which moves no head there")
		return nil
	}
	stored, err := snap.Record(ctx, target.URI)
	if err != nil {
		return err
	}
	if stored == nil {
		tomb, err := snap.Tombstone(ctx, target.URI)
		if err != nil {
			return err
		}
		if tomb == nil {
			s.refuse(CodeSupersedesDangling, RefusalSupersedesNotFound, "/supersedes/uri", "leave out supersedes, or name an observation of this repo",
				"there is no observation at %s and never was", target.URI)
			return nil
		}
		s.flag(Info, CodeSupersedesDeleted, "/supersedes", "the target was deleted")
	}
	if err := notSuperseded(ctx, s, target.URI, snap); err != nil {
		return err
	}
	if stored == nil {
		return nil
	}
	if !stored.CID.Equals(target.CID) {
		s.refuse(CodeSupersedesCIDMismatch, RefusalSupersedesCidMismatch, "/supersedes/cid", "cid "+stored.CID.String(),
			"the observation at %s has another CID", target.URI)
	}
	compareWithTarget(s, o, stored)
	return nil
}

// notSuperseded: the head in the error is what the writer meant to supersede.
func notSuperseded(ctx context.Context, s *subject, target syntax.ATURI, snap Snapshot) error {
	head, err := snap.LiveSuccessor(ctx, target)
	if err != nil || head == nil || head.URI == s.URI {
		return err
	}
	s.forked(headRepair(*head), "the target is superseded already; supersede the chain head instead")
	return nil
}

func (s *subject) forked(repair, what string) {
	if s.settings.Supersedes == PolicyFlag {
		s.flag(Warning, CodeForked, "/supersedes", "the target has two successors, both are kept")
		return
	}
	s.refuse(CodeForked, RefusalAlreadySuperseded, "/supersedes", repair, "%s", what)
}

// compareWithTarget notes what changed since the target: all of it legitimate.
func compareWithTarget(s *subject, o Observation, stored *StoredRecord) {
	value, err := DecodeCBOR(stored.CBOR)
	if err != nil {
		return // what stands in the repo is not this write's fault
	}
	old := ReadObservation(value)
	if o.ObservedAt.Before(old.ObservedAt) {
		s.flag(Warning, CodeSupersedesBackwards, "/observedAt", "observed %s before the observation that it supersedes", old.ObservedAt.Sub(o.ObservedAt))
	}
	if o.Source != old.Source {
		s.flag(Warning, CodeSupersedesOther, "/source", "the superseded observation has another source")
	}
	if o.Text == old.Text && sameContent(o.Content, old.Content) {
		s.flag(Info, CodeUnchanged, "", "checked again, still the same")
	}
}

func sameContent(a, b *BlobRef) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.CID.Equals(b.CID)
}
