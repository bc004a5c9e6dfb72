package index_test

import (
	"flag"
	"os"
	"testing"
)

// defaultChecks is how many histories each property is tried on, per database;
// `make properties` tries more.
const defaultChecks = "30"

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", defaultChecks); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
