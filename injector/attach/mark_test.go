//go:build linux

package attach

import (
	"regexp"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestMarks(t *testing.T) {
	of := func(disruption, target types.UID) Mark {
		return MarkOf(v1beta1.Injection{Disruption: v1beta1.DisruptionRef{UID: disruption}, Target: v1beta1.InjectionTarget{UID: target}})
	}
	m := of("8d9a7c1e-52f0-4b5e", "t-1")
	if !regexp.MustCompile(`^squall_[a-z0-9]{8}$`).MatchString(m.Program) {
		t.Errorf("program = %q, want a name that the kernel takes", m.Program)
	}
	for _, other := range []Mark{of("8d9a7c1e-52f0-4b5e", "t-2"), of("8d9a7c1e-52f0-4b5f", "t-1")} {
		if other.Program == m.Program {
			t.Errorf("program = %q for two injections", m.Program)
		}
	}
	for name, want := range map[string]bool{
		"squall:8d9a7c1e-52f0-4b5e:t-1":        true,
		"squall:8d9a7c1e-52f0-4b5e:t-1:clsact": true,
		"squall:8d9a7c1e-52f0-4b5e:t-10":       false,
		"squall:8d9a7c1e-52f0-4b5e:t-2":        false,
		"squall:another:t-1:clsact":            false,
		"foreign":                              false,
	} {
		if m.Owns(name) != want {
			t.Errorf("owns(%q) = %v, want %v", name, !want, want)
		}
	}
}
