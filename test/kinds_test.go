package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// placesOfKinds are the places outside of Go code that list every kind by hand, and tests
// that inject every kind: what to add there, with the field of the kind and its name. In
// injector, TestEveryKindIsComplete names what is missing in other places.
var placesOfKinds = []struct{ files, entry string }{
	{"README.md", "| [FIELD](docs/kinds/KIND.md) |"},
	{"docs/kinds/README.md", "| [`FIELD`](KIND.md) |"},
	{"docs/events.md", "| FIELD |"},
	{"docs/guarantees.md", "`FIELD`"},
	{"docs/contributing/faults.md", "\n## FIELD\n"},
	{"hack/site/mkdocs.yml", ": docs/kinds/KIND.md\n"},
	{"test/campaign/cases.go", " FIELD: {"},
	{"test/pictures/plans.go", "FIELD: {"},
	{"test/e2e/*_test.go", "FIELD: {"},
}

func TestEveryKindIsInEveryPlace(t *testing.T) {
	for _, place := range placesOfKinds {
		text := contents(t, place.files)
		for _, row := range v1beta1.KindTable() {
			entry := strings.NewReplacer("FIELD", row.Field, "KIND", string(row.Kind)).Replace(place.entry)
			if !strings.Contains(text, entry) {
				t.Errorf("%s has nothing for the kind %s: add %q", place.files, row.Kind, entry)
			}
		}
	}
}

// contents are the texts of the files of a pattern, one after the other.
func contents(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pattern)))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
