package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// How trust is kept. A trust group is a set of DIDs whose supersedes links
// count for each other. It is this index's own word, in no repo, so each change
// is a row of a journal, from which the groups of the moment follow. A change
// looks again only at the links that one member makes to an observation of
// another, and computes the shapes of the chains at both ends of them anew.

// Bounds of trust groups.
const (
	MaxTrustGroups  = 100
	MaxTrustMembers = 200 // of one group
	maxTrustName    = 64
)

// ErrTrust is wrapped by what is wrong with a trust group that was named.
var ErrTrust = errors.New("trust group")

// TrustSource says who changed a trust group last.
type TrustSource string

// The sources of trust groups.
const (
	TrustFromConfig TrustSource = "config"
	TrustFromAdmin  TrustSource = "admin"
)

// TrustGroup is DIDs whose supersedes links count for each other.
type TrustGroup struct {
	Name      string       // lower-case letters, digits and hyphens
	Members   []syntax.DID // in order; two or more
	Source    TrustSource
	ChangedAt time.Time
}

type trustRow struct {
	Name      string
	Members   string
	Source    string
	ChangedAt string
}

func (r *trustRow) export() TrustGroup {
	g := TrustGroup{Name: r.Name, Source: TrustSource(r.Source), ChangedAt: textTime(r.ChangedAt)}
	for _, did := range strings.Fields(r.Members) {
		g.Members = append(g.Members, syntax.DID(did))
	}
	return g
}

// trustGroups are the rows of the journal that hold, in order of name; those of
// deleted groups have no members.
func trustGroups(tx *gorm.DB) (rows []trustRow, err error) {
	err = tx.Raw(`SELECT name, members, source, changed_at FROM trust_journal
		WHERE seq IN (SELECT MAX(seq) FROM trust_journal GROUP BY name) ORDER BY name`).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read trust groups: %w", err)
	}
	return rows, nil
}

// TrustGroups are all trust groups, in order of name: MaxTrustGroups at most.
func (x *Index) TrustGroups(ctx context.Context) ([]TrustGroup, error) {
	rows, err := trustGroups(x.db.Read.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	var groups []TrustGroup
	for i := range rows {
		if rows[i].Members != "" {
			groups = append(groups, rows[i].export())
		}
	}
	return groups, nil
}

// PutTrustGroup makes members the trust group of that name. Links between them
// that were proposals now move heads, and those of whoever left are proposals.
// ErrTrust when the name or the members will not do: a DID is in one group at most.
func (x *Index) PutTrustGroup(ctx context.Context, name string, members []syntax.DID) error {
	if err := checkTrust(name, members); err != nil {
		return err
	}
	return x.changeTrust(ctx, func([]trustRow) []TrustGroup {
		return []TrustGroup{{Name: name, Members: members, Source: TrustFromAdmin}}
	})
}

// DeleteTrustGroup ends a trust group; ErrNotFound when there is none of that name.
func (x *Index) DeleteTrustGroup(ctx context.Context, name string) error {
	found := false
	err := x.changeTrust(ctx, func(is []trustRow) []TrustGroup {
		found = slices.ContainsFunc(is, func(r trustRow) bool { return r.Name == name && r.Members != "" })
		if !found {
			return nil
		}
		return []TrustGroup{{Name: name, Source: TrustFromAdmin}}
	})
	if err == nil && !found {
		return fmt.Errorf("trust group %s: %w", name, ErrNotFound)
	}
	return err
}

// SeedTrustGroups takes over the groups of a configuration. What an operator
// changed since stays, until the configuration says something else of that
// group than it did before.
func (x *Index) SeedTrustGroups(ctx context.Context, groups []TrustGroup) error {
	for _, g := range groups {
		if err := checkTrust(g.Name, g.Members); err != nil {
			return err
		}
	}
	var seeded []trustRow
	err := x.db.Read.WithContext(ctx).Raw(`SELECT name, members FROM trust_journal
		WHERE seq IN (SELECT MAX(seq) FROM trust_journal WHERE source = ? GROUP BY name) ORDER BY name`, string(TrustFromConfig)).Scan(&seeded).Error
	if err != nil {
		return fmt.Errorf("read seeded trust groups: %w", err)
	}
	said := map[string]string{}
	for _, r := range seeded {
		said[r.Name] = r.Members
	}
	var changed []TrustGroup
	for _, g := range groups {
		if said[g.Name] != memberText(g.Members) {
			changed = append(changed, TrustGroup{Name: g.Name, Members: g.Members, Source: TrustFromConfig})
		}
		delete(said, g.Name)
	}
	for _, r := range seeded {
		if said[r.Name] != "" { // named before, and no longer
			changed = append(changed, TrustGroup{Name: r.Name, Source: TrustFromConfig})
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return x.changeTrust(ctx, func([]trustRow) []TrustGroup { return changed })
}

func checkTrust(name string, members []syntax.DID) error {
	if name == "" || len(name) > maxTrustName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("%w: name %q: want at most %d lower-case letters, digits and hyphens", ErrTrust, cut(clean(name), maxTrustName), maxTrustName)
	}
	if n := len(distinctDIDs(members)); n < 2 || n > MaxTrustMembers {
		return fmt.Errorf("%w %s: %d members; want 2 to %d", ErrTrust, name, n, MaxTrustMembers)
	}
	for _, did := range members {
		if _, err := syntax.ParseDID(string(did)); err != nil {
			return fmt.Errorf("%w %s: %q is no DID", ErrTrust, name, cut(clean(string(did)), maxTrustName))
		}
	}
	return nil
}

func distinctDIDs(dids []syntax.DID) []syntax.DID {
	sorted := slices.Clone(dids)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

func memberText(members []syntax.DID) string {
	var words []string
	for _, did := range distinctDIDs(members) {
		words = append(words, string(did))
	}
	return strings.Join(words, " ")
}

// changeTrust journals the changes that decide asks for, seeing the groups as
// they are, and derives what follows.
func (x *Index) changeTrust(ctx context.Context, decide func(is []trustRow) []TrustGroup) error {
	ctx, cancel := within(ctx, applyTimeout)
	defer cancel()
	err := x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, "trust")
		if err != nil {
			return err
		}
		is, err := trustGroups(tx)
		if err != nil {
			return err
		}
		concerned, err := w.journalTrust(is, decide(is))
		if err != nil || len(concerned) == 0 {
			return err
		}
		if err := w.deriveTrust(); err != nil {
			return err
		}
		if err := w.relink(distinctDIDs(concerned)); err != nil {
			return err
		}
		return w.settle(ctx)
	})
	if err != nil {
		return fmt.Errorf("change trust: %w", err)
	}
	return nil
}

