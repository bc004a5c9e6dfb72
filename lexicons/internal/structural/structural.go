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
	"com.atproto.server.requestPasswordReset",
	"com.atproto.server.reserveSigningKey",
	"com.atproto.server.resetPassword",
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

// Reached lists methods of other namespaces that this project serves. Of the
// files that they refer to only the definitions that they reach are taken
// along: such a file is shorter than the module's.
var Reached = []string{
	"app.bsky.actor.getPreferences",
	"app.bsky.actor.putPreferences",
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
	kept := map[string]map[string]bool{} // by NSID: the definitions that are taken, nil for all of them
	files := map[string][]byte{}
	for queue := append(slices.Clone(Reached), Wanted...); len(queue) > 0; queue = queue[1:] {
		nsid, name, _ := strings.Cut(queue[0], "#")
		if whole(nsid) {
			if _, done := kept[nsid]; done {
				continue
			}
			kept[nsid] = nil
		} else {
			if name == "" {
				name = "main"
			}
			if kept[nsid][name] {
				continue
			}
			if kept[nsid] == nil {
				kept[nsid] = map[string]bool{}
			}
			kept[nsid][name] = true
		}
		schema, err := read(moduleDir, nsid)
		if err != nil {
			return nil, err
		}
		if defs, ok := schema["defs"].(map[string]any); ok && kept[nsid] != nil {
			queue = append(queue, refs(defs[name], nsid)...)
			maps.DeleteFunc(defs, func(name string, _ any) bool { return !kept[nsid][name] })
		} else {
			queue = append(queue, refs(schema, nsid)...)
		}
		strip(schema)
		out, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("write lexicon %s: %w", nsid, err)
		}
		files[path(nsid)] = append(out, '\n')
	}
	return files, nil
}

// whole reports whether files of the lexicon's namespace are taken as a whole.
func whole(nsid string) bool { return strings.HasPrefix(nsid, "com.atproto.") }

func path(nsid string) string {
	return filepath.FromSlash(strings.ReplaceAll(nsid, ".", "/")) + ".json"
}

func read(moduleDir, nsid string) (map[string]any, error) {
	raw, err := os.ReadFile(filepath.Join(moduleDir, "lexicons", path(nsid)))
	if err != nil {
		return nil, fmt.Errorf("read lexicon %s: %w", nsid, err)
	}
	var schema map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&schema); err != nil {
		return nil, fmt.Errorf("parse lexicon %s: %w", nsid, err)
	}
	return schema, nil
}

// strip removes the description texts below node. A property that is itself
// called "description" holds an object, not a text, and stays.
func strip(node any) {
	switch v := node.(type) {
	case map[string]any:
		if _, text := v["description"].(string); text {
			delete(v, "description")
		}
		for _, below := range v {
			strip(below)
		}
	case []any:
		for _, item := range v {
			strip(item)
		}
	}
}

// refs answers what node, of the lexicon nsid, refers to, as nsid#definition.
func refs(node any, nsid string) (found []string) {
	add := func(ref any) {
		if s, ok := ref.(string); ok && strings.HasPrefix(s, "#") {
			found = append(found, nsid+s)
		} else if ok {
			found = append(found, s)
		}
	}
	switch v := node.(type) {
	case map[string]any:
		switch v["type"] {
		case "ref":
			add(v["ref"])
		case "union":
			for _, ref := range asList(v["refs"]) {
				add(ref)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = append(found, refs(v[key], nsid)...)
		}
	case []any:
		for _, item := range v {
			found = append(found, refs(item, nsid)...)
		}
	}
	return found
}

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}
