package pds

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/ipfs/go-cid"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/repostore"
)

const listPurgesMethod = "garden.herbarium.admin.listPurges"

func (p *PDS) registerPurge(s *xrpc.Server) error {
	return errors.Join(
		xrpc.Query(s, "garden.herbarium.admin.previewPurge", xrpc.AdminOnly, p.previewPurge, xrpc.Audited()),
		xrpc.Procedure(s, "garden.herbarium.admin.purgeRecord", xrpc.AdminOnly, p.purgeRecord, xrpc.Strict()),
		xrpc.Query(s, listPurgesMethod, xrpc.AdminOnly, p.listPurges),
		xrpc.Query(s, "garden.herbarium.admin.getPurge", xrpc.AdminOnly, p.getPurge),
		xrpc.Procedure(s, "garden.herbarium.admin.applyPurges", xrpc.AdminOnly, p.applyPurges, xrpc.Strict(), xrpc.MaxBody(12*maxReceipt)),
	)
}

// purgeRecordID is garden.herbarium.admin.defs#purgedRecord.
type purgeRecordID struct {
	URI  syntax.ATURI `json:"uri"`
	CID  string       `json:"cid"`
	Size int64        `json:"size"`
}

// purgeBlobID is garden.herbarium.admin.defs#purgedBlob.
type purgeBlobID struct {
	CID  string `json:"cid"`
	Size int64  `json:"size"`
}

// purgeStepView is garden.herbarium.admin.defs#purgeStep.
type purgeStepView struct {
	Step    string           `json:"step"`
	At      string           `json:"at"`
	Removed map[string]int64 `json:"removed"`
}

// purgeView is garden.herbarium.admin.defs#purge.
type purgeView struct {
	ID       syntax.TID      `json:"id"`
	At       string          `json:"at"`
	Actor    string          `json:"actor"`
	Reason   string          `json:"reason,omitempty"`
	Records  []purgeRecordID `json:"records"`
	Blobs    []purgeBlobID   `json:"blobs"`
	Steps    []purgeStepView `json:"steps"`
	Complete bool            `json:"complete"`
	Receipt  string          `json:"receipt,omitempty"`
}

func viewPurge(purge *repostore.Purge) purgeView {
	view := purgeView{
		ID: purge.ID, At: migrations.FormatTime(purge.At), Actor: purge.Actor, Reason: purge.Reason,
		Records: make([]purgeRecordID, len(purge.Records)), Blobs: make([]purgeBlobID, len(purge.Blobs)), Steps: make([]purgeStepView, len(purge.Steps)),
		Complete: purge.Receipt != "", Receipt: purge.Receipt,
	}
	for i, r := range purge.Records {
		view.Records[i] = purgeRecordID{r.URI, r.CID.String(), r.Size}
	}
	for i, b := range purge.Blobs {
		view.Blobs[i] = purgeBlobID{b.CID.String(), b.Size}
	}
	for i, s := range purge.Steps {
		view.Steps[i] = purgeStepView{s.Name, migrations.FormatTime(s.At), s.Removed}
	}
	order := purgeStepNames()
	slices.SortStableFunc(view.Steps, func(a, b purgeStepView) int {
		return slices.Index(order, a.Step) - slices.Index(order, b.Step)
	})
	return view
}

type previewPurgeParams struct {
	Records   []string     `param:"records"`
	Blobs     []syntax.CID `param:"blobs"`
	WithBlobs bool         `param:"withBlobs"`
}

type previewPurgeOutput struct {
	Records []recordImpactView `json:"records"`
	Blobs   []blobImpactView   `json:"blobs"`
	Citing  []citingView       `json:"citing"`
	Steps   []string           `json:"steps"`
	Blocked string             `json:"blocked,omitempty"`
}

// recordImpactView is garden.herbarium.admin.previewPurge#recordImpact.
type recordImpactView struct {
	purgeRecordID
	Stands    bool           `json:"stands"`
	Events    int64          `json:"events"`
	Blobs     []string       `json:"blobs"`
	Copies    []syntax.ATURI `json:"copies"`
	CopyCount int64          `json:"copyCount"`
}

// blobImpactView is garden.herbarium.admin.previewPurge#blobImpact.
type blobImpactView struct {
	purgeBlobID
	Accounts   int64          `json:"accounts"`
	Others     []syntax.ATURI `json:"others"`
	OtherCount int64          `json:"otherCount"`
}

// citingView is garden.herbarium.admin.previewPurge#citing.
type citingView struct {
	URI   syntax.ATURI `json:"uri"`
	Cites syntax.ATURI `json:"cites"`
	Kind  string       `json:"kind"`
}

// Bounds of what previewPurge lists of one record.
const (
	mostVersions = 1000
	mostCiting   = 100
)

