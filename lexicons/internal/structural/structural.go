package structural

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Module is the module that carries the com.atproto.* lexicons.
const Module = "github.com/bluesky-social/indigo"

// Wanted lists the com.atproto.* lexicons that this project serves or refers
// to. What they refer to is taken along without being named.
var Wanted = []string{
	"com.atproto.admin.deleteAccount",
	"com.atproto.admin.disableAccountInvites",
	"com.atproto.admin.disableInviteCodes",
	"com.atproto.admin.enableAccountInvites",
	"com.atproto.admin.getAccountInfo",
	"com.atproto.admin.getAccountInfos",
	"com.atproto.admin.getInviteCodes",
	"com.atproto.admin.getSubjectStatus",
	"com.atproto.admin.updateAccountEmail",
	"com.atproto.admin.updateAccountHandle",
	"com.atproto.admin.updateAccountPassword",
	"com.atproto.admin.updateSubjectStatus",
	"com.atproto.identity.getRecommendedDidCredentials",
	"com.atproto.identity.requestPlcOperationSignature",
	"com.atproto.identity.resolveHandle",
	"com.atproto.identity.signPlcOperation",
	"com.atproto.identity.submitPlcOperation",
	"com.atproto.identity.updateHandle",
	"com.atproto.label.defs",
	"com.atproto.lexicon.schema",
	"com.atproto.repo.applyWrites",
	"com.atproto.repo.createRecord",
	"com.atproto.repo.deleteRecord",
	"com.atproto.repo.describeRepo",
	"com.atproto.repo.getRecord",
	"com.atproto.repo.importRepo",
	"com.atproto.repo.listMissingBlobs",
	"com.atproto.repo.listRecords",
	"com.atproto.repo.putRecord",
	"com.atproto.repo.strongRef",
	"com.atproto.repo.uploadBlob",
	"com.atproto.server.activateAccount",
	"com.atproto.server.checkAccountStatus",
	"com.atproto.server.createAccount",
	"com.atproto.server.createAppPassword",
	"com.atproto.server.createInviteCode",
	"com.atproto.server.createInviteCodes",
	"com.atproto.server.createSession",
	"com.atproto.server.deactivateAccount",
	"com.atproto.server.deleteAccount",
	"com.atproto.server.deleteSession",
	"com.atproto.server.describeServer",
	"com.atproto.server.getAccountInviteCodes",
	"com.atproto.server.getServiceAuth",
	"com.atproto.server.getSession",
	"com.atproto.server.listAppPasswords",
	"com.atproto.server.refreshSession",
	"com.atproto.server.requestAccountDelete",
	"com.atproto.server.reserveSigningKey",
	"com.atproto.server.revokeAppPassword",
	"com.atproto.sync.getBlob",
	"com.atproto.sync.getBlocks",
	"com.atproto.sync.getCheckout",
	"com.atproto.sync.getHead",
	"com.atproto.sync.getLatestCommit",
	"com.atproto.sync.getRecord",
	"com.atproto.sync.getRepo",
	"com.atproto.sync.getRepoStatus",
	"com.atproto.sync.listBlobs",
	"com.atproto.sync.listRepos",
	"com.atproto.sync.requestCrawl",
	"com.atproto.sync.subscribeRepos",
	"com.atproto.temp.checkSignupQueue",
}

// ModuleDir asks the go command where the pinned module is.
func ModuleDir() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", Module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", Module, err)
	}
	dir := strings.TrimSpace(string(out))
	if dir == "" {
		return "", fmt.Errorf("find module %s: not in the module cache; run go mod download", Module)
	}
	return dir, nil
}

// Files answers every wanted lexicon and all that they refer to, by path below
// the lexicons folder, in the form in which they are kept here.
func Files(moduleDir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	queue := slices.Clone(Wanted)
	for len(queue) > 0 {
		nsid := queue[0]
		queue = queue[1:]
		path := filepath.FromSlash(strings.ReplaceAll(nsid, ".", "/")) + ".json"
		if _, done := files[path]; done {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(moduleDir, "lexicons", path))
		if err != nil {
			return nil, fmt.Errorf("read lexicon %s: %w", nsid, err)
		}
		var schema any
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		if err := dec.Decode(&schema); err != nil {
			return nil, fmt.Errorf("parse lexicon %s: %w", nsid, err)
		}
		queue = append(queue, strip(schema)...)
		kept, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("write lexicon %s: %w", nsid, err)
		}
		files[path] = append(kept, '\n')
	}
	return files, nil
}

// strip removes the description texts below node and answers the NSIDs of the
// schemas that it refers to. A property that is itself called "description"
// holds an object, not a text, and stays.
func strip(node any) (refs []string) {
	switch v := node.(type) {
	case map[string]any:
		if _, text := v["description"].(string); text {
			delete(v, "description")
		}
		switch v["type"] {
		case "ref":
			refs = appendRef(refs, v["ref"])
		case "union":
			for _, ref := range asList(v["refs"]) {
				refs = appendRef(refs, ref)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			refs = append(refs, strip(v[key])...)
		}
	case []any:
		for _, item := range v {
			refs = append(refs, strip(item)...)
		}
	}
	return refs
}

func appendRef(refs []string, ref any) []string {
	s, _ := ref.(string)
	nsid, _, _ := strings.Cut(s, "#")
	if nsid == "" {
		return refs
	}
	return append(refs, nsid)
}

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}
