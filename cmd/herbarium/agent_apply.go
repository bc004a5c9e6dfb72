package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/urfave/cli/v3"
	"go.yaml.in/yaml/v3"

	"herbarium.garden/migrations"
	"herbarium.garden/pds/account"
)

func applyCommand() *cli.Command {
	return &cli.Command{
		Name:  "apply",
		Usage: "make the server's agents what a manifest says, after showing what that changes",
		Description: "The manifest says all of each agent that it lists: what it leaves out is taken away (credentials that it does not name stay).\n" +
			"Run it as often as you like; when one step fails, run it again. Nothing is deleted, and a disabled agent stays so;\n" +
			"with --prune, agents that are not listed are disabled.",
		Flags: serverFlags(
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the manifest, YAML; - for standard input", Required: true},
			&cli.StringFlag{Name: "out", Usage: "folder for new secrets, one file each, readable by you alone"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			&cli.BoolFlag{Name: "dry-run", Usage: "show the plan and change nothing; exit code 2 when there would be changes"},
			&cli.BoolFlag{Name: "prune", Usage: "disable agents that the manifest does not list"},
		),
		Action: withServer(applyManifest),
	}
}

// manifest is the file of agent apply.
type manifest struct {
	Defaults agentSpec   `yaml:"defaults"`
	Agents   []agentSpec `yaml:"agents"`
}

// agentSpec is one agent as it is to be. What is nil comes from the defaults.
type agentSpec struct {
	Handle      string            `yaml:"handle"`
	DisplayName *string           `yaml:"displayName"`
	Owner       *string           `yaml:"owner"`
	Class       *classView        `yaml:"class"`
	Collections *[]string         `yaml:"collections"`
	CreateOnly  *[]string         `yaml:"createOnly"`
	Quota       *quotaSpec        `yaml:"quota"`
	RateLimit   *rateSpec         `yaml:"rateLimit"`
	Expires     *string           `yaml:"expires"`
	Credentials *[]credentialSpec `yaml:"credentials"`
}

type quotaSpec struct {
	Records   *count `yaml:"records"`
	BlobBytes *count `yaml:"blobBytes"`
}

type rateSpec struct {
	PerHour *count `yaml:"writesPerHour"`
	PerDay  *count `yaml:"writesPerDay"`
}

// count is a whole number from 0. YAML would cut 1.5 down to 1.
type count int64

// UnmarshalYAML implements yaml.Unmarshaler.
func (n *count) UnmarshalYAML(node *yaml.Node) error {
	var value int64
	if node.ShortTag() != "!!int" || node.Decode(&value) != nil || value < 0 {
		return fmt.Errorf("line %d: %q is no count; write a whole number from 0", node.Line, node.Value)
	}
	*n = count(value)
	return nil
}

type credentialSpec struct {
	Name      string `yaml:"name"`
	Scope     string `yaml:"scope"`
	Expires   string `yaml:"expires"`
	PublicKey string `yaml:"publicKey"`
}

// maxManifest bounds a manifest, in bytes: thousands of agents.
const maxManifest = 4 << 20

// readManifest takes no key that it does not know, for a misspelt one would
// take something away.
func readManifest(raw []byte) (manifest, error) {
	var m manifest
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	decoder.KnownFields(true)
	if err := decoder.Decode(&m); err != nil {
		return manifest{}, fmt.Errorf("manifest: %s", strings.NewReplacer(" in type main.", " in ", "yaml: ", "").Replace(err.Error()))
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return manifest{}, errors.New("manifest: the file has more than one YAML document; put all agents into the first")
	}
	if m.Defaults.Handle != "" {
		return manifest{}, errors.New("manifest: defaults have no handle; remove it")
	}
	seen := map[string]bool{}
	for i := range m.Agents {
		a := &m.Agents[i]
		a.Handle = strings.ToLower(a.Handle)
		if a.Handle == "" || seen[a.Handle] {
			return manifest{}, fmt.Errorf("manifest: agent %d has no handle, or that of another one (%q); give each its own", i+1, a.Handle)
		}
		seen[a.Handle] = true
		if err := a.fill(m.Defaults); err != nil {
			return manifest{}, fmt.Errorf("manifest: %s: %w", a.Handle, err)
		}
	}
	return m, nil
}

func orDefault[T any](field **T, value *T) {
	if *field == nil {
		*field = value
	}
}

// fill takes over the defaults and brings times and scopes to the form that
// the server answers them in.
func (a *agentSpec) fill(d agentSpec) error {
	none := ""
	orDefault(&a.DisplayName, d.DisplayName)
	orDefault(&a.DisplayName, &none)
	orDefault(&a.Owner, d.Owner)
	orDefault(&a.Owner, &none)
	orDefault(&a.Class, d.Class)
	orDefault(&a.Collections, d.Collections)
	orDefault(&a.CreateOnly, d.CreateOnly)
	orDefault(&a.Quota, d.Quota)
	orDefault(&a.Quota, &quotaSpec{})
	orDefault(&a.RateLimit, d.RateLimit)
	orDefault(&a.RateLimit, &rateSpec{})
	orDefault(&a.Expires, d.Expires)
	orDefault(&a.Expires, &none)
	orDefault(&a.Credentials, d.Credentials)
	orDefault(&a.Credentials, &[]credentialSpec{})
	expires, err := moment(*a.Expires)
	if err != nil {
		return err
	}
	a.Expires = &expires
	credentials := slices.Clone(*a.Credentials)
	names := map[string]bool{}
	for i := range credentials {
		c := &credentials[i]
		if c.Name == "" || names[c.Name] {
			return fmt.Errorf("a credential has no name, or that of another one (%q); give each its own", c.Name)
		}
		names[c.Name] = true
		if c.Scope, err = canonicalScope(c.Scope); err != nil {
			return fmt.Errorf("credential %s: %w", c.Name, err)
		}
		if c.Expires, err = moment(c.Expires); err != nil {
			return fmt.Errorf("credential %s: %w", c.Name, err)
		}
		if c.PublicKey != "" {
			if _, err := atcrypto.ParsePublicDIDKey(c.PublicKey); err != nil {
				return fmt.Errorf("credential %s: publicKey is not the did:key of a P-256 or K-256 key", c.Name)
			}
		}
	}
	a.Credentials = &credentials
	return nil
}

func canonicalScope(scope string) (string, error) {
	if scope == "" {
		return string(account.ScopeAppPass), nil
	}
	permissions, err := account.Scope(scope).Permissions()
	if err != nil || permissions == nil {
		return scope, err
	}
	return permissions.String(), nil
}

// moment reads a day or a time, as the server writes times.
func moment(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return migrations.FormatTime(t), nil
		}
	}
	return "", fmt.Errorf("%q is no time; write 2027-01-31 or 2027-01-31T12:00:00Z", text)
}

