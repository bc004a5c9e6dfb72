package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// proofs are the tests that prove what records mean, by what they prove: each
// is a package and the name of a test in it, and after a slash the name of one
// of its cases.
var proofs = map[string][]string{
	"edit by each back door":                {"pds/repostore TestBackDoorsAreClosed/putRecord", "pds/repostore TestBackDoorsAreClosed/applyWrites update", "pds/repostore TestBackDoorsAreClosed/delete and create in one batch", "pds/repostore TestBackDoorsAreClosed/re-creating the account", "pds/repostore TestImportAltersNoObservation", "pds TestTheBackDoorsAreClosed", "appview/index TestEditAndReuseKeepWhatWasFirstSeen", "appview TestOtherVersionsAreListedWithTheirCommits"},
	"identical put":                         {"pds/repostore TestBackDoorsAreClosed/identical put is a no-op"},
	"rkey reuse after delete":               {"pds/repostore TestBackDoorsAreClosed/delete, then create"},
	"fork race":                             {"pds/repostore TestForkRace", "cmd/herbarium TestForkRaceThroughAtprotoAPI"},
	"out-of-order arrival":                  {"appview/index TestStateDoesNotDependOnArrival", "appview/index TestFindingsDoNotDependOnArrival"},
	"random chains, forks and cycles":       {"appview/index TestHeadsAgreeWithAModel", "appview/index TestTrustDoesNotDependOnWhenItIsGiven", "pds/repostore TestChainHeadEndsOnCycles"},
	"a long chain":                          {"appview/index TestLongChainStaysFlat", "pds/repostore TestLongChain"},
	"cid mismatch and commit-cid":           {"pds/repostore TestSupersedesChain", "appview TestEveryStateOfAReference"},
	"span on 4-byte emoji boundaries":       {"lexicons TestCorpus/span starts inside an emoji", "lexicons TestCorpus/span ends inside an emoji", "lexicons TestQuoteInText/range starts inside a 4-byte emoji"},
	"repeated hits of a quote":              {"lexicons TestQuoteInText/repeated hits decided by prefix", "lexicons TestQuoteInText/repeated hits decided by suffix", "lexicons TestQuoteInText/repeated hits, undecidable"},
	"JSON pointers":                         {"lexicons TestPointerCitations"},
	"graphemes and bytes at the edge":       {"lexicons TestValidateFindsPaths/10,001 graphemes", "lexicons TestValidateFindsPaths/a family is one grapheme", "lexicons TestValidateFindsPaths/method of 257 bytes"},
	"withheld turn with content":            {"appview/index TestWithheldTurnWithContentIsStripped", "appview TestWithheldMessageCitesNothing", "appview TestWordsThatWereTakenAwayAreServedNowhere"},
	"foreign turn injection":                {"appview TestConversationView", "appview TestWordsThatWereTakenAwayAreServedNowhere"},
	"handle-authority session uri":          {"lexicons TestCorpus/session by handle"},
	"title fallback":                        {"appview TestConversationView"},
	"class diamond and duplicate skills":    {"appview TestClassDiamondAndDuplicateSkills"},
	"three levels with a stale middle":      {"appview TestClassThreeLevelsWithStaleMiddle"},
	"self parent":                           {"appview TestClassSelfParent"},
	"cycle by edit":                         {"appview TestClassCycleByEdit"},
	"skill without content":                 {"appview TestSkillWithoutContent"},
	"undeclared tools kept":                 {"appview TestUndeclaredToolsAreKept"},
	"session rkey charset":                  {"lexicons TestRecordKeyTypes"},
	"future updatedAt cannot pin the top":   {"appview/index TestFutureUpdatedAtDoesNotPinTheTop"},
	"userinfo in remotes":                   {"appview/index TestRepoKey", "appview TestMaskCredentials"},
	"blob hash re-check after tampering":    {"blobstore TestVerifyFindsDamage", "pds TestOneFlippedBit"},
	"purge leaves no bytes":                 {"pds TestPurge", "cmd/herbarium TestAfterAPurgeASearchFindsNothing"},
	"rebuild gives identical views":         {"appview/index TestReindexGivesTheSame", "appview/index TestRevalidationEndsWhereReindexDoes"},
	"other hosts' edits, and their commits": {"appview TestOtherVersionsAreListedWithTheirCommits"},
}

// What the meaning of records rests on is tested, under names that are found:
// a test that is renamed or dropped takes its line here along.
func TestSemantics(t *testing.T) {
	for what, tests := range proofs {
		t.Run(what, func(t *testing.T) {
			for _, test := range tests {
				dir, name, _ := strings.Cut(test, " ")
				name, part, _ := strings.Cut(name, "/")
				text := testsOf(t, filepath.Join("..", "..", dir))
				at := strings.Index(text, "\nfunc "+name+"(")
				require.GreaterOrEqual(t, at, 0, "no %s in %s", name, dir)
				if part != "" {
					require.Contains(t, text, `"`+part+`"`, "no case %q of %s in %s", part, name, dir)
				}
			}
		})
	}
}

// testsOf is the text of the tests of a package, and of the cases that it keeps in files.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	cases, err := filepath.Glob(filepath.Join(dir, "testdata", "corpus", "*.json"))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range append(files, cases...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
