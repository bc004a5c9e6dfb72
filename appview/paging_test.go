package appview_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"herbarium.garden/lexicons"
	"herbarium.garden/migrations"
	"herbarium.garden/migrations/dbtest"
)

// Each list, read three at a time while records arrive, shows every record
// that was there at its beginning once and nothing twice.
func TestListsPageToTheirEndWhileRecordsArrive(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, migrations.Appview, func(t *testing.T, db *migrations.DB) {
		s := newSite(t, db)
		ada := newAuthor("did:web:ada.test")
		n := 0
		arrive := func() {
			n++
			s.now = s.now.Add(time.Second)
			stamp := s.now.Format("2006-01-02T15:04:05.000Z")
			c, _ := ada.put(t, lexicons.ObservationNSID, string(tid(n)), observation("", object{"createdAt": stamp, "observedAt": stamp}))
			s.apply(c)
			c, _ = ada.put(t, lexicons.SessionNSID, fmt.Sprint("run-", n), session(object{"updatedAt": stamp}))
			s.apply(c)
			c, _ = ada.put(t, lexicons.ClassNSID, string(tid(n)), class(fmt.Sprint(n%4), nil, "absent"))
			s.apply(c)
			c, _ = ada.put(t, lexicons.ChatSessionNSID, string(tid(n)), object{"createdAt": stamp})
			s.apply(c)
		}
		for range 8 {
			arrive()
		}
		for list, key := range map[string]string{
			"listObservations": "observations", "listSessions": "sessions", "listClasses": "classes",
			"listConversations": "conversations", "listFindings": "findings",
		} {
			name := func(item any) string {
				if list == "listFindings" {
					return fmt.Sprint(at(t, item, "uri"), at(t, item, "code"), at(t, item, "path"))
				}
				return at(t, item, "uri").(string)
			}
			more := []string{"limit", "100"}
			if list == "listConversations" {
				more = append(more, "includeEmpty", "true")
			}
			atFirst := at(t, s.get(list, more...), key).([]any)
			require.GreaterOrEqual(t, len(atFirst), 8, list)
			seen := map[string]bool{}
			more[1] = "3"
			params := more
			for {
				page := s.get(list, params...)
				for _, item := range at(t, page, key).([]any) {
					require.False(t, seen[name(item)], "%s shows %s twice", list, name(item))
					seen[name(item)] = true
				}
				cursor, ok := page["cursor"].(string)
				if !ok {
					break
				}
				params = append(more[:len(more):len(more)], "cursor", cursor)
				arrive()
			}
			for _, item := range atFirst {
				require.True(t, seen[name(item)], "%s leaves out %s", list, name(item))
			}
		}
	})
}
