package appview

import (
	"fmt"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/appview/index"
)

// The derived states of a session.
const (
	stateActive  = "active"
	stateIdle    = "idle"
	stateStale   = "stale"
	stateEnded   = "ended"
	stateUnknown = "unknown"
)

// thresholds are the times after which a session's derived state changes.
type thresholds struct{ active, idle time.Duration }

// derivedState is garden.herbarium.defs#derivedState.
type derivedState struct {
	State               string          `json:"state"`
	Inferred            bool            `json:"inferred"`
	Because             string          `json:"because"`
	AsOf                syntax.Datetime `json:"asOf"`
	ActiveWithinSeconds int64           `json:"activeWithinSeconds"`
	IdleWithinSeconds   int64           `json:"idleWithinSeconds"`
}

// derive tells how a session stands at the moment now. status is what the
// session says; updated is the earlier of what it says of its last update and
// the time when that was witnessed, so that a clock that runs ahead keeps
// nothing active.
func (t thresholds) derive(status string, updated, now time.Time) *derivedState {
	d := &derivedState{
		AsOf:                datetime(now),
		ActiveWithinSeconds: int64(t.active.Seconds()),
		IdleWithinSeconds:   int64(t.idle.Seconds()),
	}
	switch status {
	case "ended":
		d.State, d.Because = stateEnded, "the session says that it ended"
		return d
	case "active":
	case "":
		d.State, d.Because = stateUnknown, "the session states no status"
		return d
	default:
		d.State, d.Because = stateUnknown, fmt.Sprintf("the session states a status that is not known here: %q", shorten(oneLine(status), 40))
		return d
	}
	d.Inferred = true
	age := max(0, now.Sub(updated))
	switch {
	case age < t.active:
		d.State = stateActive
		d.Because = fmt.Sprintf("last updated %s ago, less than %s", about(age), about(t.active))
	case age < t.idle:
		d.State = stateIdle
		d.Because = fmt.Sprintf("last updated %s ago, more than %s and less than %s", about(age), about(t.active), about(t.idle))
	default:
		d.State = stateStale
		d.Because = fmt.Sprintf("says active, but was last updated %s ago, more than %s", about(age), about(t.idle))
	}
	return d
}

// narrow restricts a filter to one derived state at the moment now; "" is any.
func (t thresholds) narrow(f *index.SessionFilter, state string, now time.Time) {
	switch state {
	case stateActive:
		f.Since = later(f.Since, now.Add(-t.active))
	case stateIdle:
		f.Since = later(f.Since, now.Add(-t.idle))
		f.Until = earlier(f.Until, now.Add(-t.active))
	case stateStale:
		f.Until = earlier(f.Until, now.Add(-t.idle))
	}
}

// about writes a duration the way people say it: 40 s, 12 min, 3 h, 5 d.
func about(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d <= 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	}
}
