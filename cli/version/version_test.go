package version_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/version"
)

func TestVersionOfTheAPI(t *testing.T) {
	if want := v1beta1.GroupVersion.String(); version.API != want {
		t.Errorf("version %q of the API, want %q", version.API, want)
	}
}

// squall prints the version before clients are ready, with the text of the other formats.
func TestVersionDoesNotWaitForClients(t *testing.T) {
	squall := filepath.Join(t.TempDir(), "squall")
	noted := "-X github.com/squall-chaos/squall/cli/version.Version=v1.2.3 -X github.com/squall-chaos/squall/cli/version.Revision=0123456789abcdef"
	if out, err := exec.Command("go", "build", "-ldflags", noted, "-o", squall, "..").CombinedOutput(); err != nil {
		t.Fatalf("build squall: %v\n%s", err, out)
	}
	printed := func(args ...string) (output, initialized string) {
		command := exec.Command(squall, args...)
		command.Env = append(command.Environ(), "GODEBUG=inittrace=1")
		var errors strings.Builder
		command.Stderr = &errors
		out, err := command.Output()
		if err != nil {
			t.Fatalf("squall %q: %v\n%s", args, err, errors.String())
		}
		return string(out), errors.String()
	}
	const client = "init k8s.io/client-go"
	output, initialized := printed(version.Command)
	if strings.Contains(initialized, client) || !strings.Contains(initialized, "init os ") {
		t.Errorf("squall version initialized, want no client of it:\n%s", initialized)
	}
	full, initialized := printed(version.Command, "--help=false")
	if !strings.Contains(initialized, client) {
		t.Fatalf("squall as a whole initializes no client: nothing was proven")
	}
	if output != full || !strings.HasPrefix(output, "squall v1.2.3, API ") || !strings.HasSuffix(output, ", revision 0123456789ab\n") {
		t.Errorf("squall version says %q and %q, want the same", output, full)
	}
}
