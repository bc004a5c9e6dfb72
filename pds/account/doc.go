// Package account owns accounts, credentials, tokens, keys, handles, DID documents, PLC operations and account status.
package account
