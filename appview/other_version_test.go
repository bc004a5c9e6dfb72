package appview_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/appview/index"
	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// Whatever was put in the place of an observation, by a commit or found in a
// whole repo, is named with the signed commit that carried it; what was first
// seen stays the record, and references to the other versions say so.
func TestOtherVersionsAreListedWithTheirCommits(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada, bob := newAuthor("did:web:ada.test"), newAuthor("did:web:bob.test")
		rkey := string(tid(1))
		first, original := ada.put(t, lexicons.ObservationNSID, rkey, observation("as seen", nil))
		s.apply(first)
		views := func() (observed, record object) {
			return s.get("getObservation", "uri", string(original.URI))["observation"].(object), s.get("getRecord", "uri", string(original.URI))
		}
		observed, record := views()
		require.NotContains(t, observed, "otherVersions")
		require.NotContains(t, record, "otherVersions")

		s.now = noon.Add(time.Minute)
		second, edited := ada.put(t, lexicons.ObservationNSID, rkey, observation("as wished", nil))
		s.apply(second)
		byEdit := object{
			"cid": edited.CID.String(), "how": "edited", "commit": second.CID.String(), "rev": string(second.Rev),
			"seenAt": "2026-11-30T12:01:00.000Z", "source": "host", "baseline": false, "inRepo": true, "held": true,
		}
		observed, record = views()
		require.Equal(t, []any{byEdit}, observed["otherVersions"])
		require.Equal(t, []any{byEdit}, record["otherVersions"])
		require.Equal(t, original.CID.String(), observed["cid"])
		require.Equal(t, "as seen", observed["text"])
		require.Equal(t, first.CID.String(), at(t, observed, "provenance", "commit"), "the record is what the first commit signed")
		require.Equal(t, "as seen", at(t, record, "value", "text"))

		// Nobody saw the commits that led to a whole repo: a baseline.
		_, again := ada.put(t, lexicons.ObservationNSID, rkey, observation("as wished, again", nil))
		s.now = noon.Add(2 * time.Minute)
		whole := ada.commit(t, index.Operation{})
		op := ada.held[string(lexicons.ObservationNSID)+"/"+rkey]
		op.Action = lexicons.Create
		s.apply(&index.Resync{DID: "did:web:ada.test", Rev: whole.Rev, CID: whole.CID, Data: whole.Data, Records: []index.Operation{op}, Proof: whole.Proof})
		byEdit["inRepo"] = false
		byResync := object{
			"cid": again.CID.String(), "how": "edited", "commit": whole.CID.String(), "rev": string(whole.Rev),
			"seenAt": "2026-11-30T12:02:00.000Z", "source": "host", "baseline": true, "inRepo": true, "held": true,
		}
		observed, _ = views()
		require.Equal(t, []any{byEdit, byResync}, observed["otherVersions"])
		require.Equal(t, false, at(t, observed, "provenance", "baseline"), "the first version was seen in its commit")

		other := s.get("getRecord", "uri", string(original.URI), "cid", edited.CID.String())
		require.Equal(t, "as wished", at(t, other, "value", "text"))
		require.Equal(t, "changed", other["state"])
		require.Equal(t, original.CID.String(), other["currentCid"])

		c, naming := bob.put(t, lexicons.ObservationNSID, string(tid(5)), observation("names an edit", object{"supersedes": ref(edited)}))
		s.apply(c)
		state := func() any { return at(t, s.get("getRecord", "uri", string(naming.URI)), "refs", 0, "ref") }
		require.Equal(t, "changed", at(t, state(), "state"))
		require.Equal(t, original.CID.String(), at(t, state(), "currentCid"))
		require.Equal(t, true, at(t, state(), "held"))

		s.now = noon.Add(3 * time.Minute)
		s.apply(ada.drop(t, lexicons.ObservationNSID, rkey))
		reuse, reused := ada.put(t, lexicons.ObservationNSID, rkey, observation("another thing", nil))
		s.apply(reuse)
		byEdit["held"], byResync["held"], byResync["inRepo"] = false, false, false
		byReuse := object{
			"cid": reused.CID.String(), "how": "rkey-reused", "commit": reuse.CID.String(), "rev": string(reuse.Rev),
			"seenAt": "2026-11-30T12:03:00.000Z", "source": "host", "baseline": false, "inRepo": true, "held": false,
		}
		observed, record = views()
		require.Equal(t, "deleted", observed["state"])
		require.NotContains(t, observed, "text")
		require.NotContains(t, record, "value")
		require.Equal(t, []any{byEdit, byResync, byReuse}, observed["otherVersions"])
		require.Equal(t, []any{byEdit, byResync, byReuse}, record["otherVersions"])
		require.Equal(t, "deleted", at(t, state(), "state"))
		doc := s.get("getObservation", "uri", string(original.URI), "format", "markdown")["markdown"].(string)
		require.Contains(t, doc, "`rkey-reused` `"+reused.CID.String()+"`")

		require.NoError(t, s.index.Reindex(t.Context()))
		rebuilt, rebuiltRecord := views()
		require.Equal(t, observed, rebuilt)
		require.Equal(t, record, rebuiltRecord)
	})
}
