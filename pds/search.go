package pds

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ipfs/go-cid"

	"herbarium.garden/blobstore"
	"herbarium.garden/lexicons"
	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/migrations"
	"herbarium.garden/pds/repostore"
)

const (
	listBlobSecretsMethod = "garden.herbarium.admin.listBlobSecrets"

	searchLease = "secrets"
	searchPage  = 100
)

// SearchBlobs looks for credentials in the blobs that were not searched yet by
// what the rules know now: all of their bytes, of which a write waits for the
// first MiB alone, whatever record refers to them. What is found is kept and
// listed (listBlobSecrets), and what is surely a credential is told loudly:
// nothing is taken away. It ends when no blob is left, or at once when the
// operator wants no secrets to be looked for. Of several processes one does it
// at a time.
func (p *PDS) SearchBlobs(ctx context.Context) error {
	if !p.library.Current().Rules.LooksForSecrets() {
		return nil
	}
	err := p.atPace(ctx, searchLease, func(at pacer) error {
		s := searcher{PDS: p, pacer: at}
		return s.run(ctx)
	})
	if err != nil {
		return fmt.Errorf("search blobs for secrets: %w", err)
	}
	return nil
}

// searcher is a search under way.
type searcher struct {
	*PDS
	pacer
	failures int // in a row
}

func (s *searcher) run(ctx context.Context) error {
	var last repostore.UnsearchedObject
	for {
		page, err := s.repos.UnsearchedObjects(ctx, lexicons.SecretsEdition, last, searchPage)
		if err != nil {
			return err
		}
		for _, o := range page {
			if err := s.search(ctx, o.CID); err != nil {
				return err
			}
		}
		if len(page) < searchPage {
			return nil
		}
		last = page[len(page)-1]
	}
}

func (s *searcher) search(ctx context.Context, c cid.Cid) error {
	found, err := s.secretsIn(ctx, c)
	switch {
	case errors.Is(err, blobstore.ErrNotFound):
		return nil // the scrub tells of it
	case ctx.Err() != nil || errors.Is(err, errLeaseLost):
		return err
	case err != nil:
		// The others may be readable. It comes again.
		s.log.WarnContext(ctx, "a blob could not be read to be searched for secrets", "cid", c, "err", err)
		if s.failures++; s.failures == scrubFailures {
			return err
		}
		return nil
	}
	s.failures = 0
	fresh, err := s.repos.ObjectSearched(ctx, c, lexicons.SecretsEdition, found)
	if err != nil {
		return err
	}
	for _, f := range fresh {
		if f.Sure {
			s.alarm(ctx, "a blob holds a credential; revoke it where it was issued, then purge the blob",
				c, fmt.Errorf("%s at byte %d", f.Rule, f.Position))
		}
	}
	return nil
}

// secretsIn reads a blob and answers the first place for each rule.
func (s *searcher) secretsIn(ctx context.Context, c cid.Cid) ([]repostore.BlobSecret, error) {
	if err := s.pace(ctx, 0); err != nil {
		return nil, err
	}
	blob, err := s.blobs.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	defer blob.Close()
	secrets, err := lexicons.ScanSecrets(readerFunc(func(buf []byte) (int, error) {
		n, err := blob.Read(buf[:min(len(buf), readBurst)])
		if late := s.pace(ctx, n); late != nil {
			return n, late
		}
		return n, err
	}))
	var found []repostore.BlobSecret
	seen := map[string]bool{}
	for _, secret := range secrets {
		if !seen[secret.Rule] {
			found = append(found, repostore.BlobSecret{CID: c, Rule: secret.Rule, Sure: secret.Sure, Position: secret.Start})
		}
		seen[secret.Rule] = true
	}
	return found, err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(buf []byte) (int, error) { return f(buf) }

var _ io.Reader = readerFunc(nil)

type listBlobSecretsParams struct {
	Limit  int    `param:"limit"`
	Cursor string `param:"cursor"`
}

// blobSecretView is garden.herbarium.admin.listBlobSecrets#secret.
type blobSecretView struct {
	CID         string   `json:"cid"`
	Rule        string   `json:"rule"`
	Kind        string   `json:"kind"`
	Sure        bool     `json:"sure"`
	Position    int64    `json:"position"`
	FoundAt     string   `json:"foundAt"`
	Records     []string `json:"records"`
	RecordCount int64    `json:"recordCount"`
}

type listBlobSecretsOutput struct {
	Cursor  string           `json:"cursor,omitempty"`
	Secrets []blobSecretView `json:"secrets"`
}

func (p *PDS) listBlobSecrets(ctx context.Context, _ xrpc.Viewer, in listBlobSecretsParams) (*listBlobSecretsOutput, error) {
	var after repostore.SecretPosition
	if in.Cursor != "" {
		var err error
		if after, err = xrpc.DecodeCursor[repostore.SecretPosition](listBlobSecretsMethod, in.Cursor); err != nil {
			return nil, err
		}
	}
	page, next, err := p.repos.ListBlobSecrets(ctx, after, in.Limit)
	if err != nil {
		return nil, err
	}
	kinds := map[string]string{}
	for _, rule := range lexicons.SecretRules() {
		kinds[rule.ID] = rule.Kind
	}
	out := &listBlobSecretsOutput{Secrets: make([]blobSecretView, len(page))}
	for i, f := range page {
		evidence, err := p.repos.Evidence(ctx, f.CID, namedRecords)
		if err != nil {
			return nil, err
		}
		view := blobSecretView{
			CID: f.CID.String(), Rule: f.Rule, Kind: kinds[f.Rule], Sure: f.Sure, Position: f.Position, FoundAt: migrations.FormatTime(f.FoundAt),
			Records: make([]string, len(evidence.Records)), RecordCount: evidence.Total,
		}
		for j, uri := range evidence.Records {
			view.Records[j] = uri.String()
		}
		out.Secrets[i] = view
	}
	if next.FoundAt != "" {
		out.Cursor = xrpc.EncodeCursor(listBlobSecretsMethod, next)
	}
	return out, nil
}
