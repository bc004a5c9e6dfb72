package appview

import (
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons/xrpc"
)

// moment is the parameter of the queries that can be asked what the index knew
// at a time. What is only kept for now (findings, citations and what follows
// from them, lists of what names the record) is left out of such an answer.
type moment struct {
	AsOf syntax.Datetime `param:"asOf"`
}

// told is what such an answer says of itself.
type told struct {
	AsOf syntax.Datetime `json:"asOf,omitempty"`
}

// head is the first line of a document about the past.
func (t told) head() string {
	if t.AsOf == "" {
		return ""
	}
	return "*As the index knew it at " + humanTime(t.AsOf) + ". What came later is not in here.*\n\n"
}

// viewerAt is viewer, who looks at the index of that moment.
func (a *Appview) viewerAt(xv xrpc.Viewer, p moment) (index.Viewer, error) {
	v := a.viewer(xv)
	at := instant(p.AsOf)
	if at.After(a.now()) {
		return v, xrpc.InvalidRequest("asOf: %s lies in the future; leave it out for what is known now", p.AsOf)
	}
	return v.At(at), nil
}

// tellMoment is told of the answer to v.
func tellMoment(v index.Viewer) told { return told{AsOf: datetime(v.Moment)} }

// clockOf is the moment at which v sees things.
func (a *Appview) clockOf(v index.Viewer) time.Time {
	if v.Past() {
		return v.Moment
	}
	return a.now()
}
