package repostore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/migrations"
)

// ErrBlobQuarantined says that the stored bytes of a blob were found to be other
// ones than its CID says, and are out of service.
var ErrBlobQuarantined = errors.New("blob is quarantined")

// Object is what is on record of the stored bytes of one CID.
type Object struct {
	CID       cid.Cid
	Size      int64     // bytes
	TouchedAt time.Time // of the last upload
	CheckedAt time.Time // when the bytes were last looked at; zero: never
	Owned     bool      // an account has the blob
	Missing   bool      // as of the last check

	state string
}

// Live says that readers look for the bytes.
func (o Object) Live() bool { return o.state == objectLive }

// Quarantined says that the bytes are damaged and out of service, or on the way.
func (o Object) Quarantined() bool {
	return o.state == objectQuarantining || o.state == objectQuarantined
}

// InTrash says that a collection has moved the bytes, or is moving them.
func (o Object) InTrash() bool { return !o.Live() && !o.Quarantined() }

const objectColumns = `cid, size, state, touched_at, checked_at, missing_at IS NOT NULL, EXISTS (SELECT 1 FROM blobs b WHERE b.cid = blob_objects.cid)`

func scanObject(rows *sql.Rows) (o Object, err error) {
	var (
		key              []byte
		touched, checked string
	)
	if err = rows.Scan(&key, &o.Size, &o.state, &touched, &checked, &o.Missing, &o.Owned); err != nil {
		return o, err
	}
	if o.CID, err = castCID(key); err != nil {
		return o, err
	}
	if o.TouchedAt, err = migrations.ParseTime(touched); err == nil && checked != "" {
		o.CheckedAt, err = migrations.ParseTime(checked)
	}
	return o, err
}

// ObjectFilter chooses objects; all of them when zero.
type ObjectFilter struct {
	DID   syntax.DID // that this account has
	Since time.Time  // that were uploaded since then
}

// WalkObjects goes through the objects in the order of their CIDs, in whatever
// state they are.
func (s *Store) WalkObjects(ctx context.Context, f ObjectFilter, visit func(Object) error) error {
	condition, fixed := "cid > ?", []any{}
	if f.DID != "" {
		condition += " AND cid IN (SELECT b.cid FROM blobs b JOIN repos ON repos.id = b.repo_id WHERE repos.did = ?)"
		fixed = append(fixed, string(f.DID))
	}
	if !f.Since.IsZero() {
		condition += " AND touched_at >= ?"
		fixed = append(fixed, migrations.FormatTime(f.Since))
	}
	after := []byte{}
	for {
		args := append([]any{after}, fixed...)
		page, err := s.objects(ctx, "SELECT "+objectColumns+" FROM blob_objects WHERE "+condition+" ORDER BY cid LIMIT ?", append(args, collectionPage)...)
		if err != nil {
			return fmt.Errorf("list objects: %w", err)
		}
		for _, o := range page {
			if err := visit(o); err != nil {
				return err
			}
		}
		if len(page) < collectionPage {
			return nil
		}
		after = page[len(page)-1].CID.Bytes()
	}
}

func (s *Store) objects(ctx context.Context, query string, args ...any) (list []Object, err error) {
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		o, err := scanObject(rows)
		list = append(list, o)
		return err
	}, query, args...)
	return list, err
}

// MostObjects bounds what is asked for at once.
const MostObjects = 200

// Objects answers what is on record of CIDs, at most MostObjects; of those
// without a record, nothing.
func (s *Store) Objects(ctx context.Context, cids ...cid.Cid) (map[cid.Cid]Object, error) {
	if len(cids) > MostObjects {
		return nil, fmt.Errorf("look up objects: %d of at most %d", len(cids), MostObjects)
	}
	found := make(map[cid.Cid]Object, len(cids))
	if len(cids) == 0 {
		return found, nil
	}
	args := make([]any, len(cids))
	for i, c := range cids {
		args[i] = c.Bytes()
	}
	// With the blank, or gorm takes the bytes for a list.
	list, err := s.objects(ctx, "SELECT "+objectColumns+" FROM blob_objects WHERE cid IN ( ?"+strings.Repeat(", ?", len(args)-1)+")", args...)
	if err != nil {
		return nil, fmt.Errorf("look up objects: %w", err)
	}
	for _, o := range list {
		found[o.CID] = o
	}
	return found, nil
}

// Object answers what is on record of one CID; found is false for nothing.
func (s *Store) Object(ctx context.Context, c cid.Cid) (o Object, found bool, err error) {
	all, err := s.Objects(ctx, c)
	o, found = all[c]
	return o, found, err
}

// DueObjects lists live objects that were not looked at since a time, those of
// the longest time first, after the one given (the zero Object for the first page).
func (s *Store) DueObjects(ctx context.Context, before time.Time, after Object, limit int) ([]Object, error) {
	at, key := "", []byte{}
	if after.CID.Defined() {
		key = after.CID.Bytes()
		if !after.CheckedAt.IsZero() {
			at = migrations.FormatTime(after.CheckedAt)
		}
	}
	list, err := s.objects(ctx, "SELECT "+objectColumns+` FROM blob_objects
		WHERE state = ? AND checked_at < ? AND (checked_at, cid) > (?, ?) ORDER BY checked_at, cid LIMIT ?`,
		objectLive, migrations.FormatTime(before), at, key, limit)
	if err != nil {
		return nil, fmt.Errorf("list objects to check: %w", err)
	}
	return list, nil
}

