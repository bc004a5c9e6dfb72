package repostore_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bluesky-social/indigo/atproto/syntax"
	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
	"herbarium.garden/pds/repostore"
)

var rewrite = flag.Bool("update", false, "write the examples of codes in lexicons/testdata/findings anew")

// refusedWith makes one write that has a code, and one that has it not.
type refusedWith struct {
	says string
	try  func(h *host, did syntax.DID) (has, not error)
}

func writing(policy repostore.Policy, has, not func(t testing.TB) []repostore.Write) func(*host, syntax.DID) (error, error) {
	return func(h *host, did syntax.DID) (error, error) {
		_, refused := h.Apply(h.t.Context(), did, has(h.t), repostore.Options{Policy: policy})
		_, taken := h.Apply(h.t.Context(), did, not(h.t), repostore.Options{Policy: policy})
		return refused, taken
	}
}

// codeExamples has one for each code that only a host finds.
var codeExamples = map[string]refusedWith{
	lexicons.CodeCollectionDenied: {"A record of `com.example.log`, by an account that may write `com.example.note` alone.",
		writing(repostore.Policy{Collections: []syntax.NSID{noteNSID}},
			func(t testing.TB) []repostore.Write { return []repostore.Write{create(tid(5), logged(t, "x"))} },
			func(t testing.TB) []repostore.Write { return []repostore.Write{create(tid(5), note(t, "x"))} })},
	lexicons.CodeCreateOnly: {"A delete of a record of `com.example.note`, by an account that may only create them.",
		writing(repostore.Policy{CreateOnly: []syntax.NSID{noteNSID}},
			func(testing.TB) []repostore.Write { return []repostore.Write{remove(noteNSID, tid(1))} },
			func(t testing.TB) []repostore.Write { return []repostore.Write{create(tid(5), note(t, "x"))} })},
	lexicons.CodeRecordQuota: {"Two records, by an account that has one and may hold two.",
		writing(repostore.Policy{MaxRecords: number(2)},
			func(t testing.TB) []repostore.Write {
				return []repostore.Write{create(tid(5), note(t, "x")), create(tid(6), note(t, "y"))}
			},
			func(t testing.TB) []repostore.Write { return []repostore.Write{create(tid(5), note(t, "x"))} })},
	lexicons.CodeBlobQuota: {"An upload of 9 bytes, by an account that may hold 8.", func(h *host, did syntax.DID) (error, error) {
		policy := repostore.Policy{MaxBlobBytes: number(8)}
		_, refused := h.AddBlob(h.t.Context(), did, blobOf(h.t, "nine byte"), policy)
		_, taken := h.AddBlob(h.t.Context(), did, blobOf(h.t, "8 bytes!"), policy)
		return refused, taken
	}},
}

// TestCodesOfTheHost: every code that only a host finds refuses a write as its
// entry says, and another is taken. What is answered is the example in
// docs/findings.md.
func TestCodesOfTheHost(t *testing.T) {
	dbtest.Each(t, migrations.PDS, func(t *testing.T, db *migrations.DB) {
		h := newHost(t, db)
		for i, entry := range lexicons.Codebook() {
			if entry.Stage != lexicons.StageHost || entry.Code == lexicons.CodeBatchReplacesAll {
				continue // a guard: no batch is known that has it
			}
			example, ok := codeExamples[entry.Code]
			require.True(t, ok, "no example of %s", entry.Code)
			did := h.account(fmt.Sprint("scout", i))
			h.apply(did, create(tid(1), note(t, "a note")))
			refused, taken := example.try(h, did)
			require.NoError(t, taken, entry.Code)
			found := requireRefusal(t, entry.RefusalNames()[0], refused).Findings[0]
			require.Equal(t, entry.Code, found.Code)
			require.True(t, entry.AtHost(found), "the entry says otherwise: %+v", found)
			if entry.Code == lexicons.CodeCreateOnly {
				found.Message = strings.ReplaceAll(found.Message, string(did), "did:web:scout.test")
			}
			keepExample(t, "../../lexicons/testdata/findings/"+entry.Code+".json", example.says, found)
		}
	})
}

// keepExample compares an example of a code with the one that documents are made of.
func keepExample(t *testing.T, file, says string, found lexicons.Finding) {
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(t, encoder.Encode(map[string]any{"Shows": says, "Finding": found}))
	if *rewrite {
		require.NoError(t, os.WriteFile(file, want.Bytes(), 0o644))
	}
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want.String(), string(kept), "go test . -run TestCodesOfTheHost -update")
}
