package appview

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"herbarium.garden/lexicons"
)

// resolutionLock is garden.herbarium.defs#resolutionLock, which defines the digest.
type resolutionLock struct {
	Digest   string      `json:"digest"`
	Complete bool        `json:"complete"`
	Class    strongRef   `json:"class"`
	Parents  []strongRef `json:"parents"`
	Skills   []strongRef `json:"skills"`
}

func viewLock(r *resolution) *resolutionLock {
	var text strings.Builder
	line := func(word string, ref lexicons.StrongRef) strongRef {
		fmt.Fprintf(&text, "%s %s %s\n", word, ref.URI, ref.CID)
		return viewStrongRef(ref)
	}
	lock := &resolutionLock{
		Complete: r.exact(),
		Class:    line("class", r.class.pin),
		Parents:  orEmpty(each(r.parents, func(p resolvedClass) strongRef { return line("parent", p.pin) })),
		Skills:   orEmpty(each(r.skills, func(s resolvedSkill) strongRef { return line("skill", s.ref) })),
	}
	sum := sha256.Sum256([]byte(text.String()))
	lock.Digest = hex.EncodeToString(sum[:])
	return lock
}
