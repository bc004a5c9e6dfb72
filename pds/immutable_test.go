package pds_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ref is a strongRef to what an answer created.
func ref(o object) object { return object{"uri": o.str("uri"), "cid": o.str("cid")} }

// superseding is an observation that supersedes another.
func superseding(text string, target object) object {
	record := observed(text)
	record["supersedes"] = target
	return record
}

// TestTheBackDoorsAreClosed goes through the ways of SEMANTICS section 1,
// decision 3, in which an observation could be changed. importRepo and the
// re-creation of an account are with the methods that would offer them.
func TestTheBackDoorsAreClosed(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		record := observed("as it was seen")
		kept := h.create(t, a, observation, record).ok(t)
		changed := observed("as somebody would like it to have been")
		seq := h.lastSeq(t)

		t.Run("putRecord", func(t *testing.T) {
			message := h.put(t, a, observation, rkeyOf(kept), changed).refused(t, 400, "ImmutableRecord")
			require.Contains(t, message, "; ")
		})
		t.Run("putRecord with the right swap", func(t *testing.T) {
			h.put(t, a, observation, rkeyOf(kept), changed, "swapRecord", kept.str("cid")).refused(t, 400, "ImmutableRecord")
		})
		t.Run("createRecord with its key", func(t *testing.T) {
			message := h.create(t, a, observation, changed, "rkey", rkeyOf(kept)).refused(t, 400, "ImmutableRecord")
			require.Regexp(t, "; head "+kept.str("uri")+" "+kept.str("cid")+"$", message)
			require.Contains(t, h.create(t, a, observation, record, "rkey", rkeyOf(kept)).refused(t, 400, "InvalidRequest"), "exists")
			h.put(t, a, note, "kept", object{"n": 1}).ok(t)
			require.Contains(t, h.create(t, a, note, object{"n": 2}, "rkey", "kept").refused(t, 400, "InvalidRequest"), "exists")
			seq = h.lastSeq(t)
		})
		t.Run("the very same bytes change nothing", func(t *testing.T) {
			out := h.put(t, a, observation, rkeyOf(kept), record).ok(t)
			require.Equal(t, kept.str("cid"), out.str("cid"))
			require.Nil(t, out.at("commit"))
		})
		t.Run("applyWrites update", func(t *testing.T) {
			r := h.apply(t, a, []object{creating(note, "fine", object{}), updating(observation, rkeyOf(kept), changed)})
			require.Contains(t, r.refused(t, 400, "ImmutableRecord"), "/writes/1/value", "the message says which write it is")
		})
		t.Run("delete and create in one batch", func(t *testing.T) {
			for _, again := range []object{changed, record} {
				r := h.apply(t, a, []object{deleting(observation, rkeyOf(kept)), creating(observation, rkeyOf(kept), again)})
				require.Contains(t, r.refused(t, 400, "ImmutableRecord"), " at /writes/1/value: ")
			}
		})
		t.Run("validate false", func(t *testing.T) {
			for _, r := range []reply{
				h.put(t, a, observation, rkeyOf(kept), changed, "validate", false),
				h.apply(t, a, []object{updating(observation, rkeyOf(kept), changed)}, "validate", false),
				h.create(t, a, observation, object{"nonsense": true}, "validate", false),
			} {
				require.Contains(t, r.refused(t, 400, "ValidationRequired"), "; ")
			}
		})
		require.Equal(t, seq, h.lastSeq(t), "nothing of all that was written")
		got := h.query(t, a.access, "com.atproto.repo.getRecord", "repo", a.did, "collection", observation, "rkey", rkeyOf(kept)).ok(t)
		require.Equal(t, kept.str("cid"), got.str("cid"))

		t.Run("delete and create later", func(t *testing.T) {
			h.delete(t, a, observation, rkeyOf(kept)).ok(t)
			for _, again := range []object{changed, record} {
				h.create(t, a, observation, again, "rkey", rkeyOf(kept)).refused(t, 400, "RecordTombstoned")
				h.put(t, a, observation, rkeyOf(kept), again).refused(t, 400, "RecordTombstoned")
				h.apply(t, a, []object{creating(observation, rkeyOf(kept), again)}).refused(t, 400, "RecordTombstoned")
			}
		})
	})
}

func TestRefusalsEndInTheRepair(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		first := h.create(t, a, observation, observed("one")).ok(t)
		second := h.create(t, a, observation, superseding("two", ref(first))).ok(t)

		r := h.create(t, a, observation, superseding("another two", ref(first)))
		message := r.refused(t, 400, "AlreadySuperseded")
		require.Regexp(t, "; head "+second.str("uri")+" "+second.str("cid")+"$", message)
		require.NotEmpty(t, r.object(t).list("findings"))
		wrong := ref(second)
		wrong["cid"] = first.str("cid")
		message = h.create(t, a, observation, superseding("four", wrong)).refused(t, 400, "SupersedesCidMismatch")
		require.Regexp(t, "; cid "+second.str("cid")+"$", message)
		h.create(t, a, observation, superseding("three", ref(second))).ok(t)

		missing := object{"uri": "at://" + a.did + "/" + observation + "/3aaaaaaaaaa22", "cid": first.str("cid")}
		h.create(t, a, observation, superseding("five", missing)).refused(t, 400, "SupersedesNotFound")

		third := h.create(t, a, observation, observed("six")).ok(t)
		message = h.apply(t, a, []object{
			creating(observation, "", superseding("seven", ref(third))),
			creating(observation, "", superseding("eight", ref(third))),
		}).refused(t, 400, "AlreadySuperseded")
		require.Contains(t, message, "forked at /writes/1/value/supersedes: /writes/0 of the same batch")
		require.NotContains(t, message, "at://", "no record of a batch that was refused is there to supersede")
	})
}

