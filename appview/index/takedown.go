package index

import (
	"context"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/syntax"

	"herbarium.garden/migrations"
)

// TakeDown hides a record from every answer but the operator's, whatever is or
// will be here under its URI: views, lists, counts, versions, chains. Doing it
// again changes nothing.
func (x *Index) TakeDown(ctx context.Context, uri syntax.ATURI) error {
	err := x.db.Write.WithContext(ctx).Exec("INSERT INTO takedowns (uri, taken_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
		string(uri), migrations.FormatTime(x.now())).Error
	if err != nil {
		return fmt.Errorf("take down %s: %w", uri, err)
	}
	return nil
}

// LiftTakedown undoes TakeDown. That nothing was taken down is not an error.
func (x *Index) LiftTakedown(ctx context.Context, uri syntax.ATURI) error {
	if err := x.db.Write.WithContext(ctx).Exec("DELETE FROM takedowns WHERE uri = ?", string(uri)).Error; err != nil {
		return fmt.Errorf("lift takedown of %s: %w", uri, err)
	}
	return nil
}

// TakenDown lists at most limit of what is taken down, by URI, after one ("" for
// the first).
func (x *Index) TakenDown(ctx context.Context, after syntax.ATURI, limit int) ([]syntax.ATURI, error) {
	var uris []syntax.ATURI
	err := x.db.Read.WithContext(ctx).Raw("SELECT uri FROM takedowns WHERE uri > ? ORDER BY uri LIMIT ?", string(after), limit).Scan(&uris).Error
	if err != nil {
		return nil, fmt.Errorf("list takedowns: %w", err)
	}
	return uris, nil
}
