package lexicons

// RefusalInvalidRequest is the XRPC error of every refusal that has no name of its own.
const RefusalInvalidRequest = "InvalidRequest"

// The XRPC errors by which a write is refused for its meaning. The reference
// PDS has BlobNotFound, InvalidMimeType and InvalidSize; the others are ours.
const (
	RefusalValidationRequired    = "ValidationRequired"
	RefusalImmutableRecord       = "ImmutableRecord"
	RefusalRecordTombstoned      = "RecordTombstoned"
	RefusalAlreadySuperseded     = "AlreadySuperseded"
	RefusalSupersedesNotFound    = "SupersedesNotFound"
	RefusalSupersedesCidMismatch = "SupersedesCidMismatch"
	RefusalSecretDetected        = "SecretDetected"
	RefusalCredentialInURL       = "CredentialInUrl"
	RefusalPolicyDenied          = "PolicyDenied"
	RefusalQuotaExceeded         = "QuotaExceeded"
	RefusalBlobNotFound          = "BlobNotFound"
	RefusalBlobTooLarge          = "BlobTooLarge"
	RefusalInvalidMimeType       = "InvalidMimeType"
	RefusalInvalidSize           = "InvalidSize"
)

// The codes of findings: stable names, for programs. Codes of the data model
// come from the parsers and mean that there is no record at all.
const (
	CodeTooLarge       = "too-large"       // record, body, array or object over its limit
	CodeTooDeep        = "too-deep"        // past MaxDepth
	CodeJSONSyntax     = "json-syntax"     // not RFC 8259
	CodeCBORSyntax     = "cbor-syntax"     // not DAG-CBOR
	CodeNotCanonical   = "not-canonical"   // CBOR, but not the one form of DAG-CBOR
	CodeInvalidUTF8    = "invalid-utf8"    // bad UTF-8 or half a surrogate pair
	CodeDuplicateKey   = "duplicate-key"   // one name twice in an object
	CodeFloat          = "float"           // a number that is no integer
	CodeIntegerRange   = "integer-range"   // past ±(2^53-1)
	CodeNotAnObject    = "not-an-object"   // the whole is something else
	CodeNotData        = "not-data"        // a Go value that is no atproto data
	CodeTypeMalformed  = "type-malformed"  // $type is no name
	CodeTypeMismatch   = "type-mismatch"   // $type is not the collection
	CodeLinkMalformed  = "link-malformed"  // $link or tag 42
	CodeBytesMalformed = "bytes-malformed" // $bytes
	CodeBlobMalformed  = "blob-malformed"  // $type blob, with something missing or too much
	CodeReservedName   = "reserved-name"   // $link or $bytes where it cannot be
)

// The codes of validation.
const (
	CodeInvalidRecord      = "InvalidRecord"      // does not match its lexicon
	CodeInvalidRecordKey   = "InvalidRecordKey"   // the record key is not of the kind the lexicon wants
	CodeUnknownLexicon     = "unknown-lexicon"    // validation was demanded, the lexicon is not here
	CodeValidationRequired = "ValidationRequired" // validate:false on an enforced collection
)

// The codes of rules on any record.
const (
	CodeBlobCodec        = "blob-codec"      // a blob's CID is not raw SHA-256
	CodeLegacyBlob       = "legacy-blob"     // the {cid, mimeType} form of 2023
	CodeBlobNotFound     = "BlobNotFound"    // not uploaded by this account
	CodeBlobMismatch     = "blob-mismatch"   // MIME type or size differ from what was uploaded
	CodeBlobTooLarge     = "BlobTooLarge"    // over the host's limit
	CodeSecretDetected   = "SecretDetected"  // a credential in the text, surely
	CodeSecretSuspected  = "secret-suspect"  // a credential in the text, perhaps
	CodeCredentialInURL  = "CredentialInUrl" // userinfo in a URL
	CodeFuture           = "future"          // a time that has not come
	CodeTimeOrder        = "time-order"      // two times the wrong way round
	CodeTIDSkew          = "tid-skew"        // createdAt far from the record key's time
	CodeUnknownValue     = "unknown-value"   // outside the known values, which are open
	CodeRefMalformed     = "ref-malformed"   // a strongRef without DID, collection, rkey or CID
	CodeRefMissing       = "ref-missing"     // a strongRef to nothing
	CodeRefDrift         = "ref-drift"       // a strongRef to another version
	CodeRunImplausible   = "run-implausible" // generator.run later than the record, or before 2023
	CodeEmptyText        = "empty-text"      // spelled by field, as the next four
	CodeEmptyMethod      = "empty-method"
	CodeEmptySourceValue = "empty-source-value"
	CodeEmptyTitle       = "empty-title"
	CodeEmptySummary     = "empty-summary"
)

// The codes of what the operator lets an account write.
const (
	CodeCollectionDenied = "collection-denied"  // not one of the collections that it may write
	CodeCreateOnly       = "create-only"        // a record there is neither updated nor deleted
	CodeRecordQuota      = "record-quota"       // more records than it may hold
	CodeBlobQuota        = "blob-quota"         // more bytes of blobs than it may hold
	CodeBatchReplacesAll = "batch-replaces-all" // a commit that relays could not verify
)