// journalTrust appends those of changes that change something, and returns all
// who are in a group that changed, before or after.
func (w *writer) journalTrust(is []trustRow, changes []TrustGroup) (concerned []syntax.DID, err error) {
	was := map[string]string{}
	for _, r := range is {
		was[r.Name] = r.Members
	}
	for _, g := range changes {
		members := memberText(g.Members)
		if was[g.Name] == members && g.Source != TrustFromConfig {
			continue
		}
		if err := w.tx.Exec("INSERT INTO trust_journal (name, members, source, changed_at) VALUES (?, ?, ?, ?)",
			g.Name, members, string(g.Source), migrations.FormatTime(w.now)).Error; err != nil {
			return nil, fmt.Errorf("journal trust group %s: %w", g.Name, err)
		}
		if was[g.Name] != members {
			before := trustRow{Members: was[g.Name]}
			concerned = append(append(concerned, before.export().Members...), g.Members...)
		}
	}
	return concerned, nil
}

// deriveTrust makes trust_members what the journal says.
func (w *writer) deriveTrust() error {
	rows, err := trustGroups(w.tx)
	if err != nil {
		return err
	}
	if err := w.tx.Exec("DELETE FROM trust_members").Error; err != nil {
		return err
	}
	in, groups := map[syntax.DID]string{}, 0
	for i := range rows {
		if rows[i].Members != "" {
			groups++
		}
		for _, did := range rows[i].export().Members {
			if other, twice := in[did]; twice {
				return fmt.Errorf("%w %s: %s is in %s already; take it out there first", ErrTrust, rows[i].Name, did, other)
			}
			in[did] = rows[i].Name
			if err := w.tx.Exec("INSERT INTO trust_members (did, circle) VALUES (?, ?)", did, rows[i].Name).Error; err != nil {
				return err
			}
		}
	}
	if groups > MaxTrustGroups {
		return fmt.Errorf("%w: there are %d already; delete one first", ErrTrust, MaxTrustGroups)
	}
	return nil
}

// foreignLink is the condition of the index over links to another author's
// observation: chain_nodes_foreign.
const foreignLink = "target_uri <> '' AND substr(target_uri, 6, length(did) + 1) <> did || '/'"

// relink decides anew what the links of authors are worth that trust bears on:
// those to others, and those that count for nothing, for the circle that they
// closed may be open now.
func (w *writer) relink(authors []syntax.DID) error {
	for _, author := range authors {
		for _, where := range []string{foreignLink, "edge = 'ignored'"} {
			rows, err := w.nodes("did = ? AND "+where, author)
			if err != nil {
				return err
			}
			for i := range rows {
				if err := w.relinkNode(&rows[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *writer) relinkNode(n *nodeRow) error {
	was := n.Edge
	target, err := w.link(n)
	if err != nil || n.Edge == was {
		return err
	}
	if err := w.tx.Exec("UPDATE chain_nodes SET edge = ? WHERE uri = ?", n.Edge, n.URI).Error; err != nil {
		return fmt.Errorf("relink %s: %w", n.URI, err)
	}
	w.tangled[n.Chain] = true
	w.restale[syntax.ATURI(n.URI)] = true
	if target == nil { // it may have counted before
		targets, err := w.nodes("uri = ?", n.TargetURI)
		if err != nil || len(targets) == 0 {
			return err
		}
		target = &targets[0]
	}
	w.tangled[target.Chain] = true
	w.restale[syntax.ATURI(target.URI)] = true
	return nil
}