func (a agentSpec) policy() policyView {
	sorted := func(list *[]string) *[]string {
		if list == nil {
			return nil
		}
		ordered := slices.Compact(slices.Sorted(slices.Values(*list)))
		return &ordered
	}
	p := policyView{
		Collections: sorted(a.Collections), CreateOnly: sorted(a.CreateOnly), MaxRecords: (*int64)(a.Quota.Records), MaxBlobBytes: (*int64)(a.Quota.BlobBytes),
		WritesPerHour: (*int64)(a.RateLimit.PerHour), WritesPerDay: (*int64)(a.RateLimit.PerDay),
	}
	if p.CreateOnly != nil && len(*p.CreateOnly) == 0 {
		p.CreateOnly = nil
	}
	return p
}

// step is one line of a plan, or some, and what it does.
type step struct {
	lines []string
	do    func(context.Context) error
}

// planner finds out what has to be done. What the server would refuse is an
// error of the plan, so that nothing is taken away for it first.
type planner struct {
	server server
	out    string // folder for secrets
	dryRun bool   // nothing of it will be done
	steps  []step
}

// ahead refuses an expiry that would be over from the start.
func ahead(expires string) error {
	if expires != "" && expires <= migrations.FormatTime(time.Now()) {
		return fmt.Errorf("it would expire at %s, which is over; choose a time ahead", expires)
	}
	return nil
}

func applyManifest(ctx context.Context, c *cli.Command, s server) error {
	raw, err := readFileOrInput(c, c.String("file"))
	if err != nil {
		return err
	}
	wanted, err := readManifest(raw)
	if err != nil {
		return err
	}
	if c.Bool("prune") && len(wanted.Agents) == 0 {
		return errors.New("manifest: it lists no agent, and --prune would disable all; list those that stay, or leave out --prune")
	}
	p := &planner{server: s, out: c.String("out"), dryRun: c.Bool("dry-run")}
	if err := p.plan(ctx, wanted, c.Bool("prune")); err != nil {
		return err
	}
	out := &said{to: c.Root().Writer}
	for _, step := range p.steps {
		for _, line := range step.lines {
			out.line("%s", line)
		}
	}
	switch {
	case out.err != nil:
		return out.err
	case len(p.steps) == 0:
		out.line("no change")
		return out.err
	case c.Bool("dry-run"):
		return cli.Exit("", 2)
	}
	if !c.Bool("yes") {
		answer, err := ask(ctx, c, "Apply this? Type yes: ")
		if err != nil {
			return err
		}
		if answer != "yes" {
			return errors.New("nothing was changed")
		}
	}
	for i, step := range p.steps {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w; %d of %d steps are done, run it again when that is repaired", strings.TrimSpace(step.lines[0]), err, i, len(p.steps))
		}
	}
	out.line("done")
	return out.err
}

