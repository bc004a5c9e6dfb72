package pds

import (
	"context"
	"fmt"
	"time"

	"herbarium.garden/migrations"
)

// leaseTime is how long a lease holds without being renewed. The clocks of the
// replicas must agree better than that.
const leaseTime = 2 * time.Minute

// lease is work that one process at a time does, of all that share a database.
type lease struct {
	p       *PDS
	name    string
	renewed time.Time
}

// takeLease takes a lease that nobody holds, or that this process holds
// already; nil when another one has it.
func (p *PDS) takeLease(ctx context.Context, name string) (*lease, error) {
	l := &lease{p: p, name: name}
	held, err := l.extend(ctx)
	if err != nil || !held {
		return nil, err
	}
	return l, nil
}

// keep renews the lease when that is due. false: it is another's by now.
func (l *lease) keep(ctx context.Context) (bool, error) {
	if l.p.now().Sub(l.renewed) < leaseTime/4 {
		return true, nil
	}
	return l.extend(ctx)
}

func (l *lease) extend(ctx context.Context) (held bool, err error) {
	now := l.p.now()
	result := l.p.db.Write.WithContext(ctx).Exec(`INSERT INTO leases (name, holder, until) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
		WHERE leases.holder = excluded.holder OR leases.until < ?`,
		l.name, l.p.process, migrations.FormatTime(now.Add(leaseTime)), migrations.FormatTime(now))
	if result.Error != nil {
		return false, fmt.Errorf("take lease %s: %w", l.name, result.Error)
	}
	l.renewed = now
	return result.RowsAffected == 1, nil
}

// end lets others have it at once.
func (l *lease) end(ctx context.Context) error {
	err := l.p.db.Write.WithContext(ctx).Exec("DELETE FROM leases WHERE name = ? AND holder = ?", l.name, l.p.process).Error
	if err != nil {
		return fmt.Errorf("end lease %s: %w", l.name, err)
	}
	return nil
}

// leased says whether any process holds a lease.
func (p *PDS) leased(ctx context.Context, name string) (held bool, err error) {
	err = p.db.Read.WithContext(ctx).Raw("SELECT EXISTS (SELECT 1 FROM leases WHERE name = ? AND until >= ?)", name, migrations.FormatTime(p.now())).Scan(&held).Error
	if err != nil {
		return false, fmt.Errorf("look for lease %s: %w", name, err)
	}
	return held, nil
}
