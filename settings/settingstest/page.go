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

// Page compares the sections of a program's own settings and of those that all programs
// have with the page. A section begins with the comment <!-- NAME --> and ends with
// <!-- end -->; that of the others is called common. page is the path of docs/settings.md.
func Page(t *testing.T, page string, p settings.Program) {
	t.Helper()
	own, common := p.Lists()
	for name, want := range map[string]string{p.Name: own, "common": common} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := "<!-- "+name+" -->\n\n", "\n<!-- end -->"
		before, rest, found := strings.Cut(string(text), begin)
		got, after, closed := strings.Cut(rest, end)
		switch {
		case !found || !closed:
			t.Fatalf("%s has no section between %q and %q", page, begin, end)
		case *update:
			if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
				t.Fatal(err)
			}
		case got != want:
			t.Errorf("%s is out of date (go test ./%s -run TestSettingsPage -update-settings) (-want +got):\n%s", page, p.Name, cmp.Diff(want, got))
		}
	}
}
