package index

import (
	"context"
	"fmt"
	"slices"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/migrations"
)

// TakeDown hides a record from every answer but the operator's, whatever is or
// will be here under its URI: views, lists, counts, versions, chains. What
// others wrote about it stays and finds it withheld. Doing it again changes
// nothing, and Reindex does not undo it.
func (x *Index) TakeDown(ctx context.Context, uri syntax.ATURI) error {
	err := x.takedown(ctx, uri, true, "INSERT INTO takedowns (uri, taken_at) VALUES (?, ?) ON CONFLICT DO NOTHING",
		string(uri), migrations.FormatTime(x.now()))
	if err != nil {
		return fmt.Errorf("take down %s: %w", uri, err)
	}
	return nil
}

// LiftTakedown undoes TakeDown. That nothing was taken down is not an error.
func (x *Index) LiftTakedown(ctx context.Context, uri syntax.ATURI) error {
	if err := x.takedown(ctx, uri, false, "DELETE FROM takedowns WHERE uri = ?", string(uri)); err != nil {
		return fmt.Errorf("lift takedown of %s: %w", uri, err)
	}
	return nil
}

// takedown makes a change to the list, after which uri is on it or not, and
// counts the turns of the conversation anew that it may be a turn of. Told what
// it knows, it writes nothing: the host tells everything again and again.
func (x *Index) takedown(ctx context.Context, uri syntax.ATURI, listed bool, change string, args ...any) error {
	var is bool
	err := x.db.Read.WithContext(ctx).Raw("SELECT EXISTS (SELECT 1 FROM takedowns WHERE uri = ?)", string(uri)).Scan(&is).Error
	if err != nil || is == listed {
		return err
	}
	return x.db.Tx(ctx, func(tx *gorm.DB) error {
		w, err := x.newWriter(tx, "takedown")
		if err != nil {
			return err
		}
		if err := tx.Exec(change, args...).Error; err != nil {
			return err
		}
		var sessions []syntax.ATURI
		if err := tx.Raw("SELECT session_uri FROM messages WHERE uri = ?", string(uri)).Scan(&sessions).Error; err != nil {
			return err
		}
		for _, session := range sessions {
			w.recount[session] = true
		}
		if err := w.tellTakedown(uri, listed); err != nil {
			return err
		}
		return w.settle(ctx)
	})
}

// tellTakedown notes that a record went from the views, or came back; it was not
// there anyway when it was deleted or is quarantined.
func (w *writer) tellTakedown(uri syntax.ATURI, listed bool) error {
	rec, err := w.record(uri)
	if err != nil || rec == nil || !slices.Contains(live, rec.State) {
		return err
	}
	kind := ChangeRestored
	if listed {
		kind = ChangeTakenDown
	}
	r, err := w.repo(syntax.DID(rec.Did))
	if err != nil {
		return err
	}
	return w.tell(changeRow{
		Kind: string(kind), URI: rec.URI, Did: rec.Did, Collection: rec.Collection, shown: true, Hidden: !r.Active,
	})
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
