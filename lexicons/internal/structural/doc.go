// Package structural takes lexicon files over from the indigo module by their
// structure alone: same definitions, types, limits and errors, no description
// texts. go:embed cannot reach into another module, so the files live here and
// a test compares them with the module at its pinned version.
//
// Run `go generate ./lexicons` after the pin in go.mod moved.
package structural