func TestDryRunKeepsNothing(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		first := h.create(t, a, observation, observed("one")).ok(t)
		second := h.create(t, a, observation, superseding("two", ref(first))).ok(t)
		seq := h.lastSeq(t)
		dry := func(body object) object {
			body["repo"] = a.did
			return h.procedure(t, a.access, "garden.herbarium.validateRecord", body).ok(t)
		}
		good := dry(object{"collection": observation, "record": superseding("three", ref(second))})
		require.Equal(t, true, good.at("valid"), "%v", good)
		require.Equal(t, "valid", good.str("validationStatus"))
		require.Equal(t, "host", good.str("scope"))

		fork := dry(object{"collection": observation, "record": superseding("three", ref(first))})
		require.Equal(t, "AlreadySuperseded", fork.str("error"))
		require.Regexp(t, "; head "+second.str("uri"), fork.str("message"))

		edit := dry(object{"collection": observation, "rkey": rkeyOf(first), "record": observed("else")})
		require.Equal(t, "ImmutableRecord", edit.str("error"))
		broken := dry(object{"collection": observation, "record": object{"text": 1}})
		require.Equal(t, false, broken.at("valid"))
		require.NotEmpty(t, broken.list("findings"))
		float := dry(object{"collection": note, "record": object{"n": 1.5}})
		require.Equal(t, false, float.at("valid"))

		require.Equal(t, seq, h.lastSeq(t))
	})
}

// TestDryRunAgreesWithTheWrite asks first and writes then: the judgement is the
// write's own answer.
func TestDryRunAgreesWithTheWrite(t *testing.T) {
	eachHost(t, setting{}, func(t *testing.T, h *host) {
		a := h.agent(t, "scout")
		seen := observed("one")
		kept := rkeyOf(h.create(t, a, observation, seen).ok(t))
		h.put(t, a, note, "there", object{"n": 1}).ok(t)
		createRecord := func(collection, rkey string, record object) reply {
			if rkey == "" {
				return h.create(t, a, collection, record)
			}
			return h.create(t, a, collection, record, "rkey", rkey)
		}
		putRecord := func(collection, rkey string, record object) reply { return h.put(t, a, collection, rkey, record) }
		update := func(collection, rkey string, record object) reply {
			return h.apply(t, a, []object{updating(collection, rkey, record)})
		}
		deleteRecord := func(collection, rkey string, _ object) reply { return h.delete(t, a, collection, rkey) }
		for _, tc := range []struct {
			name, action, collection, rkey string
			record                         object
			write                          func(collection, rkey string, record object) reply
			valid                          bool
		}{
			{"create", "create", note, "", object{"n": 1}, createRecord, true},
			{"create with a key", "create", note, "new", object{"n": 1}, createRecord, true},
			{"create over other content", "create", note, "there", object{"n": 2}, createRecord, false},
			{"create of what stands there", "create", note, "there", object{"n": 1}, createRecord, false},
			{"create over an observation", "create", observation, kept, observed("other"), createRecord, false},
			{"create of the observation that stands there", "create", observation, kept, seen, createRecord, false},
			{"update", "update", note, "there", object{"n": 3}, update, true},
			{"update of nothing", "update", note, "missing", object{"n": 1}, update, false},
			{"update of an observation", "update", observation, kept, observed("other"), update, false},
			{"update of the same bytes", "update", observation, kept, seen, update, true},
			{"delete", "delete", note, "there", nil, deleteRecord, true},
			{"delete of nothing", "delete", note, "missing", nil, deleteRecord, true},
			{"no action, no key", "", note, "", object{"n": 1}, createRecord, true},
			{"no action, a free key", "", note, "free", object{"n": 1}, putRecord, true},
			{"no action, a key in use", "", note, "free", object{"n": 2}, putRecord, true},
			{"no action, an observation in use", "", observation, kept, observed("other"), putRecord, false},
			{"no action, the same observation", "", observation, kept, seen, putRecord, true},
		} {
			t.Run(tc.name, func(t *testing.T) {
				body := object{"repo": a.did, "collection": tc.collection}
				if tc.action != "" {
					body["action"] = tc.action
				}
				if tc.rkey != "" {
					body["rkey"] = tc.rkey
				}
				if tc.record != nil {
					body["record"] = tc.record
				}
				judged := h.procedure(t, a.access, "garden.herbarium.validateRecord", body).ok(t)
				require.Equal(t, tc.valid, judged.at("valid"), "%v", judged)
				answered := tc.write(tc.collection, tc.rkey, tc.record)
				if tc.valid {
					answered.ok(t)
					return
				}
				require.Equal(t, 400, answered.Status)
				require.Equal(t, answered.object(t).str("error"), judged.str("error"))
				if tc.action != "update" { // applyWrites says besides which write it is
					require.Equal(t, answered.object(t).str("message"), judged.str("message"))
				}
			})
		}
	})
}
