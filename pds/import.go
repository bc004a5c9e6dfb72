package pds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"

	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/repostore"
)

// importPatience is how long a client may take for a whole CAR. While it sends,
// it keeps one of the few places for imports.
const importPatience = 10 * time.Minute

// importRepo makes the caller's repo what the CAR says, or nothing of it: a
// migration to this host, or a restore. The account is deactivated, as a rule.
// What stood here under protection and is another there refuses the whole.
func (p *PDS) importRepo(ctx context.Context, call *xrpc.Call, body io.Reader) (*xrpc.None, error) {
	v := call.Viewer
	if err := mayManageRepo(v); err != nil {
		return nil, err
	}
	keys, err := p.commitKeys(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	// A writer that knows no deadline, as a test's recorder, does without.
	connection := http.NewResponseController(call.Writer)
	_ = connection.SetReadDeadline(time.Now().Add(importPatience))
	defer func() { _ = connection.SetReadDeadline(time.Time{}) }()
	policy, err := p.repoPolicy(ctx, v.DID)
	if err != nil {
		return nil, err
	}
	unfit := unfitRecords{catalog: p.library.Current().Catalog, did: v.DID}
	result, err := p.repos.Import(ctx, v.DID, body, repostore.ImportOptions{
		Keys: keys,
		Announce: func(ctx context.Context, tx *gorm.DB) (bool, error) {
			a, err := p.accounts.GetTx(ctx, tx, v.DID)
			return a.Active(), err
		},
		Policy: policy,
		Remark: unfit.judge,
	})
	if err != nil {
		return nil, bodyError(err)
	}
	p.log.InfoContext(ctx, "imported repo", "did", v.DID, "created", result.Created, "updated", result.Updated, "deleted", result.Deleted,
		"unfit", unfit.count, "unfitFirst", unfit.first)
	return &xrpc.None{}, nil
}

// bodyError says what reading the body ran into, if that is what happened.
func bodyError(err error) error {
	if answered := (*xrpc.Error)(nil); errors.As(err, &answered) {
		return answered // over the limit, or no gzip
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return xrpc.InvalidRequest("the CAR took longer than %s; send it over a faster connection", importPatience)
	}
	return err
}

// commitKeys are the keys that may have signed a repo of the DID: the one that
// signs here, the one in its document now, as the world sees it, and those that
// its PLC log has named before. Who moves may point the document here first and
// bring the repo after, and a backup may be older than a change of keys.
func (p *PDS) commitKeys(ctx context.Context, did syntax.DID) ([]atcrypto.PublicKey, error) {
	own, err := p.accounts.SigningKey(ctx, did)
	if err != nil {
		return nil, err
	}
	ours, err := own.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("public key of %s: %w", did, err)
	}
	keys := []atcrypto.PublicKey{ours}
	if err := p.directory.Purge(ctx, did.AtIdentifier()); err != nil {
		return nil, fmt.Errorf("purge identity %s: %w", did, err)
	}
	// The document or the log may be out of reach just now; an export of this host needs neither.
	if ident, err := p.directory.LookupDID(ctx, did); err != nil {
		p.log.WarnContext(ctx, "import: the DID document cannot be read", "did", did, "error", err)
	} else if named, err := ident.PublicKey(); err == nil {
		keys = append(keys, named)
	}
	logged, err := p.accounts.LoggedKeys(ctx, did)
	if err != nil {
		p.log.WarnContext(ctx, "import: the PLC log cannot be read", "did", did, "error", err)
	}
	return append(keys, logged...), nil
}

// unfitRecords counts the imported records that do not match their lexicon.
// They come in all the same, and the index quarantines them: refusing them
// would keep a whole repo out for what is in it already.
type unfitRecords struct {
	catalog *lexicons.Catalog
	did     syntax.DID
	count   int
	first   []syntax.ATURI // a few, for the log
}

const namedUnfit = 5

func (u *unfitRecords) judge(record *lexicons.Record, rkey syntax.RecordKey) {
	if _, err := u.catalog.Validate(record, rkey, lexicons.ValidateKnown); err == nil {
		return
	}
	if u.count++; u.count <= namedUnfit {
		u.first = append(u.first, syntax.ATURI(fmt.Sprintf("at://%s/%s/%s", u.did, record.Collection, rkey)))
	}
}
