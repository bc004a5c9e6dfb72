package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
)

// nsid is for constants: the demo's own method names.
func nsid(s string) syntax.NSID { return syntax.NSID(s) }

// indexed waits until the appview has applied everything that both agents
// wrote, that is until it knows their repos at the rev of their hosts.
func (d *demo) indexed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, a := range []*agent{d.scout, d.scribe} {
		var latest struct {
			Rev string `json:"rev"`
		}
		if err := a.client.Get(ctx, "com.atproto.sync.getLatestCommit", object{"did": a.did}, &latest); err != nil {
			return fmt.Errorf("latest commit of %s: %w", a.handle, err)
		}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var status struct {
				Repo struct {
					Rev string `json:"rev"`
				} `json:"repo"`
			}
			if err := a.client.Get(ctx, "garden.herbarium.getIndexStatus", object{"did": a.did}, &status); err != nil {
				return fmt.Errorf("status of the index: %w", err)
			}
			if status.Repo.Rev >= latest.Rev {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the index has %s at rev %q, its host at %s", a.handle, status.Repo.Rev, latest.Rev)
			case <-tick.C:
			}
		}
	}
	return nil
}

// source is where an observation's content came from.
type source struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// finding is what the rules have to say about a record.
type finding struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	Path     string `json:"path"`
	Message  string `json:"message"`
	URI      string `json:"uri"`
}

