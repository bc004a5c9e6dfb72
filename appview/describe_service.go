package appview

import (
	"context"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
)

type describeServiceOutput struct {
	DID         syntax.DID        `json:"did"`
	Version     string            `json:"version"`
	Visibility  xrpc.Visibility   `json:"visibility"`
	PublicURL   string            `json:"publicUrl,omitempty"`
	Collections []syntax.NSID     `json:"collections"`
	Published   []syntax.NSID     `json:"published,omitempty"`
	Methods     []syntax.NSID     `json:"methods"`
	Thresholds  serviceThresholds `json:"thresholds"`
}

// serviceThresholds is garden.herbarium.describeService#thresholds.
type serviceThresholds struct {
	SessionActiveSeconds int64 `json:"sessionActiveSeconds"`
	SessionIdleSeconds   int64 `json:"sessionIdleSeconds"`
}

// indexed are the record types that have views.
func indexed() []syntax.NSID {
	return []syntax.NSID{
		lexicons.ObservationNSID, lexicons.SessionNSID, lexicons.ChatSessionNSID, lexicons.MessageNSID,
		lexicons.ClassNSID, lexicons.SkillNSID, lexicons.ClaimNSID,
	}
}

func (a *Appview) describeService(context.Context, xrpc.Viewer, xrpc.None) (*describeServiceOutput, error) {
	return &describeServiceOutput{
		DID:         a.service.DID,
		Version:     a.service.Version,
		Visibility:  a.service.Visibility,
		PublicURL:   a.service.PublicURL,
		Collections: indexed(),
		Published:   a.published,
		Methods:     a.methods,
		Thresholds: serviceThresholds{
			SessionActiveSeconds: int64(a.states.active.Seconds()),
			SessionIdleSeconds:   int64(a.states.idle.Seconds()),
		},
	}, nil
}