func readFileOrInput(c *cli.Command, path string) ([]byte, error) {
	in := c.Root().Reader
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("manifest: %w", err)
		}
		defer file.Close()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err == nil && len(raw) > maxManifest {
		err = fmt.Errorf("manifest: more than %d bytes; split it", maxManifest)
	}
	return raw, err
}

func (p *planner) add(do func(context.Context) error, lines ...string) {
	p.steps = append(p.steps, step{lines, do})
}

func (p *planner) plan(ctx context.Context, wanted manifest, prune bool) error {
	var all []agentView
	err := p.server.agents(ctx, "", func(_ json.RawMessage, a agentView) { all = append(all, a) })
	if err != nil {
		return err
	}
	there := map[string]agentView{}
	for _, a := range all {
		there[a.Handle] = a
	}
	listed := map[string]bool{}
	for _, want := range wanted.Agents {
		listed[want.Handle] = true
		have, known := there[want.Handle]
		var credentials []credentialView
		if known {
			p.update(want, have)
			if credentials, err = p.server.credentials(ctx, have.DID); err != nil {
				return err
			}
		} else if err := p.create(want); err != nil {
			return err
		}
		if err := p.credentials(want, credentials); err != nil {
			return err
		}
	}
	for _, a := range all {
		if prune && !listed[a.Handle] && a.DisabledAt == "" {
			p.add(func(ctx context.Context) error {
				return p.server.post(ctx, "disableAgent", map[string]any{"did": a.DID}, nil)
			}, "- "+a.Handle+" (disable)")
		}
	}
	return nil
}

func (p *planner) create(want agentSpec) error {
	if err := ahead(*want.Expires); err != nil {
		return fmt.Errorf("%s: %w", want.Handle, err)
	}
	body := withoutEmpty(map[string]any{"handle": want.Handle, "displayName": *want.DisplayName, "owner": *want.Owner, "expiresAt": *want.Expires})
	body["policy"] = want.policy()
	if want.Class != nil {
		body["class"] = want.Class
	}
	p.add(func(ctx context.Context) error { return p.server.post(ctx, "createAgent", body, nil) }, "+ "+want.Handle)
	return nil
}

func (p *planner) update(want agentSpec, have agentView) {
	body, lines := map[string]any{"did": have.DID}, []string{"~ " + want.Handle}
	var cleared []string
	change := func(field, old, new string) bool {
		if old == new {
			return false
		}
		lines = append(lines, fmt.Sprintf("    %s: %s -> %s", field, orDash(old), orDash(new)))
		return true
	}
	if change("displayName", have.DisplayName, *want.DisplayName) {
		body["displayName"] = *want.DisplayName
	}
	if change("owner", have.Owner, *want.Owner) {
		body["owner"] = *want.Owner
	}
	if change("expires", have.ExpiresAt, *want.Expires) {
		if *want.Expires == "" {
			cleared = append(cleared, "expiresAt")
		} else {
			body["expiresAt"] = *want.Expires
		}
	}
	if change("class", classText(have.Class), classText(want.Class)) {
		if want.Class == nil {
			cleared = append(cleared, "class")
		} else {
			body["class"] = want.Class
		}
	}
	if p.comparePolicies(have.Policy, want.policy(), change) {
		body["policy"] = want.policy()
	}
	if cleared != nil {
		body["clear"] = cleared
	}
	if len(lines) > 1 {
		p.add(func(ctx context.Context) error { return p.server.post(ctx, "updateAgent", body, nil) }, lines...)
	}
}

func classText(class *classView) string {
	if class == nil {
		return ""
	}
	return class.URI + " " + class.CID
}

