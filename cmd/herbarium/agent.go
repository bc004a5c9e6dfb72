package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v3"
)

func agentCommand() *cli.Command {
	handle := []cli.Argument{&cli.StringArg{Name: "handle", UsageText: "HANDLE"}}
	return &cli.Command{
		Name:  "agent",
		Usage: "make, change and end the identities of agents, at the running server",
		Commands: []*cli.Command{
			{
				Name: "create", Usage: "make an agent with a first credential, whose secret is printed once", ArgsUsage: "HANDLE", Arguments: handle,
				Flags: serverFlags(
					&cli.StringFlag{Name: "display-name", Usage: "what people call it"},
					&cli.StringFlag{Name: "owner", Usage: "who answers for it"},
					&cli.StringFlag{Name: "class-uri", Usage: "URI of the class record that it is made from"},
					&cli.StringFlag{Name: "class-cid", Usage: "CID of that record"},
					&cli.StringFlag{Name: "expires", Usage: "when it stops, as 2027-01-31 or 2027-01-31T12:00:00Z"},
					&cli.StringSliceFlag{Name: "collection", Usage: "a collection that it may write; all when left out"},
					&cli.StringSliceFlag{Name: "create-only", Usage: "a collection in which it neither updates nor deletes"},
					&cli.Int64Flag{Name: "max-records", Usage: "records that its repo may hold", HideDefault: true},
					&cli.Int64Flag{Name: "max-blob-bytes", Usage: "bytes that its blobs may have together", HideDefault: true},
					&cli.Int64Flag{Name: "writes-per-hour", Usage: "points of writes an hour", HideDefault: true},
					&cli.Int64Flag{Name: "writes-per-day", Usage: "points of writes a day", HideDefault: true},
					&cli.StringFlag{Name: "credential", Usage: "name of its first credential", Value: "main"},
					&cli.StringFlag{Name: "scope", Usage: "what the credential may do, in the permission grammar; all that an app password may (com.atproto.appPass) when left out"},
					&cli.StringFlag{Name: "credential-expires", Usage: "when the credential stops"},
					&cli.StringFlag{Name: "public-key", Usage: "did:key of a login key, in the place of an app password"},
					&cli.StringFlag{Name: "secret-file", Usage: "write the secret to this new file, readable by you alone, and do not print it"},
				),
				Action: withServer(createAgent),
			},
			{
				Name: "list", Usage: "list the agents",
				Flags:  serverFlags(&cli.StringFlag{Name: "owner", Usage: "only those of this owner"}),
				Action: withServer(listAgents),
			},
			{
				Name: "show", Usage: "show an agent and its credentials", ArgsUsage: "HANDLE", Arguments: handle,
				Flags: serverFlags(), Action: withServer(showAgent),
			},
			{
				Name: "disable", Usage: "stop an agent at once: its sessions end, its account is deactivated", ArgsUsage: "HANDLE", Arguments: handle,
				Flags: serverFlags(), Action: withServer(turnAgent("disableAgent", "disabled")),
			},
			{
				Name: "enable", Usage: "undo disable", ArgsUsage: "HANDLE", Arguments: handle,
				Flags: serverFlags(), Action: withServer(turnAgent("enableAgent", "enabled")),
			},
			{
				Name: "rotate", Usage: "give an app password of an agent another secret, and end the sessions of the old one", ArgsUsage: "HANDLE", Arguments: handle,
				Flags: serverFlags(
					&cli.StringFlag{Name: "credential", Usage: "its name", Value: "main"},
					&cli.StringFlag{Name: "expires", Usage: "a new expiry"},
					&cli.StringFlag{Name: "secret-file", Usage: "write the secret to this file, readable by you alone, in the place of what is there, and do not print it"},
				),
				Action: withServer(rotateAgent),
			},
			{
				Name: "delete", Usage: "delete an agent with its repo, for good", ArgsUsage: "HANDLE", Arguments: handle,
				Flags:  serverFlags(&cli.BoolFlag{Name: "yes", Usage: "do not ask"}),
				Action: withServer(deleteAgent),
			},
			applyCommand(),
		},
	}
}