// The codes of observations.
const (
	CodeEdited                = "edited"                  // an existing observation with another CID
	CodeRkeyReused            = "rkey-reused"             // the record key held a record that was deleted
	CodeSourceMalformed       = "source-malformed"        // kind url, value no absolute http(s) URL
	CodeSupersedesWrongType   = "supersedes-wrong-type"   // the target is no observation
	CodeSupersedesSelf        = "supersedes-self"         // the target is the record itself
	CodeSupersedesDangling    = "supersedes-dangling"     // the target never existed
	CodeSupersedesCIDMismatch = "supersedes-cid-mismatch" // the target exists with another CID
	CodeForked                = "forked"                  // the target already has a successor
	CodeSupersedesDeleted     = "supersedes-deleted"      // the target is tombstoned
	CodeSupersedesForeign     = "supersedes-foreign"      // the target is in another repo
	CodeSupersedesBackwards   = "supersedes-backwards"    // observed before its target
	CodeSupersedesOther       = "supersedes-other-source" // of another source than its target
	CodeTextNotPrefix         = "text-not-prefix"         // the text is not the start of the content
	CodeTruncated             = "truncated"               // the text is the start of a longer content
	CodeUnchanged             = "unchanged"               // same bytes and text as its target
	CodeSuccessorDeleted      = "successor-deleted"       // a head again, because what superseded it was deleted
	CodeRunShared             = "run-shared"              // another repo has the same generator.run
)

// The codes of sessions, conversations, classes, skills and claims.
const (
	CodeStaleWrite     = "stale-write"     // updatedAt earlier than the stored version's
	CodeRepoUnparsed   = "repo-unparsed"   // neither a URL nor scp-like
	CodeStartedChanged = "started-changed" // startedAt changed or removed
	CodeReopened       = "reopened"        // ended, then active again
	CodeMoved          = "moved"           // machine, harness, branch or model changed
	CodeContended      = "contended"       // two machines rewrite it in turn

	CodeDiscussionNotPost  = "discussion-not-post"
	CodeSessionMalformed   = "session-malformed"
	CodeForeignTurn        = "foreign-turn"
	CodeSessionMissing     = "session-missing"
	CodeOrphanTurns        = "orphan-turns"
	CodeNoPublishedTurns   = "no-published-turns"
	CodeOrderDiffers       = "order-differs"
	CodeModelMissing       = "model-missing"
	CodeRoleMismatch       = "role-mismatch"
	CodeWithheldHasContent = "withheld-has-content"
	CodeEmptyTurn          = "empty-turn"
	CodeDuplicateRefs      = "duplicate-refs"
	CodeDuplicateMentions  = "duplicate-mentions"
	CodeRewritten          = "rewritten"

	CodeSkillWrongType      = "skill-wrong-type"
	CodeSkillDuplicate      = "skill-duplicate"
	CodeParentWrongType     = "parent-wrong-type"
	CodeParentSelf          = "parent-self"
	CodeParentCycle         = "parent-cycle"
	CodeParentTooDeep       = "parent-too-deep"
	CodeToolCollision       = "tool-collision"
	CodeEntryToolUnresolved = "entry-tool-unresolved"
	CodeToolNameUnsafe      = "tool-name-unsafe"
	CodeBootstrapMismatch   = "bootstrap-mismatch"
	CodeTooManySkills       = "too-many-skills"

	CodeCreatedUnparsed  = "created-unparsed"
	CodeToolInvalid      = "tool-invalid"
	CodePropertyRefEmpty = "property-ref-empty"
	CodePropertyPath     = "property-path"
	CodeNameReused       = "name-reused" // another skill of the repo has the same name
	CodeRefDepth         = "ref-depth"   // examples that lead too far

	CodeSpanInverted        = "span-inverted"
	CodeSpanEmpty           = "span-empty"
	CodeSpanOutOfRange      = "span-out-of-range"
	CodeSpanSplitsChar      = "span-splits-char"
	CodeSpanOverlap         = "span-overlap"
	CodePointerSyntax       = "pointer-syntax"
	CodeCitesNonObservation = "cites-non-observation"
	CodeViaDuplicate        = "via-duplicate"
	CodeViaLoop             = "via-loop"
	CodeViaNotMessage       = "via-not-message"
)

// The codes of citations that were checked against what they cite. They are the
// index's: only it knows the targets.
const (
	CodeCitationFails     = "citation-fails"     // what is cited is not in the version that is pinned
	CodeCitationAmbiguous = "citation-ambiguous" // it is there several times
	CodeMisquote          = "misquote"           // it is there, but not in the span that quotes it
	CodeEvidenceDeleted   = "evidence-deleted"   // the target was deleted
	CodeEvidenceGone      = "evidence-gone"      // the target was superseded by something that no longer has it
)

// The codes of the index itself.
const (
	CodeDesynchronized = "desynchronized"   // a repo out of step with its host
	CodeVersionNotHeld = "version-not-held" // a version was asked for that is not here
)
