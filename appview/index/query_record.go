package index

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
)

// fullRecordRow is a record with the journal row of what is shown of it.
type fullRecordRow struct {
	Row       recordRow `gorm:"embedded"`
	Rev       string
	CommitCID string `gorm:"column:commit_cid"`
	Record    []byte
	TakenDown bool
	Purged    bool
}

func (r *fullRecordRow) export() Record {
	return Record{
		URI: syntax.ATURI(r.Row.URI), DID: syntax.DID(r.Row.Did), Collection: syntax.NSID(r.Row.Collection), RecordKey: syntax.RecordKey(r.Row.Rkey),
		CID: parseCID(r.Row.CID), RepoCID: parseCID(r.Row.RepoCID), Rev: syntax.TID(r.Rev), Commit: parseCID(r.CommitCID),
		State: State(r.Row.State), Baseline: r.Row.Baseline,
		IndexedAt: textTime(r.Row.IndexedAt), UpdatedAt: textTime(r.Row.UpdatedAt), DeletedAt: textTime(r.Row.DeletedAt),
		CBOR: servable(r.Row.Collection, r.Record), TakenDown: r.TakenDown, Purged: r.Purged,
	}
}

// servable is the content, unless it is of a message that is withheld: what
// such a record holds against its own word is in no answer.
func servable(collection string, content []byte) []byte {
	if content == nil || collection != string(lexicons.MessageNSID) {
		return content
	}
	rec, err := lexicons.ParseCBOR(lexicons.MessageNSID, content)
	if err != nil {
		return nil
	}
	if withheld, _ := rec.Value["withheld"].(bool); withheld {
		return nil
	}
	return content
}

// Record is the record at uri, its tombstone included. ErrNotFound when it was
// never witnessed, or is not for this viewer.
func (x *Index) Record(ctx context.Context, v Viewer, uri syntax.ATURI) (*Record, error) {
	found, err := x.Records(ctx, v, []syntax.ATURI{uri})
	if err != nil {
		return nil, err
	}
	return one(found, uri)
}

func one[T any](found map[syntax.ATURI]T, uri syntax.ATURI) (*T, error) {
	item, ok := found[uri]
	if !ok {
		return nil, fmt.Errorf("%s: %w", uri, ErrNotFound)
	}
	return &item, nil
}

// Records are those of uris that are held here, tombstones included, in one
// query. At most MaxBatch URIs.
func (x *Index) Records(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI]Record, error) {
	out := make(map[syntax.ATURI]Record, len(uris))
	if len(uris) == 0 {
		return out, nil
	}
	if err := batch(len(uris)); err != nil {
		return nil, err
	}
	if v.Past() {
		return x.pastRecords(ctx, v, uris)
	}
	q := newQuery("t.uri, t.did, t.collection, t.rkey, t.cid, t.repo_cid, t.seq, t.state, t.violated, t.baseline, t.versions, t.indexed_at, t.updated_at, t.deleted_at, j.rev, j.commit_cid, j.record, NOT "+notTakenDown("t.uri")+" AS taken_down, "+isPurged("t.uri", "t.cid")+" AS purged",
		"records t JOIN journal j ON j.seq = t.seq")
	q.where("t.uri IN ?", uris)
	q.whereIf(!v.Admin, "t.state <> ?", string(StateQuarantined))
	q.visible(v)
	var rows []fullRecordRow
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	for i := range rows {
		out[syntax.ATURI(rows[i].Row.URI)] = rows[i].export()
	}
	return out, nil
}

// hydrate fills in the records of a page of rows.
func hydrate[T any](ctx context.Context, x *Index, v Viewer, items []T, of func(*T) *Record) error {
	uris := make([]syntax.ATURI, len(items))
	for i := range items {
		uris[i] = of(&items[i]).URI
	}
	records, err := x.Records(ctx, v, uris)
	if err != nil {
		return err
	}
	for i := range items {
		r := of(&items[i])
		if rec, ok := records[r.URI]; ok {
			*r = rec
		}
	}
	return nil
}

