package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// story is what came of the demo: what it wrote and will ask for again.
type story struct {
	scout, scribe *agent

	page   []strongRef // the chain of the page, oldest first
	load   []strongRef // the chain of /proc/loadavg
	notes  []strongRef // the chain of a file that grew
	still  []strongRef // observed once: documents, commands, a picture, a paper
	claim  strongRef
	work   strongRef   // the session that was handed over
	parent strongRef   // the class
	child  strongRef   // the class that inherits from it
	chat   strongRef   // the conversation
	turns  []strongRef // its turns in order
}

// chains are the chains of observations with more than one member.
func (s *story) chains() [][]strongRef { return [][]strongRef{s.page, s.load, s.notes} }

// observations plays the part in which scout looks around, and looks again
// after things changed.
func (d *demo) observations(ctx context.Context) error {
	for _, s := range append(documents(), commands(ctx)...) {
		ref, err := d.scout.observe(ctx, s, nil)
		if err != nil {
			return err
		}
		d.still = append(d.still, ref)
	}
	for _, see := range []func(string) (specimen, error){picture, paper} {
		s, err := see(d.dir)
		if err != nil {
			return err
		}
		ref, err := d.scout.observe(ctx, s, nil)
		if err != nil {
			return err
		}
		d.still = append(d.still, ref)
	}

	var err error
	d.page, err = d.again(ctx, len(editions), func(int) (specimen, error) {
		defer d.site.turn()
		return seePage(ctx, d.site.url)
	})
	if err != nil {
		return err
	}
	d.load, err = d.again(ctx, 3, func(int) (specimen, error) { return seeCommand(ctx, "cat", "/proc/uptime", "/proc/loadavg") })
	if err != nil {
		return err
	}
	path := filepath.Join(d.dir, "notes.md")
	d.notes, err = d.again(ctx, 5, func(visit int) (specimen, error) {
		if err := appendLine(path, fmt.Sprintf("- visit %d: the status page was read again", visit+1)); err != nil {
			return specimen{}, err
		}
		return seeFile(path, "text/markdown")
	})
	return err
}