// previewPurge tells what a purge would touch, and changes nothing.
func (p *PDS) previewPurge(ctx context.Context, _ xrpc.Viewer, in previewPurgeParams) (*previewPurgeOutput, error) {
	blobs, err := parseBlobCIDs(in.Blobs)
	if err != nil {
		return nil, err
	}
	out := &previewPurgeOutput{Citing: []citingView{}, Steps: purgeStepNames()}
	var records []lexicons.StrongRef
	for _, name := range in.Records {
		versions, citing, err := p.versionsOf(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			if !slices.Contains(records, v) {
				records = append(records, v)
			}
		}
		out.Citing = append(out.Citing, citing...)
	}
	if len(records)+len(blobs) == 0 {
		return nil, xrpc.InvalidRequest("nothing is named, or no version of it is known; send records with # and their CID, or blobs")
	}
	impact, err := p.repos.PurgeImpact(ctx, records, blobs, in.WithBlobs)
	if err != nil {
		return nil, err
	}
	if blocked := impact.Blocked(); blocked != nil {
		out.Blocked = blocked.Error()
	}
	if out.Records, err = p.viewRecordImpacts(ctx, impact.Records); err != nil {
		return nil, err
	}
	out.Blobs = make([]blobImpactView, len(impact.Blobs))
	for i, b := range impact.Blobs {
		out.Blobs[i] = blobImpactView{purgeBlobID{b.CID.String(), b.Size}, b.Accounts, orEmpty(b.Others.URIs), b.Others.Total}
	}
	return out, nil
}

