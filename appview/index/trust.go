package index

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
)

// SetTrustGroups makes these the trust groups: DIDs whose supersedes links
// count for each other. A DID is in one group at most. When they differ from
// what was set, the index is built again, for links that were proposals may
// now move heads, and the other way round.
func (x *Index) SetTrustGroups(ctx context.Context, groups [][]syntax.DID) error {
	want := map[string]string{}
	for i, group := range groups {
		for _, did := range group {
			if _, twice := want[string(did)]; twice {
				return fmt.Errorf("set trust groups: %s is in two", did)
			}
			want[string(did)] = strconv.Itoa(i)
		}
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, reindexTimeout)
		defer cancel()
	}
	err := x.db.Tx(ctx, func(tx *gorm.DB) error {
		var rows []struct{ Did, Circle string }
		if err := tx.Raw("SELECT did, circle FROM trust_members").Scan(&rows).Error; err != nil {
			return err
		}
		is := make(map[string]string, len(rows))
		for _, r := range rows {
			is[r.Did] = r.Circle
		}
		if sameGroups(is, want) {
			return nil
		}
		if err := tx.Exec("DELETE FROM trust_members").Error; err != nil {
			return err
		}
		for did, circle := range want {
			if err := tx.Exec("INSERT INTO trust_members (did, circle) VALUES (?, ?)", did, circle).Error; err != nil {
				return err
			}
		}
		return x.rebuild(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("set trust groups: %w", err)
	}
	return nil
}

// sameGroups compares two divisions into groups, whatever the groups are called.
func sameGroups(a, b map[string]string) bool {
	members := func(m map[string]string) []string {
		circles := map[string][]string{}
		for did, circle := range m {
			circles[circle] = append(circles[circle], did)
		}
		var out []string
		for _, dids := range circles {
			slices.Sort(dids)
			out = append(out, fmt.Sprint(dids))
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(members(a), members(b))
}
