package lexicons

import "embed"

//go:generate go run ./internal/structural/write .

// schemas holds every lexicon file of this folder. The directories are named
// without a pattern, so that a schema file added anywhere under them is
// embedded without a change here; go:embed leaves out dot and underscore files.
//
//go:embed app click com garden
var schemas embed.FS
