package repostore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
)

// mostImpact bounds each list of an Impact.
const mostImpact = 100

// Impact is what a purge would touch, as this host knows it, in the order in
// which it was asked for.
type Impact struct {
	Records []RecordImpact
	Blobs   []BlobImpact
}

// RecordImpact is what a purge would touch of a record.
type RecordImpact struct {
	PurgedRecord
	Stands *cid.Cid    // of the record at the URI now, this or another version; nil for none
	Blobs  []cid.Cid   // that it refers to, when it stands; 100 at most
	Copies RecordsElse // the same record under other URIs
}

// BlobImpact is what a purge would touch of a blob.
type BlobImpact struct {
	PurgedBlob
	Accounts int64       // that have it
	Others   RecordsElse // that refer to it
}

// RecordsElse are records that are not to be purged and that keep a purge from
// being complete.
type RecordsElse struct {
	Total int64
	URIs  []syntax.ATURI // 100 at most
}

func (e *RecordsElse) add(uri syntax.ATURI) {
	if e.Total++; e.Total <= mostImpact {
		e.URIs = append(e.URIs, uri)
	}
}

func (e *RecordsElse) String() string {
	uris := make([]string, len(e.URIs))
	for i, uri := range e.URIs {
		uris[i] = string(uri)
	}
	text := strings.Join(uris, " ")
	if more := e.Total - int64(len(uris)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// PurgeImpact tells what a purge of records and blobs would touch; withBlobs adds
// those that the records refer to. It reads through the records for copies, so
// it takes as long as that.
func (s *Store) PurgeImpact(ctx context.Context, records []lexicons.StrongRef, blobs []cid.Cid, withBlobs bool) (Impact, error) {
	read := reader{s.db.Read}
	p := Purge{Records: make([]PurgedRecord, len(records)), Blobs: make([]PurgedBlob, len(blobs))}
	for i, r := range records {
		p.Records[i].StrongRef = r
	}
	for i, b := range blobs {
		p.Blobs[i].CID = b
	}
	impact, err := read.impact(ctx, p.Records, p.Blobs, true)
	if err != nil || !withBlobs {
		return impact, err
	}
	for _, rec := range impact.Records {
		for _, c := range rec.Blobs {
			if slices.ContainsFunc(impact.Blobs, func(b BlobImpact) bool { return b.CID == c }) {
				continue
			}
			b, err := read.impactOfBlob(ctx, PurgedBlob{CID: c}, going(p.Records))
			if err != nil {
				return Impact{}, fmt.Errorf("impact of purging blob %s: %w", c, err)
			}
			impact.Blobs = append(impact.Blobs, b)
		}
	}
	return impact, nil
}

// going are the URIs of a purge.
func going(records []PurgedRecord) map[syntax.ATURI]bool {
	uris := make(map[syntax.ATURI]bool, len(records))
	for _, rec := range records {
		uris[rec.URI] = true
	}
	return uris
}

// Stands answers the CID of the record at a URI, taken down or not; nil for none.
func (s *Store) Stands(ctx context.Context, uri syntax.ATURI) (*cid.Cid, error) {
	impact, err := reader{s.db.Read}.impactOfRecord(ctx, PurgedRecord{StrongRef: lexicons.StrongRef{URI: uri}})
	return impact.Stands, err
}

// impact looks for copies only when it is told to.
func (r reader) impact(ctx context.Context, records []PurgedRecord, blobs []PurgedBlob, copies bool) (Impact, error) {
	impact := Impact{Records: make([]RecordImpact, len(records)), Blobs: make([]BlobImpact, len(blobs))}
	going := going(records)
	for i, rec := range records {
		var err error
		if impact.Records[i], err = r.impactOfRecord(ctx, rec); err != nil {
			return Impact{}, fmt.Errorf("impact of purging %s: %w", rec.URI, err)
		}
	}
	if copies && len(records) > 0 {
		err := eachCopy(r.db.WithContext(ctx), records, func(copied PurgedRecord) error {
			for i := range impact.Records {
				if impact.Records[i].CID == copied.CID && !going[copied.URI] {
					impact.Records[i].Copies.add(copied.URI)
				}
			}
			return nil
		})
		if err != nil {
			return Impact{}, fmt.Errorf("look for copies of purged records: %w", err)
		}
	}
	for i, b := range blobs {
		var err error
		if impact.Blobs[i], err = r.impactOfBlob(ctx, b, going); err != nil {
			return Impact{}, fmt.Errorf("impact of purging blob %s: %w", b.CID, err)
		}
	}
	return impact, nil
}

func (r reader) impactOfRecord(ctx context.Context, rec PurgedRecord) (RecordImpact, error) {
	impact := RecordImpact{PurgedRecord: PurgedRecord{StrongRef: rec.StrongRef}}
	did, path, ok := locate(rec.URI)
	if !ok {
		return impact, fmt.Errorf("%w: %s names no record", ErrRecordNotFound, rec.URI)
	}
	stands, err := r.record(ctx, did, path)
	if err != nil || stands == nil {
		return impact, err
	}
	impact.Stands = &stands.cid
	if stands.cid != rec.CID {
		return impact, nil
	}
	impact.Size = int64(len(stands.cbor))
	return impact, each(r.db.WithContext(ctx), func(rows *sql.Rows) error {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return err
		}
		c, err := castCID(key)
		impact.Blobs = append(impact.Blobs, c)
		return err
	}, `SELECT cid FROM blob_refs WHERE path = ? AND repo_id = (SELECT id FROM repos WHERE did = ?)
		UNION SELECT cid FROM awaited_blobs WHERE path = ? AND repo_id = (SELECT id FROM repos WHERE did = ?)
		ORDER BY cid LIMIT ?`, path, string(did), path, string(did), mostImpact)
}

func (r reader) impactOfBlob(ctx context.Context, b PurgedBlob, going map[syntax.ATURI]bool) (BlobImpact, error) {
	db := r.db.WithContext(ctx)
	impact := BlobImpact{PurgedBlob: PurgedBlob{CID: b.CID}}
	key := b.CID.Bytes()
	if _, err := one(db, `SELECT COALESCE((SELECT size FROM blob_objects WHERE cid = ?), 0), (SELECT count(*) FROM blobs WHERE cid = ?)`,
		[]any{key, key}, &impact.Size, &impact.Accounts); err != nil {
		return impact, err
	}
	return impact, each(db, func(rows *sql.Rows) error {
		var holder, at string
		err := rows.Scan(&holder, &at)
		if uri := recordURI(syntax.DID(holder), at); !going[uri] {
			impact.Others.add(uri)
		}
		return err
	}, `SELECT repos.did, f.path FROM (
			SELECT r.repo_id, r.path FROM blobs b JOIN blob_refs r ON r.repo_id = b.repo_id AND r.cid = b.cid WHERE b.cid = ?
			UNION SELECT repo_id, path FROM awaited_blobs WHERE cid = ?) f
		JOIN repos ON repos.id = f.repo_id ORDER BY f.repo_id, f.path`, key, key)
}

// eachCopy goes through all records, of any repo, that are the same as one of
// these, byte for byte. There is no index on it, which every write would pay for.
func eachCopy(db *gorm.DB, records []PurgedRecord, visit func(PurgedRecord) error) error {
	keys := make([][]byte, len(records))
	for i, rec := range records {
		keys[i] = rec.CID.Bytes()
	}
	return each(db, func(rows *sql.Rows) error {
		var (
			did, path string
			key       []byte
			rec       PurgedRecord
		)
		err := rows.Scan(&did, &path, &key, &rec.Size)
		if err == nil {
			rec.CID, err = castCID(key)
		}
		if err != nil {
			return err
		}
		rec.URI = recordURI(syntax.DID(did), path)
		return visit(rec)
	}, `SELECT repos.did, r.path, r.cid, length(r.block) FROM records r JOIN repos ON repos.id = r.repo_id
		WHERE r.cid IN ? ORDER BY r.repo_id, r.path`, keys)
}

// Blocked answers what keeps the purge from being complete: ErrInvalidSwap,
// ErrPurgeBlocked, or nil.
func (i *Impact) Blocked() error {
	for _, rec := range i.Records {
		if rec.Stands == nil || slices.ContainsFunc(i.Records, func(other RecordImpact) bool {
			return other.URI == rec.URI && other.CID == *rec.Stands
		}) {
			continue
		}
		return fmt.Errorf("%w: another version stands at %s, and a purge takes all of them; name it too; stands %s %s", ErrInvalidSwap, rec.URI, rec.URI, rec.Stands)
	}
	for _, b := range i.Blobs {
		if b.Others.Total > 0 {
			return fmt.Errorf("%w: %d other records refer to blob %s; purge these too: %s", ErrPurgeBlocked, b.Others.Total, b.CID, &b.Others)
		}
	}
	for _, rec := range i.Records {
		if rec.Copies.Total > 0 {
			return fmt.Errorf("%w: the record %s stands at %d other places; purge these too: %s", ErrPurgeBlocked, rec.CID, rec.Copies.Total, &rec.Copies)
		}
	}
	return nil
}
