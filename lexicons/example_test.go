package lexicons_test

import (
	"fmt"

	"herbarium.garden/lexicons"
)

// A writer whose record is refused is told where, what was expected, and how
// to try again.
func Example() {
	catalog, err := lexicons.Load()
	if err != nil {
		panic(err)
	}
	rec, err := lexicons.ParseJSON(lexicons.SessionNSID, []byte(`{"title": "Sort the seeds", "summary": "", "updatedAt": "today"}`))
	if err != nil {
		panic(err)
	}
	_, err = catalog.Validate(rec, "2026-02-24.sorting", lexicons.ValidateKnown)
	fmt.Println(err)

	_, err = lexicons.ParseJSON(lexicons.SessionNSID, []byte(`{"title": "Sort the seeds", "progress": 0.5}`))
	fmt.Println(err)
	// Output:
	// InvalidRecord at /updatedAt: "today" is not in the format datetime, want RFC 3339 with seconds and time zone such as 2026-01-31T12:00:00.000Z
	// float at /progress: 0.5 is no integer; atproto data has no floats, write it as a string or scale it
}
