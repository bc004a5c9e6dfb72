package lexicons_test

import (
	"fmt"
	"strings"
	"testing"

	"herbarium.garden/lexicons"
)

// examples has one for each code that this package finds. The page
// docs/findings.md is made of them, and of those that the other rooms keep in
// testdata/findings.
var examples = map[string]example{
	lexicons.CodeTooLarge:       {json: `{"text":"` + strings.Repeat("x", lexicons.MaxRecordJSON) + `"}`, fine: `{"text":"x"}`},
	lexicons.CodeTooDeep:        {json: nested(lexicons.MaxDepth + 1), fine: nested(lexicons.MaxDepth)},
	lexicons.CodeJSONSyntax:     {json: `{"text":"a",}`, fine: `{"text":"a"}`},
	lexicons.CodeCBORSyntax:     {cbor: "a1"},
	lexicons.CodeNotCanonical:   {cbor: "b801652474797065" + "70636f6d2e6578616d706c652e6e6f7465"},
	lexicons.CodeInvalidUTF8:    {json: `{"text":"\ud83c"}`, fine: `{"text":"\ud83c\udf31"}`},
	lexicons.CodeDuplicateKey:   {json: `{"text":"a","text":"b"}`, fine: `{"text":"a"}`},
	lexicons.CodeFloat:          {json: `{"weight":1.5}`, fine: `{"weight":1.0}`},
	lexicons.CodeIntegerRange:   {json: `{"count":9007199254740992}`, fine: `{"count":9007199254740991}`},
	lexicons.CodeNotAnObject:    {json: `["a"]`, fine: `{"list":["a"]}`},
	lexicons.CodeTypeMalformed:  {json: `{"$type":7}`, fine: `{"$type":"com.example.note"}`},
	lexicons.CodeTypeMismatch:   {json: `{"$type":"com.example.other"}`, fine: `{"$type":"com.example.note"}`},
	lexicons.CodeLinkMalformed:  {json: `{"of":{"$link":"QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG"}}`, fine: `{"of":{"$link":"` + dataCID + `"}}`},
	lexicons.CodeBytesMalformed: {json: `{"raw":{"$bytes":"_-_-"}}`, fine: `{"raw":{"$bytes":"YQ"}}`},
	lexicons.CodeBlobMalformed: {json: `{"content":{"$type":"blob","ref":{"$link":"` + blobCID + `"},"mimeType":"text/plain","size":-1}}`,
		fine: `{"content":{"$type":"blob","ref":{"$link":"` + blobCID + `"},"mimeType":"text/plain","size":1}}`},
	lexicons.CodeReservedName: {cbor: "a2626f66a1652" + "46c696e6b6161" + "652474797065" + "70636f6d2e6578616d706c652e6e6f7465"},

	lexicons.CodeInvalidRecord:      {has: map[string]any{"text": 7}},
	lexicons.CodeInvalidRecordKey:   {has: map[string]any{}, rkey: "first"},
	lexicons.CodeUnknownLexicon:     {of: "com.example.note", has: map[string]any{"text": "a"}, mode: lexicons.ValidateRequired},
	lexicons.CodeValidationRequired: {has: map[string]any{}, mode: lexicons.ValidateSkip},

	lexicons.CodeBlobCodec: {has: map[string]any{"content": map[string]any{"$type": "blob", "ref": map[string]any{"$link": dataCID}, "mimeType": "text/plain", "size": 5}},
		not: map[string]any{"content": blobValue("text/plain", 5)}, notStands: uploaded("text/plain", 5)},
	lexicons.CodeLegacyBlob:      {has: map[string]any{"extra": map[string]any{"cid": blobCID, "mimeType": "text/plain"}}},
	lexicons.CodeBlobNotFound:    {has: map[string]any{"content": blobValue("text/plain", 5)}, not: map[string]any{"content": blobValue("text/plain", 5)}, notStands: uploaded("text/plain", 5)},
	lexicons.CodeBlobMismatch:    {has: map[string]any{"content": blobValue("text/html", 5)}, not: map[string]any{"content": blobValue("text/plain", 5)}, stands: uploaded("text/plain", 5)},
	lexicons.CodeBlobTooLarge:    {has: map[string]any{"content": blobValue("text/plain", 5)}, not: map[string]any{"content": blobValue("text/plain", 5)}, stands: uploaded("text/plain", 5), settings: lexicons.Settings{BlobLimit: 4}},
	lexicons.CodeSecretDetected:  {has: map[string]any{"text": "the key is " + awsKey}, not: map[string]any{"text": "the key is in the drawer"}, hide: awsKey},
	lexicons.CodeSecretSuspected: {has: map[string]any{"text": "the token is " + unsignedJWT}, not: map[string]any{"text": "the token is in the drawer"}, hide: unsignedJWT},
	lexicons.CodeCredentialInURL: {has: source("url", "https://user:pw@example.org/seeds"), not: source("url", "https://example.org/seeds"), hide: "user:pw"},
	lexicons.CodeFuture:          {has: map[string]any{"createdAt": "2026-02-25T00:01:00Z"}},
	lexicons.CodeTimeOrder:       {of: lexicons.SessionNSID, has: map[string]any{"startedAt": "2026-02-24T00:00:01Z"}},
	lexicons.CodeUnknownValue:    {has: source("dream", "of seeds"), not: source("human", "the gardener")},
	lexicons.CodeRefMalformed:    {has: map[string]any{"supersedes": strongRef("at://scout.test/garden.engram.agents.observation/" + tid1)}, stands: superseding(nil)},
	lexicons.CodeRefMissing:      {of: lexicons.ClassNSID, has: map[string]any{}, notStands: skilled("skills", nil)},
	lexicons.CodeRefDrift: {of: lexicons.ClassNSID, has: map[string]any{}, notStands: skilled("skills", nil), stands: func(t testing.TB, w *world) map[string]any {
		w.put(t, lexicons.SkillNSID, tid1, skill)
		return nil
	}},
	lexicons.CodeRunImplausible: {has: map[string]any{"generator": map[string]any{"run": "3j2eyd2a22222"}}},
	lexicons.CodeEmptyText:      {has: map[string]any{"text": ""}},

	lexicons.CodeEdited: {before: map[string]any{}, has: map[string]any{"text": "BSD"}},
	lexicons.CodeRkeyReused: {has: map[string]any{}, stands: func(_ testing.TB, w *world) map[string]any {
		w.bury(uriOf(lexicons.ObservationNSID, tid2))
		return nil
	}, notStands: func(testing.TB, *world) map[string]any { return nil }},
	lexicons.CodeEmptyMethod:      {has: map[string]any{"method": ""}},
	lexicons.CodeEmptySourceValue: {has: source("command", "")},
	lexicons.CodeSourceMalformed:  {has: source("url", "/seeds"), not: source("url", "https://example.org/seeds")},
	lexicons.CodeTIDSkew:          {has: map[string]any{}, rkey: "3mfc222222222"},
	lexicons.CodeTextNotPrefix:    {has: map[string]any{"text": "Linux", "content": blobValue("text/plain", 3)}, not: map[string]any{"content": blobValue("text/plain", 5)}, content: "BSD", stands: uploaded("text/plain", 3), notStands: uploaded("text/plain", 5)},
	lexicons.CodeTruncated:        {has: map[string]any{"text": "Linux", "content": blobValue("text/plain", 9)}, not: map[string]any{"content": blobValue("text/plain", 5)}, content: "Linux 7.0", stands: uploaded("text/plain", 9), notStands: uploaded("text/plain", 5)},

	lexicons.CodeSupersedesWrongType:   {has: map[string]any{"supersedes": strongRef("at://" + string(author) + "/garden.engram.session/work")}, not: newer, notStands: superseding(nil)},
	lexicons.CodeSupersedesSelf:        {has: map[string]any{"supersedes": strongRef(observationURI(tid2))}, not: newer, notStands: superseding(nil)},
	lexicons.CodeSupersedesDangling:    {has: map[string]any{"supersedes": strongRef(observationURI(tid1))}, not: newer, notStands: superseding(nil)},
	lexicons.CodeSupersedesCIDMismatch: {has: edit(newer, map[string]any{"supersedes": strongRef(observationURI(tid1))}), not: newer, stands: superseding(nil)},
	lexicons.CodeForked: {has: newer, not: newer, stands: func(t testing.TB, w *world) map[string]any {
		with := superseding(nil)(t, w)
		second := w.put(t, lexicons.ObservationNSID, tid3, edit(observation, with))
		w.setHead(observationURI(tid1), second)
		return with
	}, notStands: superseding(nil)},
	lexicons.CodeSupersedesDeleted: {has: newer, not: newer, stands: func(t testing.TB, w *world) map[string]any {
		with := superseding(nil)(t, w)
		w.bury(uriOf(lexicons.ObservationNSID, tid1))
		return with
	}, notStands: superseding(nil)},
	lexicons.CodeSupersedesForeign:   {has: edit(newer, map[string]any{"supersedes": strongRef("at://" + string(other) + "/garden.engram.agents.observation/" + tid1)}), not: newer, notStands: superseding(nil)},
	lexicons.CodeSupersedesBackwards: {has: newer, not: newer, stands: superseding(map[string]any{"observedAt": "2026-02-24T00:00:01.500Z"}), notStands: superseding(nil)},
	lexicons.CodeSupersedesOther:     {has: newer, not: newer, stands: superseding(source("command", "uname -r")), notStands: superseding(nil)},
	lexicons.CodeUnchanged:           {has: map[string]any{}, not: newer, stands: superseding(nil)},

	lexicons.CodeEmptyTitle:     {of: lexicons.SessionNSID, has: map[string]any{"title": ""}},
	lexicons.CodeEmptySummary:   {of: lexicons.SessionNSID, has: map[string]any{"summary": ""}},
	lexicons.CodeRepoUnparsed:   {of: lexicons.SessionNSID, has: map[string]any{"repo": "the seeds project"}},
	lexicons.CodeStaleWrite:     {of: lexicons.SessionNSID, before: map[string]any{}, has: map[string]any{"updatedAt": "2026-02-23T12:00:00Z"}},
	lexicons.CodeStartedChanged: {of: lexicons.SessionNSID, before: map[string]any{}, has: map[string]any{"startedAt": "2026-02-23T01:00:00Z"}},
	lexicons.CodeReopened:       {of: lexicons.SessionNSID, before: map[string]any{"status": "ended"}, has: map[string]any{"status": "active"}},
	lexicons.CodeMoved:          {of: lexicons.SessionNSID, before: map[string]any{}, has: map[string]any{"machine": "greenhouse"}},

	lexicons.CodeDiscussionNotPost: {of: lexicons.ChatSessionNSID, has: map[string]any{"discussion": "at://" + string(other) + "/com.example.note/1"}, not: map[string]any{"discussion": "at://" + string(other) + "/app.bsky.feed.post/" + tid1}},
	lexicons.CodeOrphanTurns: {of: lexicons.MessageNSID, has: map[string]any{}, stands: func(_ testing.TB, w *world) map[string]any {
		w.bury(uriOf(lexicons.ChatSessionNSID, tid1))
		return nil
	}, notStands: conversing},
	lexicons.CodeSessionMalformed:   {of: lexicons.MessageNSID, has: map[string]any{"session": "at://scout.test/click.aligned.chat.session/" + tid1}, stands: conversing},
	lexicons.CodeForeignTurn:        {of: lexicons.MessageNSID, has: map[string]any{"session": "at://" + string(other) + "/click.aligned.chat.session/" + tid1}, stands: conversing},
	lexicons.CodeSessionMissing:     {of: lexicons.MessageNSID, has: map[string]any{}, notStands: conversing},
	lexicons.CodeModelMissing:       {of: lexicons.MessageNSID, has: map[string]any{"model": nil}, stands: conversing},
	lexicons.CodeRoleMismatch:       {of: lexicons.MessageNSID, has: map[string]any{"role": "user", "steps": nil}, stands: conversing},
	lexicons.CodeWithheldHasContent: {of: lexicons.MessageNSID, has: map[string]any{"withheld": true, "steps": nil, "model": nil}, not: map[string]any{"withheld": true, "text": "", "steps": nil, "model": nil}, stands: conversing},
	lexicons.CodeEmptyTurn:          {of: lexicons.MessageNSID, has: map[string]any{"text": "", "steps": nil}, stands: conversing},
	lexicons.CodeDuplicateRefs:      {of: lexicons.MessageNSID, has: map[string]any{"refs": []any{strongRef(skillURI(tid1)), strongRef(skillURI(tid1))}}, stands: conversing},
	lexicons.CodeDuplicateMentions:  {of: lexicons.MessageNSID, has: map[string]any{"mentions": []any{string(other), string(other)}}, stands: conversing},
	lexicons.CodeRewritten:          {of: lexicons.MessageNSID, before: map[string]any{}, has: map[string]any{"text": "The seeds in drawer four are rape."}, stands: conversing},

	lexicons.CodeTooManySkills:       {of: lexicons.ClassNSID, has: map[string]any{"skills": manySkills(257)}, notStands: skilled("skills", nil)},
	lexicons.CodeSkillWrongType:      {of: lexicons.ClassNSID, has: map[string]any{"skills": []any{strongRef(classURI(tid1))}}, notStands: skilled("skills", nil)},
	lexicons.CodeSkillDuplicate:      {of: lexicons.ClassNSID, has: map[string]any{"skills": []any{strongRef(skillURI(tid1)), strongRef(skillURI(tid1))}}, notStands: skilled("skills", nil)},
	lexicons.CodeParentWrongType:     {of: lexicons.ClassNSID, has: map[string]any{"parent": strongRef(skillURI(tid1)), "skills": []any{}}, notStands: lineOf(1)},
	lexicons.CodeParentSelf:          {of: lexicons.ClassNSID, has: map[string]any{"parent": strongRef(classURI(tid2)), "skills": []any{}}, notStands: lineOf(1)},
	lexicons.CodeParentTooDeep:       {of: lexicons.ClassNSID, has: map[string]any{}, stands: lineOf(33), notStands: lineOf(32)},
	lexicons.CodeToolCollision:       {of: lexicons.ClassNSID, has: map[string]any{}, stands: skilled("skills", nil, map[string]any{"name": "rival"}), notStands: skilled("skills", nil)},
	lexicons.CodeEntryToolUnresolved: {of: lexicons.ClassNSID, has: map[string]any{"entryTool": "water"}, not: map[string]any{"entryTool": "sort-seeds"}, stands: skilled("skills", nil)},
	lexicons.CodeToolNameUnsafe:      {of: lexicons.ClassNSID, has: map[string]any{"entryTool": "../sh"}, not: map[string]any{"entryTool": "sort-seeds"}, stands: skilled("skills", nil)},
	lexicons.CodeBootstrapMismatch:   {of: lexicons.ClassNSID, has: map[string]any{"bootstrap": "welcome-mat-on-enroll"}, not: map[string]any{"bootstrap": "atproto-password"}, stands: skilled("skills", nil)},
	lexicons.CodeParentCycle: {of: lexicons.ClassNSID, before: map[string]any{"skills": []any{}}, has: map[string]any{"skills": []any{}}, stands: func(t testing.TB, w *world) map[string]any {
		return map[string]any{"parent": w.put(t, lexicons.ClassNSID, tid3, edit(class, map[string]any{"skills": []any{}, "parent": strongRef(classURI(tid2))}))}
	}, notStands: lineOf(1)},

	lexicons.CodeCreatedUnparsed:  {of: lexicons.SkillNSID, has: map[string]any{"createdAt": "yesterday"}},
	lexicons.CodeToolInvalid:      {of: lexicons.SkillNSID, has: map[string]any{"tools": []any{map[string]any{"name": "sort-seeds", "description": "sorts", "inputSchema": "{}"}}}},
	lexicons.CodePropertyRefEmpty: {of: lexicons.SkillNSID, has: map[string]any{"property_references": []any{map[string]any{"path": ".of"}}}, not: map[string]any{"property_references": []any{map[string]any{"path": ".of", "string": "a"}}}},
	lexicons.CodePropertyPath:     {of: lexicons.SkillNSID, has: map[string]any{"property_references": []any{map[string]any{"path": "of", "string": "a"}}}, not: map[string]any{"property_references": []any{map[string]any{"path": ".of", "string": "a"}}}},
	lexicons.CodeRefDepth:         {of: lexicons.SkillNSID, has: map[string]any{}, stands: examplesInLine(4), notStands: examplesInLine(3)},

	lexicons.CodeSpanInverted:        {of: lexicons.ClaimNSID, has: citing(map[string]any{"span": span(4, 3)})},
	lexicons.CodeSpanEmpty:           {of: lexicons.ClaimNSID, has: citing(map[string]any{"span": span(3, 3)})},
	lexicons.CodeSpanOutOfRange:      {of: lexicons.ClaimNSID, has: citing(map[string]any{"span": span(0, 99)})},
	lexicons.CodeSpanSplitsChar:      {of: lexicons.ClaimNSID, has: map[string]any{"text": "🌱 grows", "basis": nil, "citations": []any{citation(0, 3)}}, not: map[string]any{"text": "🌱 grows", "basis": nil, "citations": []any{citation(0, 4)}}},
	lexicons.CodeSpanOverlap:         {of: lexicons.ClaimNSID, has: map[string]any{"basis": []any{map[string]any{"span": span(23, 30), "kind": "opinion"}}}},
	lexicons.CodePointerSyntax:       {of: lexicons.ClaimNSID, has: selecting(map[string]any{"$type": "garden.engram.agents.defs#jsonPointer", "pointer": "seeds/0"}), not: selecting(map[string]any{"$type": "garden.engram.agents.defs#jsonPointer", "pointer": "/seeds/0"})},
	lexicons.CodeCitesNonObservation: {of: lexicons.ClaimNSID, has: citing(map[string]any{"target": strongRef("at://" + string(other) + "/garden.herbarium.claim/" + tid1)})},
	lexicons.CodeViaDuplicate:        {of: lexicons.ClaimNSID, has: citing(map[string]any{"via": []any{strongRef(messageURI), strongRef(messageURI)}}), not: citing(map[string]any{"via": []any{strongRef(messageURI)}})},
	lexicons.CodeViaLoop:             {of: lexicons.ClaimNSID, has: citing(map[string]any{"via": []any{strongRef(observationURI(tid1))}}), not: citing(map[string]any{"via": []any{strongRef(messageURI)}})},
	lexicons.CodeViaNotMessage:       {of: lexicons.ClaimNSID, has: citing(map[string]any{"via": []any{strongRef("at://" + string(other) + "/com.example.note/1")}}), not: citing(map[string]any{"via": []any{strongRef(messageURI)}})},
}

// newer is an observation that says something else than the sample, and later.
var newer = map[string]any{"text": "Linux 7", "observedAt": "2026-02-24T00:00:01Z"}

const messageURI = "at://" + string(other) + "/click.aligned.chat.message/" + tid1

// They open nothing, and are put together so that no scanner takes them for a leak.
var (
	awsKey      = "AKIA" + "QWERTYUIOPASDFGH"
	unsignedJWT = fmt.Sprintf("%s.%s.%s", "eyJhbGciOiJub25lIn0", "eyJzdWIiOiJleGFtcGxlIn0", "c2lnbmF0dXJlLXBhcnQ")
)