// agentView, credentialView and policyView are what the server answers
// (garden.herbarium.admin.defs).
type agentView struct {
	DID         string     `json:"did"`
	Handle      string     `json:"handle"`
	DisplayName string     `json:"displayName,omitempty"`
	Owner       string     `json:"owner,omitempty"`
	Class       *classView `json:"class,omitempty"`
	ClassState  string     `json:"classState,omitempty"`
	Active      bool       `json:"active"`
	Status      string     `json:"status,omitempty"`
	ExpiresAt   string     `json:"expiresAt,omitempty"`
	DisabledAt  string     `json:"disabledAt,omitempty"`
	CreatedAt   string     `json:"createdAt"`
	ChangedAt   string     `json:"changedAt"`
	Policy      policyView `json:"policy"`
}

type classView struct {
	URI string `json:"uri" yaml:"uri"`
	CID string `json:"cid" yaml:"cid"`
}

type policyView struct {
	Collections   *[]string `json:"collections,omitempty"`
	CreateOnly    *[]string `json:"createOnly,omitempty"`
	MaxRecords    *int64    `json:"maxRecords,omitempty"`
	MaxBlobBytes  *int64    `json:"maxBlobBytes,omitempty"`
	WritesPerHour *int64    `json:"writesPerHour,omitempty"`
	WritesPerDay  *int64    `json:"writesPerDay,omitempty"`
}

type credentialView struct {
	Name       string `json:"name"`
	PublicKey  string `json:"publicKey,omitempty"`
	Scope      string `json:"scope,omitempty"`
	CreatedAt  string `json:"createdAt,omitempty"`
	ExpiresAt  string `json:"expiresAt,omitempty"`
	LastUsedAt string `json:"lastUsedAt,omitempty"`
}

type shownCredential struct {
	Credential credentialView `json:"credential"`
	Password   string         `json:"password,omitempty"` // none when it went to a file
}

// agent finds an agent by the handle that the command was given.
func (s server) agent(ctx context.Context, c *cli.Command) (view agentView, err error) {
	return view, s.get(ctx, "getAgent", map[string]any{"agent": c.StringArg("handle")}, &view)
}

// credentials are the app passwords and login keys of an agent.
func (s server) credentials(ctx context.Context, did string) ([]credentialView, error) {
	var passwords struct{ Credentials []credentialView }
	var keys struct{ Keys []credentialView }
	params := map[string]any{"did": did}
	if err := s.get(ctx, "listCredentials", params, &passwords); err != nil {
		return nil, err
	}
	if err := s.get(ctx, "listLoginKeys", params, &keys); err != nil {
		return nil, err
	}
	return append(passwords.Credentials, keys.Keys...), nil
}

// agents goes through all of them, or those of one owner.
func (s server) agents(ctx context.Context, owner string, show func(item json.RawMessage, a agentView)) error {
	params := map[string]any{}
	if owner != "" {
		params["owner"] = owner
	}
	return s.list(ctx, "listAgents", "agents", params, math.MaxInt, func(item json.RawMessage) error {
		var a agentView
		if err := json.Unmarshal(item, &a); err != nil {
			return err
		}
		show(item, a)
		return nil
	})
}

