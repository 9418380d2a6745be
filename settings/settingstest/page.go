// Package settingstest keeps docs/settings.md true.
package settingstest

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/settings"
)

var update = flag.Bool("update-settings", false, "write docs/settings.md")

// Page compares the section of a program with its settings. The section begins with the
// comment <!-- PROGRAM --> and ends with <!-- end -->. page is the path of docs/settings.md.
func Page(t *testing.T, page string, p settings.Program) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+p.Name+" -->\n", "<!-- end -->"
	before, rest, found := strings.Cut(string(text), begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no section between %q and %q", page, begin, end)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+p.Table()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(p.Table(), got); diff != "" {
		t.Errorf("%s is not of today (go test ./%s -run TestSettingsPage -update-settings) (-want +got):\n%s", page, p.Name, diff)
	}
}