func (p *planner) comparePolicies(have, want policyView, change func(field, old, new string) bool) bool {
	list := func(l *[]string) string {
		if l == nil {
			return ""
		}
		return "[" + strings.Join(*l, " ") + "]"
	}
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return fmt.Sprint(*n)
	}
	changed := false
	for _, field := range [][3]string{
		{"collections", list(have.Collections), list(want.Collections)},
		{"createOnly", list(have.CreateOnly), list(want.CreateOnly)},
		{"quota.records", number(have.MaxRecords), number(want.MaxRecords)},
		{"quota.blobBytes", number(have.MaxBlobBytes), number(want.MaxBlobBytes)},
		{"rateLimit.writesPerHour", number(have.WritesPerHour), number(want.WritesPerHour)},
		{"rateLimit.writesPerDay", number(have.WritesPerDay), number(want.WritesPerDay)},
	} {
		if change(field[0], field[1], field[2]) {
			changed = true
		}
	}
	return changed
}

// credentials plans those of one agent. One that is there and differs is
// revoked and made anew: a scope never changes under a secret that is out.
func (p *planner) credentials(want agentSpec, have []credentialView) error {
	for _, spec := range *want.Credentials {
		at := slices.IndexFunc(have, func(c credentialView) bool {
			return c.Name == spec.Name && (c.PublicKey == "") == (spec.PublicKey == "")
		})
		secret := secretFile{}
		if spec.PublicKey == "" {
			secret.path = filepath.Join(p.out, want.Handle+"."+url.PathEscape(spec.Name))
		}
		name := want.Handle + " credential " + spec.Name
		switch {
		case at < 0:
			p.make(want.Handle, spec, secret, false, "+ "+name)
		case have[at].Scope != spec.Scope || have[at].ExpiresAt != spec.Expires || have[at].PublicKey != spec.PublicKey:
			if spec.PublicKey != "" && spec.PublicKey == have[at].PublicKey {
				return fmt.Errorf("%s: a login key keeps its scope and expiry; make a new key pair for the new ones", name)
			}
			lines := []string{"~ " + name + " (made anew)"}
			for _, field := range [][3]string{
				{"scope", have[at].Scope, spec.Scope}, {"expires", have[at].ExpiresAt, spec.Expires}, {"publicKey", have[at].PublicKey, spec.PublicKey},
			} {
				if field[1] != field[2] {
					lines = append(lines, fmt.Sprintf("    %s: %s -> %s", field[0], orDash(field[1]), orDash(field[2])))
				}
			}
			p.make(want.Handle, spec, secret, true, lines...)
		case secret.path != "" && p.out != "" && secret.pending():
			p.make(want.Handle, spec, secret, true, "~ "+name+" (made anew: its secret was lost on the way)")
		default:
			continue
		}
		if err := ahead(spec.Expires); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if spec.PublicKey == "" && p.out == "" && !p.dryRun {
			return fmt.Errorf("%s: a new secret needs a place; name a folder with --out", name)
		}
	}
	return nil
}

// make plans a new credential, in the place of one that is there when again.
func (p *planner) make(handle string, spec credentialSpec, secret secretFile, again bool, lines ...string) {
	p.add(func(ctx context.Context) error {
		var agent agentView
		if err := p.server.get(ctx, "getAgent", map[string]any{"agent": handle}, &agent); err != nil {
			return err
		}
		body := withoutEmpty(map[string]any{"did": agent.DID, "name": spec.Name, "scope": spec.Scope, "expiresAt": spec.Expires, "publicKey": spec.PublicKey})
		if spec.PublicKey != "" {
			return p.addKey(ctx, agent.DID, spec.Name, body, again)
		}
		if err := os.MkdirAll(p.out, 0o700); err != nil {
			return err
		}
		if _, err := secret.prepare(); err != nil {
			return err
		}
		if again {
			if err := p.server.post(ctx, "revokeCredential", map[string]any{"did": agent.DID, "name": spec.Name}, nil); err != nil {
				return err
			}
		}
		var shown shownCredential
		if err := p.server.post(ctx, "createCredential", body, &shown); err != nil {
			return revokedFor(again, err)
		}
		return secret.keep(shown.Password)
	}, lines...)
}

func (p *planner) addKey(ctx context.Context, did, name string, body map[string]any, again bool) error {
	if again {
		have, err := p.server.credentials(ctx, did)
		if err != nil {
			return err
		}
		for _, key := range have {
			if key.Name == name && key.PublicKey != "" {
				if err := p.server.post(ctx, "removeLoginKey", map[string]any{"did": did, "publicKey": key.PublicKey}, nil); err != nil {
					return err
				}
			}
		}
	}
	return revokedFor(again, p.server.post(ctx, "addLoginKey", body, nil))
}

// revokedFor says what is the case when a credential could not be replaced.
func revokedFor(again bool, err error) error {
	if err != nil && again {
		return fmt.Errorf("the old credential is revoked, and no new one is there yet: %w", err)
	}
	return err
}
