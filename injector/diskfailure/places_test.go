//go:build linux

package diskfailure

import (
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// Only a path written as the root of a node counts as the root. Another path that leads
// there, by a link or by "..", needed no right at admission.
func TestPathsThatLeadToTheRootOfANode(t *testing.T) {
	for file, refused := range map[string]bool{"/": false, "//./": false, "/tmp/..": true, "/tmp/../": true, "/link": true} {
		i := New(v1beta1.DiskFailure{}, &target.Target{Injection: v1beta1.Injection{Level: v1beta1.LevelNode}}, nil)
		err := i.add(&order{}, file, places{prefixes: []string{"/"}}, nil)
		if got := err != nil && strings.Contains(err.Error(), "it leads to the node's root"); got != refused {
			t.Errorf("add(%q) = %v, want it refused as the node's root: %t", file, err, refused)
		}
	}
}
