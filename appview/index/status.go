package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
)

// Status is how the index is doing, as of one moment. It counts all records:
// not for every request.
func (x *Index) Status(ctx context.Context) (*Status, error) {
	s := &Status{Repos: map[SyncState]int64{}, Records: map[syntax.NSID]int64{}}
	err := x.db.ReadTx(ctx, func(tx *gorm.DB) error {
		if err := tx.Raw("SELECT COALESCE(MAX(seq), 0) FROM journal").Scan(&s.Journal).Error; err != nil {
			return err
		}
		var groups []struct {
			Name string
			N    int64
		}
		// An account that is not active is not waited for: least of all a deleted one, whose repo starts over.
		if err := tx.Raw("SELECT CASE WHEN active THEN sync ELSE '' END AS name, COUNT(*) AS n FROM repos GROUP BY 1").Scan(&groups).Error; err != nil {
			return err
		}
		for _, g := range groups {
			if g.Name == "" {
				s.Inactive = g.N
			} else {
				s.Repos[SyncState(g.Name)] = g.N
			}
		}
		groups = nil
		err := tx.Raw("SELECT collection AS name, COUNT(*) AS n FROM records WHERE state IN ? GROUP BY collection",
			live).Scan(&groups).Error
		if err != nil {
			return err
		}
		for _, g := range groups {
			s.Records[syntax.NSID(g.Name)] = g.N
		}
		if err := tx.Raw("SELECT collection FROM revalidations WHERE finished_at = '' ORDER BY collection").Scan(&s.Revalidating).Error; err != nil {
			return err
		}
		var sources []struct {
			Name      string
			Cursor    int64
			UpdatedAt string
		}
		if err := tx.Raw("SELECT name, cursor, updated_at FROM sources ORDER BY name").Scan(&sources).Error; err != nil {
			return err
		}
		for _, src := range sources {
			s.Sources = append(s.Sources, SourceStatus{Name: src.Name, Cursor: src.Cursor, UpdatedAt: textTime(src.UpdatedAt)})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("index status: %w", err)
	}
	return s, nil
}

// Cursor is how far a source was applied; 0 when it never was.
func (x *Index) Cursor(ctx context.Context, source string) (int64, error) {
	var cursor int64
	err := x.db.Read.WithContext(ctx).Raw("SELECT COALESCE((SELECT cursor FROM sources WHERE name = ?), 0)", source).Scan(&cursor).Error
	if err != nil {
		return 0, fmt.Errorf("cursor of %s: %w", source, err)
	}
	return cursor, nil
}