func createAgent(ctx context.Context, c *cli.Command, s server) error {
	expires, err := moment(c.String("expires"))
	if err != nil {
		return err
	}
	until, err := moment(c.String("credential-expires"))
	if err != nil {
		return err
	}
	policy := policyView{}
	for name, list := range map[string]**[]string{"collection": &policy.Collections, "create-only": &policy.CreateOnly} {
		if given := c.StringSlice(name); c.IsSet(name) {
			*list = &given
		}
	}
	for name, number := range map[string]**int64{
		"max-records": &policy.MaxRecords, "max-blob-bytes": &policy.MaxBlobBytes,
		"writes-per-hour": &policy.WritesPerHour, "writes-per-day": &policy.WritesPerDay,
	} {
		if given := c.Int64(name); c.IsSet(name) {
			*number = &given
		}
	}
	credential := withoutEmpty(map[string]any{
		"name": c.String("credential"), "scope": c.String("scope"), "expiresAt": until, "publicKey": c.String("public-key"),
	})
	body := withoutEmpty(map[string]any{
		"handle": c.StringArg("handle"), "displayName": c.String("display-name"), "owner": c.String("owner"), "expiresAt": expires,
	})
	body["credential"], body["policy"] = credential, policy
	if c.IsSet("class-uri") || c.IsSet("class-cid") {
		body["class"] = classView{c.String("class-uri"), c.String("class-cid")}
	}
	var made struct {
		Agent      agentView        `json:"agent"`
		Credential *shownCredential `json:"credential,omitempty"`
		LoginKey   *credentialView  `json:"loginKey,omitempty"`
	}
	secret, err := newSecretFile(c.String("secret-file"))
	if err != nil {
		return err
	}
	if err := s.post(ctx, "createAgent", body, &made); err != nil {
		return errors.Join(err, secret.abandon())
	}
	if made.Credential != nil && secret.path != "" {
		if err := secret.keep(made.Credential.Password); err != nil {
			return err
		}
		made.Credential.Password = ""
	}
	if c.Bool("json") {
		return printJSON(c.Root().Writer, made)
	}
	out := &said{to: c.Root().Writer}
	out.line("made %s, %s", made.Agent.Handle, made.Agent.DID)
	if made.Credential != nil && made.Credential.Password != "" {
		out.line("app password %s, shown this once: %s", made.Credential.Credential.Name, made.Credential.Password)
	}
	return out.err
}

func listAgents(ctx context.Context, c *cli.Command, s server) error {
	t := newTable(c, "HANDLE", "STATUS", "OWNER", "EXPIRES", "NAME")
	err := s.agents(ctx, c.String("owner"), func(item json.RawMessage, a agentView) {
		t.row(item, a.Handle, state(a), a.Owner, a.ExpiresAt, a.DisplayName)
	})
	return errors.Join(err, t.end())
}

// state is the status in one word.
func state(a agentView) string {
	if a.Status == "" {
		return "active"
	}
	return a.Status
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func showAgent(ctx context.Context, c *cli.Command, s server) error {
	a, err := s.agent(ctx, c)
	if err != nil {
		return err
	}
	credentials, err := s.credentials(ctx, a.DID)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.Root().Writer, map[string]any{"agent": a, "credentials": credentials})
	}
	table := tabwriter.NewWriter(c.Root().Writer, 0, 8, 2, ' ', 0)
	out := &said{to: table}
	out.line("handle\t%s\ndid\t%s\nstatus\t%s\nname\t%s\nowner\t%s\nexpires\t%s", a.Handle, a.DID, state(a), orDash(a.DisplayName), orDash(a.Owner), orDash(a.ExpiresAt))
	if a.Class != nil {
		out.line("class\t%s (%s)", a.Class.URI, a.ClassState)
	}
	policy, err := json.Marshal(a.Policy)
	if err != nil {
		return err
	}
	out.line("policy\t%s", policy)
	for _, credential := range credentials {
		out.line("credential\t%s, %s, expires %s, last used %s", credential.Name, credential.Scope, orDash(credential.ExpiresAt), orDash(credential.LastUsedAt))
	}
	return errors.Join(out.err, table.Flush())
}

func turnAgent(method, done string) func(context.Context, *cli.Command, server) error {
	return func(ctx context.Context, c *cli.Command, s server) error {
		a, err := s.agent(ctx, c)
		if err != nil {
			return err
		}
		var turned agentView
		if err := s.post(ctx, method, map[string]any{"did": a.DID}, &turned); err != nil {
			return err
		}
		if c.Bool("json") {
			return printJSON(c.Root().Writer, turned)
		}
		_, err = fmt.Fprintf(c.Root().Writer, "%s %s, now %s\n", done, turned.Handle, state(turned))
		return err
	}
}

