package pds

import (
	"errors"
	"net/http"

	"herbarium.garden/lexicons/xrpc"
	"herbarium.garden/pds/account"
	"herbarium.garden/pds/repostore"
)

// answer is what a client is told about one of the rooms' errors. An empty
// message stands for the error's own text, which that room writes for clients.
type answer struct {
	is      error
	status  int
	name    string
	message string
}

// answers is the table of PDS-SURFACE "Errors": the only place where a fault
// of a room gets an XRPC name. What is not in it is an internal error.
var answers = []answer{
	{account.ErrCredentials, 401, "AuthenticationRequired", "Invalid identifier or password"},
	{account.ErrTakenDown, 401, "AccountTakedown", "the account has been taken down; ask the operator of this host"},
	{account.ErrSuspended, 401, "AccountTakedown", "the account is suspended; ask the operator of this host"},
	{account.ErrNotFound, 403, "AccountNotFound", "there is no such account on this host; check the DID or handle"},
	{account.ErrAgentExpired, 401, "AccountDeactivated", "the agent has expired; ask the operator of this host to extend it"},
	{account.ErrAgentDisabled, 401, "AccountDeactivated", "the agent is disabled; ask the operator of this host to enable it"},
	{account.ErrNotAgent, 400, "NotFound", "there is no such agent on this host; check the DID or handle with garden.herbarium.admin.listAgents"},
	{account.ErrAgentInvalid, 400, "InvalidRequest", ""},
	{account.ErrStatus, 400, "InvalidRequest", "the account's status does not allow this; look at it with com.atproto.server.getSession"},
	{account.ErrBusy, 503, "ServiceUnavailable", "too many sign-ins are being checked at once; try again in a few seconds"},
	{account.ErrTokenInvalid, 400, "InvalidToken", "the token is not one of this host, or of another kind; sign in with com.atproto.server.createSession"},
	{account.ErrTokenExpired, 400, "ExpiredToken", "the token has expired or was revoked; refresh it with com.atproto.server.refreshSession, or sign in again"},
	{account.ErrHandleInvalid, 400, "InvalidHandle", "the handle is not valid here; choose a name of 3 to 18 letters, digits and hyphens under one of the domains in com.atproto.server.describeServer"},
	{account.ErrHandleReserved, 400, "HandleNotAvailable", "the handle is reserved; choose another one"},
	{account.ErrHandleTaken, 400, "InvalidRequest", "Handle already taken; choose another one"},
	{account.ErrDomainUnsupported, 400, "UnsupportedDomain", "the handle is not under a domain of this host; com.atproto.server.describeServer lists them"},
	{account.ErrDIDTaken, 400, "InvalidRequest", "the DID has an account here already; sign in to it"},
	{account.ErrEmailTaken, 400, "InvalidRequest", "Email already taken; use another address, or none"},
	{account.ErrEmailInvalid, 400, "InvalidRequest", "the e-mail address is not valid; correct it or leave it out"},
	{account.ErrPasswordUnfit, 400, "InvalidPassword", "a password has 8 to 256 bytes; choose another one"},
	{account.ErrInvite, 400, "InvalidInviteCode", "an invite code is needed that is known, enabled and not used up; ask the operator of this host for one"},
	{account.ErrNameTaken, 400, "DuplicateCreate", "the account has a credential of that name; choose another name"},
	{account.ErrNameInvalid, 400, "InvalidRequest", "a credential needs a name of 1 to 128 bytes without control characters; send another name"},
	{account.ErrTooMany, 400, "InvalidRequest", "the account has as many of these as it may; revoke an app password with com.atproto.server.revokeAppPassword, or remove a login key"},
	{account.ErrKeyKnown, 400, "DuplicateCreate", "the key is registered for the account, or was once; make a new key pair"},
	{account.ErrProofUsed, 401, "NonceNotUnique", "the assertion was used before; sign a new one with a fresh jti"},
	{account.ErrScope, 400, "InvalidRequest", ""},
	{account.ErrExpiry, 400, "InvalidRequest", "a credential expires at a time ahead; send a later expiresAt, or none"},
	{account.ErrExpired, 401, "AuthenticationRequired", "the credential has expired; ask the operator of this host to renew it"},
	{account.ErrNoCredential, 400, "NotFound", "the account has no app password of that name; garden.herbarium.admin.listCredentials has the names"},
	{account.ErrInviteCount, 400, "InvalidRequest", "1 to 500 invite codes of 1 to 100000 uses each are made at once; send smaller numbers"},
	{account.ErrPolicy, 400, "InvalidRequest", ""},
	{account.ErrInvitesDisabled, 400, "InvalidRequest", "the account gets no new invite codes; allow them with com.atproto.admin.enableAccountInvites"},
	{account.ErrPreferences, 400, "InvalidRequest", "preferences are a list of at most 1000 objects, each with a $type of 1 to 512 characters; send such a list"},
	{account.ErrRepoint, 400, "InvalidRequest", ""},
	{account.ErrNoRotation, 400, "InvalidRequest", "this host's key is not among the rotation keys of the DID; sign the operation with a rotation key of your own"},
	{account.ErrPLCRefused, 400, "InvalidRequest", "the PLC directory refused the operation; the operator finds its reason in the log"},
	{account.ErrPLCUnavailable, 502, "UpstreamFailure", "the PLC directory could not be reached; try again later"},
	{account.ErrKeyUnavailable, 400, "InvalidRequest", "this host no longer holds the account's signing key; use the account's present host"},

	{repostore.ErrRepoNotFound, 400, "RepoNotFound", "there is no such repo on this host; check the DID"},
	{repostore.ErrRecordNotFound, 400, "RecordNotFound", ""},
	{repostore.ErrRecordExists, 400, "InvalidRequest", ""},
	{repostore.ErrInvalidSwap, 400, "InvalidSwap", ""},
	{repostore.ErrRepeatedPath, 400, "InvalidRequest", ""},
	{repostore.ErrTooManyWrites, 400, "InvalidRequest", ""},
	{repostore.ErrCommitTooBig, 400, "InvalidRequest", ""},
	{repostore.ErrBlobNotFound, 400, "BlobNotFound", "Blob not found; check the CID, and that a record of this repo refers to it"},
	{repostore.ErrBlobQuarantined, 400, "BlobNotFound", "the stored bytes of the blob are damaged, and out of service; upload the same bytes again, or ask the operator of this host to repair them"},
	{repostore.ErrObjectBusy, 503, "ServiceUnavailable", "the stored bytes were being moved just now; upload the blob again"},
	{repostore.ErrPurged, 400, "BlobPurged", ""},
	{repostore.ErrPurgeNotFound, 400, "NotFound", "there is no such purge on this host; garden.herbarium.admin.listPurges has their ids"},
	{repostore.ErrPurgeBlocked, 400, "InvalidRequest", ""},
	{repostore.ErrRepoExists, 400, "InvalidRequest", "the DID has a repo here already; sign in to its account"},
	{repostore.ErrBadCAR, 400, "InvalidRequest", ""},
	{repostore.ErrBlockNotFound, 400, "BlockNotFound", ""},
	{repostore.ErrContended, 503, "ServiceUnavailable", "others write to this repo all the time; try again"},
	{repostore.ErrImportSlow, 503, "ServiceUnavailable", "the import took too long; try again when this host has less to do"},
	{repostore.ErrClosed, 503, "ServiceUnavailable", "the server is shutting down; try again shortly"},
}

// translate finds the answer to err, or nil. It is what xrpc.Server.Translate
// is given.
func translate(err error) *xrpc.Error {
	for _, a := range answers {
		if !errors.Is(err, a.is) {
			continue
		}
		message := a.message
		var purged *repostore.PurgedError
		if errors.As(err, &purged) {
			message = purged.Error() // without the steps that led to it
		} else if message == "" {
			message = err.Error()
		}
		out := xrpc.Errorf(a.status, a.name, "%s", message)
		if a.status == http.StatusServiceUnavailable {
			out.Header = map[string]string{"Retry-After": "5"}
		}
		return out
	}
	return nil
}