// versionsOf finds the versions of a record that are known here: what stands at
// its URI, what the index has seen, and the one that is named.
func (p *PDS) versionsOf(ctx context.Context, name string) (versions []lexicons.StrongRef, citing []citingView, err error) {
	raw, version, named := strings.Cut(name, "#")
	uri, err := syntax.ParseATURI(raw)
	if err != nil {
		return nil, nil, xrpc.InvalidRequest("records: %q is not an AT URI; send at://, its DID, collection and record key, and # with its CID for one version", name)
	}
	if _, err := recordSubject(uri); err != nil {
		return nil, nil, err
	}
	var cids []cid.Cid
	if named {
		c, err := parseCID("records", syntax.CID(version))
		if err != nil {
			return nil, nil, err
		}
		cids = append(cids, c)
	}
	stands, err := p.repos.Stands(ctx, uri)
	if err != nil {
		return nil, nil, err
	}
	if stands != nil {
		cids = append(cids, *stands)
	}
	if p.index != nil {
		known, err := p.index.PurgeImpact(ctx, uri, mostVersions)
		if err != nil {
			return nil, nil, err
		}
		cids = append(cids, known.Versions...)
		for _, c := range known.Citing[:min(len(known.Citing), mostCiting)] {
			citing = append(citing, citingView{c.URI, uri, c.Kind})
		}
	}
	for _, c := range cids {
		if v := (lexicons.StrongRef{URI: uri, CID: c}); !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	return versions, citing, nil
}

func (p *PDS) viewRecordImpacts(ctx context.Context, impacts []repostore.RecordImpact) ([]recordImpactView, error) {
	byDID := map[syntax.DID][]cid.Cid{}
	for _, r := range impacts {
		did, err := r.URI.Authority().AsDID()
		if err != nil {
			return nil, err
		}
		byDID[did] = append(byDID[did], r.CID)
	}
	events := map[cid.Cid]int64{}
	for did, cids := range byDID {
		counted, err := p.events.CountRecords(ctx, did, cids)
		if err != nil {
			return nil, err
		}
		for c, n := range counted {
			events[c] += n
		}
	}
	views := make([]recordImpactView, len(impacts))
	for i, r := range impacts {
		views[i] = recordImpactView{
			purgeRecordID: purgeRecordID{r.URI, r.CID.String(), r.Size}, Stands: r.Stands != nil && *r.Stands == r.CID, Events: events[r.CID],
			Blobs: make([]string, len(r.Blobs)), Copies: orEmpty(r.Copies.URIs), CopyCount: r.Copies.Total,
		}
		for j, c := range r.Blobs {
			views[i].Blobs[j] = c.String()
		}
	}
	return views, nil
}

func orEmpty(uris []syntax.ATURI) []syntax.ATURI {
	if uris == nil {
		return []syntax.ATURI{}
	}
	return uris
}

func parseBlobCIDs(raw []syntax.CID) ([]cid.Cid, error) {
	var cids []cid.Cid
	for _, text := range raw {
		c, err := parseCID("blobs", text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(cids, c) {
			cids = append(cids, c)
		}
	}
	return cids, nil
}

type purgeRecordInput struct {
	Records []purgeTarget `json:"records"`
	Blobs   []syntax.CID  `json:"blobs"`
	Reason  string        `json:"reason"`
}

// purgeTarget is com.atproto.repo.strongRef.
type purgeTarget struct {
	URI syntax.ATURI `json:"uri"`
	CID syntax.CID   `json:"cid"`
}

// purgeRecord removes records and blobs for good. Their CIDs are the operator's
// word that it is really these: what stands there must have them. Once the purge
// is in the log it is seen through, if not by this call, then by ResumePurges.
func (p *PDS) purgeRecord(ctx context.Context, v xrpc.Viewer, in purgeRecordInput) (*purgeView, error) {
	purge := repostore.Purge{ID: p.keys.Next(), At: p.now(), Actor: string(v.Kind), Reason: in.Reason}
	for _, target := range in.Records {
		if _, err := recordSubject(target.URI); err != nil {
			return nil, err
		}
		c, err := parseCID("records.cid", target.CID)
		if err != nil {
			return nil, err
		}
		if rec := (repostore.PurgedRecord{StrongRef: lexicons.StrongRef{URI: target.URI, CID: c}}); !slices.Contains(purge.Records, rec) {
			purge.Records = append(purge.Records, rec)
		}
	}
	blobs, err := parseBlobCIDs(in.Blobs)
	if err != nil {
		return nil, err
	}
	for _, c := range blobs {
		purge.Blobs = append(purge.Blobs, repostore.PurgedBlob{CID: c})
	}
	if len(purge.Records)+len(purge.Blobs) == 0 {
		return nil, xrpc.InvalidRequest("nothing is named; send records with their CIDs, or blobs")
	}
	if err := p.repos.BeginPurge(ctx, &purge); err != nil {
		return nil, err
	}
	if err := p.advance(ctx, false, purge.ID); err != nil {
		p.log.ErrorContext(ctx, "a purge is not complete yet; it goes on by itself", "purge", purge.ID, "err", err)
	}
	return p.viewPurge(context.WithoutCancel(ctx), purge.ID)
}

func (p *PDS) viewPurge(ctx context.Context, id syntax.TID) (*purgeView, error) {
	purge, err := p.repos.GetPurge(ctx, id)
	if err != nil {
		return nil, err
	}
	view := viewPurge(&purge)
	return &view, nil
}

type getPurgeParams struct {
	ID syntax.TID `param:"id"`
}

func (p *PDS) getPurge(ctx context.Context, _ xrpc.Viewer, in getPurgeParams) (*purgeView, error) {
	return p.viewPurge(ctx, in.ID)
}

type listPurgesOutput struct {
	Cursor string      `json:"cursor,omitempty"`
	Purges []purgeView `json:"purges"`
}

func (p *PDS) listPurges(ctx context.Context, _ xrpc.Viewer, in cursorParams) (*listPurgesOutput, error) {
	var before syntax.TID
	if in.Cursor != "" {
		var err error
		if before, err = xrpc.DecodeCursor[syntax.TID](listPurgesMethod, in.Cursor); err != nil {
			return nil, err
		}
	}
	purges, err := p.repos.Purges(ctx, before, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &listPurgesOutput{Purges: make([]purgeView, len(purges))}
	for i := range purges {
		out.Purges[i] = viewPurge(&purges[i])
	}
	if len(purges) == in.Limit {
		out.Cursor = xrpc.EncodeCursor(listPurgesMethod, purges[len(purges)-1].ID)
	}
	return out, nil
}

type applyPurgesInput struct {
	Receipts []string `json:"receipts"`
}

type applyPurgesOutput struct {
	Purges []appliedPurge `json:"purges"`
}

// appliedPurge is garden.herbarium.admin.applyPurges#applied.
type appliedPurge struct {
	ID    syntax.TID `json:"id"`
	Fresh bool       `json:"fresh"`
}

// applyPurges gives a database that was restored the log of purges again.
func (p *PDS) applyPurges(ctx context.Context, _ xrpc.Viewer, in applyPurgesInput) (*applyPurgesOutput, error) {
	key, err := p.accounts.HostKey(ctx)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, err
	}
	receipts := make([]*Receipt, len(in.Receipts))
	for i, text := range in.Receipts {
		if receipts[i], err = VerifyReceipt(text, public); err != nil {
			return nil, xrpc.InvalidRequest("receipts[%d]: %v", i, err)
		}
	}
	fresh, err := p.admit(ctx, receipts)
	if err != nil {
		return nil, err
	}
	out := &applyPurgesOutput{Purges: make([]appliedPurge, len(receipts))}
	for i, r := range receipts {
		out.Purges[i] = appliedPurge{r.ID, fresh[r.ID]}
	}
	return out, nil
}