// show reads everything back as views. It asks the appview as a client of the
// PDS would, through the atproto-proxy header.
func (d *demo) show(ctx context.Context) error {
	view := d.scribe.client.WithService(d.service + "#herbarium_appview")
	get := func(method string, params object, out any) error {
		if err := view.Get(ctx, nsid("garden.herbarium."+method), params, out); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return nil
	}
	for _, part := range []func(func(string, object, any) error) error{d.showChains, d.showSessions, d.showClasses, d.showConversation, d.showFindings} {
		if err := part(get); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) showChains(get func(string, object, any) error) error {
	d.title("Chains of observations")
	for _, chain := range d.chains() {
		var got struct {
			Observation struct {
				Source source `json:"source"`
				Chain  struct {
					Position, Length, StepsBehind int
					IsHead                        bool
					Head                          strongRef
				} `json:"chain"`
				CitedBy []struct{} `json:"citedBy"`
			} `json:"observation"`
		}
		if err := get("getObservation", object{"uri": chain[0].URI}, &got); err != nil {
			return err
		}
		o := got.Observation
		d.say("%s %s", o.Source.Kind, o.Source.Value)
		d.say("  the first observation is %d of %d, %d behind the head %s; cited by %d", o.Chain.Position, o.Chain.Length, o.Chain.StepsBehind, rkey(o.Chain.Head.URI), len(o.CitedBy))
		if o.Chain.Head != chain[len(chain)-1] {
			return fmt.Errorf("the head of %s is %v, want %v", chain[0].URI, o.Chain.Head, chain[len(chain)-1])
		}
		var history struct {
			Versions []struct {
				URI          string    `json:"uri"`
				Position     int       `json:"position"`
				FirstSeenAt  time.Time `json:"firstSeenAt"`
				TextBytes    int       `json:"textBytes"`
				ContentMoved bool      `json:"contentChanged"`
				Text         struct {
					Unified        string `json:"unified"`
					Added, Removed int
				} `json:"text"`
			} `json:"versions"`
		}
		if err := get("getObservationHistory", object{"uri": chain[0].URI}, &history); err != nil {
			return err
		}
		if len(history.Versions) != len(chain) {
			return fmt.Errorf("the history of %s has %d versions, want %d", chain[0].URI, len(history.Versions), len(chain))
		}
		for _, v := range history.Versions {
			d.say("  %2d  %s  %s  +%d -%d lines", v.Position, rkey(v.URI), v.FirstSeenAt.UTC().Format(time.TimeOnly), v.Text.Added, v.Text.Removed)
			for line := range strings.Lines(v.Text.Unified) {
				if (line[0] == '+' || line[0] == '-') && !strings.HasPrefix(line, "+++") && !strings.HasPrefix(line, "---") {
					d.say("        %s", oneLine(line, 100))
				}
			}
		}
	}
	var list struct {
		Observations []struct {
			Source  source `json:"source"`
			Excerpt string `json:"excerpt"`
			Content struct {
				MimeType string `json:"mimeType"`
				Size     int64  `json:"size"`
			} `json:"content"`
		} `json:"observations"`
	}
	if err := get("listObservations", object{"author": d.scout.handle, "headsOnly": true, "limit": 100}, &list); err != nil {
		return err
	}
	d.say("Heads of %s, newest first:", d.scout.handle)
	for _, o := range list.Observations {
		d.say("  %-7s %-44s %10d B  %s", o.Source.Kind, oneLine(o.Source.Value, 44), o.Content.Size, o.Content.MimeType)
	}
	return nil
}

func (d *demo) showSessions(get func(string, object, any) error) error {
	d.title("Sessions")
	var list struct {
		Sessions []struct {
			Title   string `json:"title"`
			Machine string `json:"machine"`
			Repo    string `json:"repo"`
			Derived struct {
				State    string `json:"state"`
				Because  string `json:"because"`
				Inferred bool   `json:"inferred"`
			} `json:"derived"`
		} `json:"sessions"`
	}
	if err := get("listSessions", object{"author": d.scout.handle}, &list); err != nil {
		return err
	}
	for _, s := range list.Sessions {
		d.say("%s  [%s]  on %s, %s", s.Title, s.Derived.State, s.Machine, s.Repo)
	}
	var got struct {
		Session struct {
			Summary string `json:"summary"`
			Resume  struct {
				Repo, Branch, Cwd, Machine, Harness, Command string
			} `json:"resume"`
			Versions []struct {
				Title  string   `json:"title"`
				Status string   `json:"status"`
				Events []string `json:"events"`
			} `json:"versions"`
			HandOvers []struct {
				Changes []struct{ Field, Before, After string } `json:"changes"`
			} `json:"handOvers"`
			Related []struct {
				Basis string `json:"basis"`
			} `json:"related"`
		} `json:"session"`
	}
	if err := get("getSession", object{"uri": d.work.URI}, &got); err != nil {
		return err
	}
	s := got.Session
	if len(s.HandOvers) == 0 {
		return fmt.Errorf("the session was handed over, and the view shows no hand-over")
	}
	for i, v := range s.Versions {
		d.say("  version %d of %d: %s (%s) %s", len(s.Versions)-i, len(s.Versions), v.Title, v.Status, strings.Join(v.Events, ", "))
	}
	for _, h := range s.HandOvers {
		for _, c := range h.Changes {
			d.say("  handed over: %s from %s to %s", c.Field, c.Before, c.After)
		}
	}
	exact := 0
	for _, r := range s.Related {
		if r.Basis == "exact" {
			exact++
		}
	}
	d.say("  resume in %s, branch %s, on %s (%s); %d observations of this run", s.Resume.Cwd, s.Resume.Branch, s.Resume.Machine, s.Resume.Harness, exact)
	for line := range strings.Lines(s.Summary) {
		d.say("  | %s", strings.TrimRight(line, "\n"))
	}
	return nil
}

func (d *demo) showClasses(get func(string, object, any) error) error {
	d.title("Classes")
	var list struct {
		Classes []struct {
			Name        string `json:"name"`
			Description string `json:"description"`
		} `json:"classes"`
	}
	if err := get("listClasses", object{"author": d.scribe.handle}, &list); err != nil {
		return err
	}
	for _, c := range list.Classes {
		d.say("%s: %s", c.Name, c.Description)
	}
	var got struct {
		Class struct {
			Name  string `json:"name"`
			Entry struct {
				Name, Mode, Resolution string
			} `json:"entry"`
			Skills []struct {
				Name, Origin string
				From         struct{ Name string }
			} `json:"skills"`
			Parents []struct{ Name string } `json:"parents"`
			Lock    struct {
				Digest   string
				Complete bool
			} `json:"lock"`
		} `json:"class"`
	}
	if err := get("getClass", object{"uri": d.child.URI}, &got); err != nil {
		return err
	}
	c := got.Class
	for _, p := range c.Parents {
		d.say("  %s inherits from %s", c.Name, p.Name)
	}
	for _, s := range c.Skills {
		d.say("  skill %-10s %s %s", s.Name, s.Origin, s.From.Name)
	}
	if len(c.Skills) != 3 {
		return fmt.Errorf("%s has %d effective skills, want 3", c.Name, len(c.Skills))
	}
	d.say("  entry tool %s: %s; lock %s", c.Entry.Name, c.Entry.Resolution, c.Lock.Digest)
	return nil
}

func (d *demo) showConversation(get func(string, object, any) error) error {
	d.title("Conversation")
	var list struct {
		Conversations []struct {
			Label  string `json:"label"`
			Counts struct {
				Turns, Visible, Withheld int
			} `json:"counts"`
		} `json:"conversations"`
	}
	if err := get("listConversations", object{"author": d.scribe.handle}, &list); err != nil {
		return err
	}
	for _, c := range list.Conversations {
		d.say("%s (%d turns, %d visible, %d withheld)", c.Label, c.Counts.Turns, c.Counts.Visible, c.Counts.Withheld)
	}
	var got struct {
		Markdown string `json:"markdown"`
	}
	if err := get("getConversation", object{"uri": d.chat.URI, "format": "markdown", "limit": 100}, &got); err != nil {
		return err
	}
	d.say("\n%s", strings.TrimRight(got.Markdown, "\n"))
	return nil
}

func (d *demo) showFindings(get func(string, object, any) error) error {
	d.title("Findings")
	var list struct {
		Findings []finding `json:"findings"`
	}
	if err := get("listFindings", object{"limit": 20}, &list); err != nil {
		return err
	}
	for _, f := range list.Findings {
		d.say("%-9s %-22s %s %s: %s", f.Severity, f.Code, rkey(f.URI), f.Path, oneLine(f.Message, 90))
	}
	if len(list.Findings) == 0 {
		d.say("none")
	}
	return nil
}