func rotateAgent(ctx context.Context, c *cli.Command, s server) error {
	a, err := s.agent(ctx, c)
	if err != nil {
		return err
	}
	until, err := moment(c.String("expires"))
	if err != nil {
		return err
	}
	// The file of the old secret is the very place for the new one.
	secret := secretFile{c.String("secret-file")}
	if secret.path != "" {
		if secret, err = secret.prepare(); err != nil {
			return err
		}
	}
	var shown shownCredential
	if err := s.post(ctx, "rotateCredential", withoutEmpty(map[string]any{"did": a.DID, "name": c.String("credential"), "expiresAt": until}), &shown); err != nil {
		return errors.Join(err, secret.abandon())
	}
	if secret.path != "" {
		if err := secret.keep(shown.Password); err != nil {
			return err
		}
		shown.Password = ""
	}
	if c.Bool("json") {
		return printJSON(c.Root().Writer, shown)
	}
	out := &said{to: c.Root().Writer}
	if shown.Password == "" {
		out.line("app password %s of %s is another one, in %s", shown.Credential.Name, a.Handle, secret.path)
	} else {
		out.line("app password %s of %s, shown this once: %s", shown.Credential.Name, a.Handle, shown.Password)
	}
	return out.err
}

func deleteAgent(ctx context.Context, c *cli.Command, s server) error {
	a, err := s.agent(ctx, c)
	if err != nil {
		return err
	}
	if !c.Bool("yes") {
		typed, err := ask(ctx, c, fmt.Sprintf("This deletes %s and its repo for good. Type the handle again to go on: ", a.Handle))
		if err != nil {
			return err
		}
		if typed != a.Handle {
			return errors.New("that is not the handle; nothing was deleted")
		}
	}
	if err := s.post(ctx, "deleteAgent", map[string]any{"did": a.DID}, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Root().Writer, "deleted %s\n", a.Handle)
	return err
}

// ask puts a question on standard error and reads a line, until ctx ends: an
// interrupt is an answer too.
func ask(ctx context.Context, c *cli.Command, question string) (string, error) {
	if _, err := fmt.Fprint(c.Root().ErrWriter, question); err != nil {
		return "", err
	}
	type reply struct {
		line string
		err  error
	}
	read := make(chan reply, 1)
	go func() {
		line, err := bufio.NewReader(c.Root().Reader).ReadString('\n')
		read <- reply{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", errors.New("interrupted; nothing was changed")
	case r := <-read:
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return "", r.err
		}
		return strings.TrimSpace(r.line), nil
	}
}

// said writes lines and keeps the first error.
type said struct {
	to  io.Writer
	err error
}

func (s *said) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.to, format+"\n", args...)
	}
}

func printJSON(to io.Writer, value any) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// withoutEmpty drops the fields that are "".
func withoutEmpty(fields map[string]any) map[string]any {
	for name, value := range fields {
		if value == "" {
			delete(fields, name)
		}
	}
	return fields
}

// secretFile is where a secret goes. The file is there, empty and under another
// name, before the secret is asked for: a secret that cannot be kept is never
// made, and one that was on its way when the program ended is known by it.
type secretFile struct{ path string }

const onItsWay = ".new"

// newSecretFile prepares a file; with path "" there is none.
func newSecretFile(path string) (secretFile, error) {
	if path == "" {
		return secretFile{}, nil
	}
	if _, err := os.Stat(path); err == nil {
		return secretFile{}, fmt.Errorf("%s is there already; name another file, or remove it", path)
	}
	return secretFile{path}.prepare()
}

func (f secretFile) prepare() (secretFile, error) {
	file, err := os.OpenFile(f.path+onItsWay, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return f, fmt.Errorf("no place for the secret: %w", err)
	}
	return f, file.Close()
}

// pending reports whether a secret may have been lost on its way here.
func (f secretFile) pending() bool {
	_, err := os.Stat(f.path + onItsWay)
	return err == nil
}

func (f secretFile) keep(secret string) error {
	file, err := os.OpenFile(f.path+onItsWay, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("keep secret: %w", err)
	}
	_, err = file.WriteString(secret + "\n")
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("keep secret: %w", err)
	}
	if err := os.Rename(f.path+onItsWay, f.path); err != nil {
		return fmt.Errorf("keep secret: %w", err)
	}
	dir, err := os.Open(filepath.Dir(f.path))
	if err != nil {
		return fmt.Errorf("keep secret: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f secretFile) abandon() error {
	if f.path == "" {
		return nil
	}
	return os.Remove(f.path + onItsWay)
}