// UnrecordedBlobs lists blobs that accounts have and whose bytes are not on
// record: there are none, unless rows were lost. At most limit.
func (s *Store) UnrecordedBlobs(ctx context.Context, limit int) (list []cid.Cid, err error) {
	err = each(s.db.Read.WithContext(ctx), func(rows *sql.Rows) error {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return err
		}
		c, err := castCID(key)
		list = append(list, c)
		return err
	}, `SELECT DISTINCT cid FROM blobs WHERE NOT EXISTS (SELECT 1 FROM blob_objects o WHERE o.cid = blobs.cid) ORDER BY cid LIMIT ?`, limit)
	if err != nil {
		return nil, fmt.Errorf("list unrecorded blobs: %w", err)
	}
	return list, nil
}

// Evidence is what a blob is evidence for.
type Evidence struct {
	Records []syntax.ATURI // that refer to it, some of them when there are many
	Total   int64          // how many there are, of all accounts
}

// Evidence answers which records refer to a blob, at most limit of them by name.
func (s *Store) Evidence(ctx context.Context, c cid.Cid, limit int) (e Evidence, err error) {
	const refs = ` FROM blobs b JOIN blob_refs r ON r.repo_id = b.repo_id AND r.cid = b.cid JOIN repos ON repos.id = b.repo_id WHERE b.cid = ?`
	db := s.db.Read.WithContext(ctx)
	if _, err = one(db, "SELECT count(*)"+refs, []any{c.Bytes()}, &e.Total); err == nil {
		err = each(db, func(rows *sql.Rows) error {
			var did, path string
			err := rows.Scan(&did, &path)
			e.Records = append(e.Records, recordURI(syntax.DID(did), path))
			return err
		}, "SELECT repos.did, r.path"+refs+" ORDER BY repos.did, r.path LIMIT ?", c.Bytes(), limit)
	}
	if err != nil {
		return Evidence{}, fmt.Errorf("look up records of blob %s: %w", c, err)
	}
	return e, nil
}

// ObjectRight records that the bytes of a live object were read and are right.
func (s *Store) ObjectRight(ctx context.Context, c cid.Cid) error {
	return s.checked(ctx, c, "missing_at = NULL")
}

// ObjectMissing records that a live object has no bytes.
func (s *Store) ObjectMissing(ctx context.Context, c cid.Cid) error {
	return s.checked(ctx, c, "missing_at = COALESCE(missing_at, '"+migrations.FormatTime(s.now())+"')")
}

func (s *Store) checked(ctx context.Context, c cid.Cid, set string) error {
	err := s.db.Write.WithContext(ctx).Exec("UPDATE blob_objects SET checked_at = ?, "+set+" WHERE cid = ? AND state = ?",
		migrations.FormatTime(s.now()), c.Bytes(), objectLive).Error
	if err != nil {
		return fmt.Errorf("record check of object %s: %w", c, err)
	}
	return nil
}

// ObjectMended records that the right bytes of an object that was claimed
// (ClaimObject) are back where readers look. ErrObjectBusy: somebody has moved them.
func (s *Store) ObjectMended(ctx context.Context, c cid.Cid) error {
	mended := s.db.Write.WithContext(ctx).Exec("UPDATE blob_objects SET checked_at = ?, missing_at = NULL WHERE cid = ? AND state = ?",
		migrations.FormatTime(s.now()), c.Bytes(), objectLive)
	err := mended.Error
	if err == nil && mended.RowsAffected == 0 {
		err = ErrObjectBusy
	}
	if err != nil {
		return fmt.Errorf("record that object %s is back: %w", c, err)
	}
	return nil
}

// Ward moves damaged bytes out of service: the blob store. Each may be called
// again after it was cut off.
type Ward interface {
	// Damaged reads the bytes where readers look; also true when there are none.
	Damaged(ctx context.Context, c cid.Cid) (bool, error)
	// Isolate moves them to the quarantine, if there are any.
	Isolate(ctx context.Context, c cid.Cid) error
}

// isolationDead is how long after it marked an object a mover counts as dead.
const isolationDead = time.Hour

// Isolate takes a live object whose bytes were found damaged out of service.
// false: it was not live, or they are right after all.
//
// The mark comes first: from then on no upload can claim the object, so none
// trusts bytes that are about to leave, nor has those moved that it put there.
// One that claimed it before is told to come again (ErrObjectBusy).
func (s *Store) Isolate(ctx context.Context, ward Ward, c cid.Cid) (bool, error) {
	marked, err := s.turn(ctx, c, objectLive, objectQuarantining, "")
	if err == nil && !marked {
		marked, err = s.turn(ctx, c, objectQuarantining, objectQuarantining, " AND changed_at < ?", migrations.FormatTime(s.now().Add(-isolationDead)))
	}
	if err != nil || !marked {
		return false, err
	}
	return s.isolate(ctx, ward, c)
}

// isolate moves an object that is marked, if it is damaged.
func (s *Store) isolate(ctx context.Context, ward Ward, c cid.Cid) (bool, error) {
	damaged, err := ward.Damaged(ctx, c)
	if err != nil || !damaged {
		_, back := s.turn(ctx, c, objectQuarantining, objectLive, "")
		return false, errors.Join(err, back)
	}
	if err := ward.Isolate(ctx, c); err != nil {
		return false, fmt.Errorf("move object %s to the quarantine: %w", c, err)
	}
	return s.turn(ctx, c, objectQuarantining, objectQuarantined, "")
}

// ResumeIsolations ends what a dead mover began.
func (s *Store) ResumeIsolations(ctx context.Context, ward Ward) error {
	return s.walkObjects(ctx, objectQuarantining, "changed_at", s.now().Add(-isolationDead), func(o object) error {
		_, err := s.Isolate(ctx, ward, o.cid)
		return err
	})
}