func (r *journalRow) export() Version {
	f, _ := decodeFacts(r.Facts) // written by this package; a row without readable facts has none
	return Version{
		Seq: r.Seq, Source: r.Source, Action: lexicons.Action(r.Action), CID: parseCID(r.CID), Prev: parseCID(r.Prev),
		Rev: syntax.TID(r.Rev), Commit: parseCID(r.CommitCID), Baseline: r.Baseline, WitnessedAt: textTime(r.WitnessedAt),
		Rewrites: f.Rewrites, CBOR: servable(r.Collection, r.Record),
	}
}

// Versions are the witnessed operations on uri, the oldest first;
// Position.Key is the seq. Knows Reverse.
func (x *Index) Versions(ctx context.Context, v Viewer, uri syntax.ATURI, p Page) (List[Version], error) {
	return x.versions(ctx, v, uri, p, "")
}

// versions are those of Versions for which the condition only holds.
func (x *Index) versions(ctx context.Context, v Viewer, uri syntax.ATURI, p Page, only string) (List[Version], error) {
	direction, beyond := p.order()
	q := newQuery(journalColumns, "journal t")
	q.where("t.uri = ?", uri)
	q.whereIf(only != "", only)
	q.until(v, "t.witnessed_at")
	q.whereIf(!v.Admin, "EXISTS (SELECT 1 FROM records c WHERE c.uri = t.uri AND c.state <> ?)", string(StateQuarantined))
	q.visible(v)
	if p.After != nil {
		seq, err := strconv.ParseInt(p.After.Key, 10, 64)
		if err != nil {
			return List[Version]{}, fmt.Errorf("versions of %s after %q: %w", uri, p.After.Key, ErrPosition)
		}
		q.where("t.seq "+beyond+" ?", seq)
	}
	var rows []journalRow
	if err := q.page(x.db.Read.WithContext(ctx), "t.seq"+direction, p, &rows); err != nil {
		return List[Version]{}, fmt.Errorf("list versions of %s: %w", uri, err)
	}
	return collect(rows, p, func(r *journalRow) (Version, Position) {
		return r.export(), Position{Key: strconv.FormatInt(r.Seq, 10), URI: r.URI}
	}), nil
}

// OtherVersions are what was put at the URI of an observation after it was
// first seen there, by whatever means and through whatever host: its edits, and
// what came under its record key when it was deleted. The oldest first;
// Position.Key is the seq. It walks the index of Versions and begins where the
// version that is shown is noted.
func (x *Index) OtherVersions(ctx context.Context, v Viewer, uri syntax.ATURI, p Page) (List[Version], error) {
	if p.After == nil {
		var first []int64
		err := x.db.Read.WithContext(ctx).Raw("SELECT seq FROM records WHERE uri = ? AND collection = ? AND violated", uri, string(lexicons.ObservationNSID)).Scan(&first).Error
		if err != nil {
			return List[Version]{}, fmt.Errorf("list other versions of %s: %w", uri, err)
		}
		if len(first) == 0 {
			return List[Version]{}, nil
		}
		p.After = &Position{Key: strconv.FormatInt(first[0], 10), URI: string(uri)}
	}
	return x.versions(ctx, v, uri, p, "t.action <> '"+string(lexicons.Delete)+"'")
}

// VersionKey names one version of a record.
func VersionKey(uri syntax.ATURI, c cid.Cid) string { return versionKey(string(uri), cidText(c)) }

func versionKey(uri, cid string) string { return uri + " " + cid }

// PinnedVersions are the versions that refs pin and that were witnessed here,
// by VersionKey, current or not; without content when that is gone. At most
// MaxBatch refs.
func (x *Index) PinnedVersions(ctx context.Context, v Viewer, refs []lexicons.StrongRef) (map[string]Version, error) {
	out := map[string]Version{}
	if len(refs) == 0 {
		return out, nil
	}
	if err := batch(len(refs)); err != nil {
		return nil, err
	}
	wanted := make(map[string]bool, len(refs))
	uris := make([]string, 0, len(refs))
	cids := make([]string, 0, len(refs))
	for _, r := range refs {
		wanted[VersionKey(r.URI, r.CID)] = true
		uris, cids = append(uris, string(r.URI)), append(cids, r.CID.String())
	}
	q := newQuery(journalColumns, "journal t")
	q.where("t.uri IN ? AND t.cid IN ?", uris, cids)
	q.until(v, "t.witnessed_at")
	q.whereIf(!v.Admin, "EXISTS (SELECT 1 FROM records c WHERE c.uri = t.uri AND c.state <> ?)", string(StateQuarantined))
	q.visible(v)
	var rows []journalRow
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read pinned versions: %w", err)
	}
	for i := range rows {
		key := versionKey(rows[i].URI, rows[i].CID)
		if held, ok := out[key]; wanted[key] && (!ok || held.CBOR == nil) {
			out[key] = rows[i].export()
		}
	}
	return out, nil
}

