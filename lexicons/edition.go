package lexicons

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// rulesVersion counts the versions of the code that judges records. Raise it
// with every change after which a record may have other findings, another
// verdict, or another row where an index looks it up: an index then judges again
// what it holds.
const rulesVersion = 4

// Edition names what judges records in this program: the version of its code,
// the schemas that it was loaded with, and the operator's settings. Two
// programs of one edition judge every record alike. What was added to the
// catalog is not part of it.
func (r *Rules) Edition() string {
	all := fmt.Appendf(nil, "%d\n%+v\n", rulesVersion, r.settings)
	base := r.catalog.loaded()
	for _, nsid := range base.NSIDs() {
		all = fmt.Appendf(all, "%s %x\n", nsid, sha256.Sum256(base.files[nsid].Source))
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:16])
}

// Catalog is what the rules look schemas up in.
func (r *Rules) Catalog() *Catalog { return r.catalog }

// With are the same rules over another catalog.
func (r *Rules) With(c *Catalog) *Rules {
	with := *r
	with.catalog = c
	return &with
}