// again observes one source several times; each observation supersedes the one before.
func (d *demo) again(ctx context.Context, times int, see func(visit int) (specimen, error)) ([]strongRef, error) {
	var chain []strongRef
	for visit := range times {
		s, err := see(visit)
		if err != nil {
			return nil, err
		}
		var old *strongRef
		if len(chain) > 0 {
			old = &chain[len(chain)-1]
		}
		ref, err := d.scout.observe(ctx, s, old)
		if err != nil {
			return nil, err
		}
		chain = append(chain, ref)
	}
	return chain, nil
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// handOver plays the session: written as the work goes on, then handed from
// one machine to another and ended there. Its rkey is the run of the
// observations, so the index relates them exactly.
func (d *demo) handOver(ctx context.Context) error {
	started := time.Now().Add(-2 * time.Minute)
	base := object{
		"$type": sessionType, "startedAt": timestamp(started), "harness": "herbarium-demo", "model": d.scout.model,
		"repo": "git@git.example.org:team/ledger.git", "branch": "fix-testledger", "cwd": "/srv/ledger",
	}
	steps := []struct{ machine, status, title, summary string }{
		{d.scout.device, "active", "Find out why TestLedger fails", "**Goal**: the build green again.\n\n**In progress**: reading the status page.\n\n**Next**: read the test's output."},
		{d.scout.device, "active", "Find out why TestLedger fails", "**Goal**: the build green again.\n\n**Done**: the page says TestLedger fails since 1.4.0.\n\n**Next**: bisect."},
		{"laptop", "active", "Mend TestLedger", "**Goal**: the build green again.\n\n**Done**: the cause is a rounding error in the ledger's sum.\n\n**In progress**: the fix, on the laptop.\n\n**Next**: release 1.4.1."},
		{"laptop", "ended", "Mend TestLedger", "**Goal**: the build green again.\n\n**Done**: fixed and released as 1.4.1; the status page says green.\n\n**Decision**: sums are kept in integers from now on."},
	}
	swap := ""
	for i, step := range steps {
		record := object{"machine": step.machine, "status": step.status, "title": step.title, "summary": step.summary}
		for key, value := range base {
			record[key] = value
		}
		record["updatedAt"] = timestamp(started.Add(time.Duration(i+1) * 20 * time.Second))
		ref, err := d.scout.put(ctx, sessionType, string(d.scout.run), record, swap)
		if err != nil {
			return err
		}
		d.work, swap = ref, ref.CID // the next rewrite is refused if another machine was faster
	}
	return nil
}

// publishClasses plays the operator's part: skills, a class, and a child that
// inherits from it.
func (d *demo) publishClasses(ctx context.Context) error {
	skill := func(name, description, content string, tools ...object) (strongRef, error) {
		record := object{
			"$type": skillType, "name": name, "description": description, "content": content,
			"createdAt": timestamp(time.Now()),
		}
		if len(tools) > 0 {
			record["tools"] = tools
		}
		return d.scribe.create(ctx, skillType, "", record)
	}
	tool := func(name, description string) object {
		return object{"name": name, "description": description, "inputSchema": object{"type": "object"}}
	}
	observe, err := skill("observe", "When something outside is read.", "Record what you saw with its exact bytes before you act on it.", tool("read_file", "Reads a file."), tool("fetch_page", "Fetches a page."))
	if err != nil {
		return err
	}
	cite, err := skill("cite", "When a claim rests on an observation.", "Cite the observation with the words that carry the claim.")
	if err != nil {
		return err
	}
	release, err := skill("release", "When a fix is ready.", "Tag, build, publish; then observe the status page again.", tool("publish_release", "Publishes a release."))
	if err != nil {
		return err
	}
	d.parent, err = d.scribe.create(ctx, classType, "", object{
		"$type": classType, "name": "observer", "description": "Reads what is outside and keeps it.",
		"skills": []strongRef{observe, cite}, "createdAt": timestamp(time.Now()), "bootstrap": "none",
	})
	if err != nil {
		return err
	}
	d.child, err = d.scribe.create(ctx, classType, "", object{
		"$type": classType, "name": "release-keeper", "description": "An observer that also publishes releases.",
		"skills": []strongRef{release}, "parent": d.parent, "createdAt": timestamp(time.Now()), "entryTool": "publish_release",
	})
	return err
}

// claimFromPage writes a claim that rests on the words of the page as it was first seen.
func (d *demo) claimFromPage(ctx context.Context) error {
	text := "The last release is 1.4.0, so the ledger's fix is not out yet."
	quoted := "The last release is 1.4.0"
	var err error
	d.claim, err = d.scribe.create(ctx, claimType, "", object{
		"$type": claimType, "text": text, "createdAt": timestamp(time.Now()),
		"generator": object{"run": d.scribe.run, "device": d.scribe.device, "harness": "herbarium-demo", "model": d.scribe.model},
		"citations": []object{{
			"span": object{"byteStart": 0, "byteEnd": len(quoted)}, "relation": "quotes", "target": d.page[0],
			"selector": object{"$type": "garden.engram.agents.defs#textQuote", "exact": quoted},
		}},
		"basis": []object{{"span": object{"byteStart": len(quoted), "byteEnd": len(text)}, "kind": "inference"}},
	})
	return err
}

// converse publishes a conversation of a dozen turns: tool steps, one of them
// failed, references to observations, and one turn that is withheld.
func (d *demo) converse(ctx context.Context) error {
	var err error
	d.chat, err = d.scribe.create(ctx, chatType, "", object{"$type": chatType, "createdAt": timestamp(time.Now())})
	if err != nil {
		return err
	}
	type step = object
	turns := []object{
		{"role": "user", "text": "Is the build green? The customer asks for the ledger's fix."},
		{"role": "assistant", "text": "I'll read the status page.", "steps": []step{{"tool": "fetch_page", "summary": "read the status page"}}, "refs": []strongRef{d.page[0]}},
		{"role": "assistant", "text": "It was green at release 1.4.0."},
		{"role": "user", "text": "Look again, please, somebody merged since."},
		{"role": "assistant", "text": "It is red now: `TestLedger` fails on main.", "steps": []step{{"tool": "fetch_page", "summary": "read the status page again"}, {"tool": "read_file", "summary": "open the test's log", "failed": true}}, "refs": []strongRef{d.page[1]}},
		{"role": "user", "text": "", "withheld": true},
		{"role": "assistant", "text": "Understood. I looked at what the machine was doing meanwhile; it was idle.", "steps": []step{{"tool": "run_command", "summary": "uptime and load"}}, "refs": []strongRef{d.load[len(d.load)-1]}},
		{"role": "user", "text": "What was the cause?"},
		{"role": "assistant", "text": "A rounding error in the ledger's sum:\n\n```go\nsum += float64(cents) / 100\n```\n\nSums are kept in integers from now on."},
		{"role": "user", "text": "Is the fix out?"},
		{"role": "assistant", "text": "Yes: 1.4.1, and the build is green again.", "steps": []step{{"tool": "fetch_page", "summary": "read the status page a third time"}}, "refs": []strongRef{d.page[2]}},
		{"role": "user", "text": "Thank you. Keep an eye on it."},
		{"role": "assistant", "text": "I'll observe the page again each hour; each observation supersedes the one before.", "mentions": []string{d.scout.did.String()}},
	}
	for _, turn := range turns {
		turn["$type"], turn["session"], turn["createdAt"] = messageType, d.chat.URI, timestamp(time.Now())
		if turn["role"] == "assistant" {
			turn["model"] = d.scribe.model
		}
		ref, err := d.scribe.create(ctx, messageType, "", turn)
		if err != nil {
			return err
		}
		d.turns = append(d.turns, ref)
	}
	return nil
}

// oneLine shortens text to one line of at most n code points.
func oneLine(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}