// ReferencesTo lists the records that name target, by URI; kind "" for all kinds.
func (x *Index) ReferencesTo(ctx context.Context, v Viewer, target syntax.ATURI, kind ReferenceKind, p Page) (List[Reference], error) {
	q := newQuery("t.from_uri, t.path, t.kind, t.target_uri, t.target_cid", "refs t")
	q.where("t.target_uri = ?", target)
	q.whereIf(kind != "", "t.kind = ?", string(kind))
	q.whereIf(!v.Admin, "EXISTS (SELECT 1 FROM repos r WHERE r.did = t.from_did AND r.active) AND "+notTakenDown("t.from_uri"))
	q.whereIf(v.Restricted(), "EXISTS (SELECT 1 FROM records c WHERE c.uri = t.from_uri AND c.collection IN ?)", v.Collections)
	if p.After != nil {
		q.where("(t.from_uri, t.path) > (?, ?)", p.After.URI, p.After.Key)
	}
	var rows []struct {
		FromURI   string `gorm:"column:from_uri"`
		Path      string
		Kind      string
		TargetURI string `gorm:"column:target_uri"`
		TargetCID string `gorm:"column:target_cid"`
	}
	if err := q.page(x.db.Read.WithContext(ctx), "t.from_uri, t.path", p, &rows); err != nil {
		return List[Reference]{}, fmt.Errorf("list references to %s: %w", target, err)
	}
	list := List[Reference]{}
	for i, r := range rows {
		if i == p.limit() {
			last := list.Items[i-1]
			list.Next = &Position{Key: last.Path, URI: string(last.From)}
			break
		}
		list.Items = append(list.Items, Reference{
			From: syntax.ATURI(r.FromURI), Kind: ReferenceKind(r.Kind), Path: r.Path,
			Target: syntax.ATURI(r.TargetURI), CID: parseCID(r.TargetCID),
		})
	}
	return list, nil
}

// Blobs are the blobs that the records at uris name. At most MaxBatch URIs.
func (x *Index) Blobs(ctx context.Context, v Viewer, uris []syntax.ATURI) (map[syntax.ATURI][]Blob, error) {
	out := map[syntax.ATURI][]Blob{}
	if len(uris) == 0 {
		return out, nil
	}
	if err := batch(len(uris)); err != nil {
		return nil, err
	}
	q := newQuery("t.uri, b.cid, t.did, b.mime, b.size", "blob_refs b JOIN records t ON t.uri = b.uri")
	q.where("b.uri IN ?", uris)
	q.visible(v)
	var rows []struct {
		URI  string `gorm:"column:uri"`
		CID  string `gorm:"column:cid"`
		Did  string
		Mime string
		Size int64
	}
	if err := q.all(x.db.Read.WithContext(ctx), &rows); err != nil {
		return nil, fmt.Errorf("read blobs: %w", err)
	}
	for _, r := range rows {
		uri := syntax.ATURI(r.URI)
		out[uri] = append(out[uri], Blob{DID: syntax.DID(r.Did), CID: parseCID(r.CID), MimeType: r.Mime, Size: r.Size, URI: uri})
	}
	return out, nil
}

// Proof is the signed commit block and the MST nodes that came with a commit
// of did, when it held an observation or a claim. ErrNotFound otherwise.
func (x *Index) Proof(ctx context.Context, did syntax.DID, rev syntax.TID, commit cid.Cid) ([]Block, error) {
	var packed [][]byte
	err := x.db.Read.WithContext(ctx).Raw("SELECT blocks FROM proofs WHERE did = ? AND rev = ? AND commit_cid = ?", did, rev, commit.String()).Scan(&packed).Error
	if err != nil {
		return nil, fmt.Errorf("read proof of %s: %w", did, err)
	}
	if len(packed) == 0 {
		return nil, fmt.Errorf("proof of commit %s of %s: %w", commit, did, ErrNotFound)
	}
	return x.parseProof(packed[0])
}

func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
