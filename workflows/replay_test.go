package workflows

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/workflows/contract"
)

// TestReplay replays what real disruptions went through on a real cluster: a
// change of the workflow that running disruptions would not survive fails here
// (rule T3). Each directory is the generation of one release, see
// docs/upgrades.md; test/e2e and test/scale record the newest.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 5 {
		t.Fatalf("found %d histories, want at least 5: healthy, expired, deleted while injecting, many targets, stuck", len(files))
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file)) + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			replayer := worker.NewWorkflowReplayer()
			replayer.RegisterWorkflowWithOptions(Disruption, workflow.RegisterOptions{Name: contract.WorkflowType})
			replayer.RegisterWorkflowWithOptions(Sweep, workflow.RegisterOptions{Name: contract.SweepWorkflowType})
			if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
				t.Error(err)
			}
		})
	}
}

// A generation with a file SHA256SUMS is released: its histories stay as they
// are, for good.
func TestReleasedHistoriesStay(t *testing.T) {
	for _, wrong := range changedReleases(t, "testdata/histories") {
		t.Errorf("%s: it is released, and not as it was; record into the next generation", wrong)
	}
	t.Run("one that is not as it was is found", func(t *testing.T) {
		histories := t.TempDir()
		for path, text := range map[string]string{
			"1/kept.json": "kept", "1/changed.json": "changed", "2/open.json": "open",
			"1/SHA256SUMS": fmt.Sprintf("%x  kept.json\n%x  changed.json\n", sha256.Sum256([]byte("kept")), sha256.Sum256([]byte("as it was"))),
		} {
			path = filepath.Join(histories, path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := changedReleases(t, histories), []string{"1/changed.json"}; !slices.Equal(got, want) {
			t.Errorf("changed = %v, want %v", got, want)
		}
	})
}

// changedReleases are the histories of released generations that are not as
// they were.
func changedReleases(t *testing.T, histories string) (changed []string) {
	t.Helper()
	released, err := filepath.Glob(filepath.Join(histories, "*", "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sums := range released {
		text, err := os.ReadFile(sums)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range changedSince(filepath.Dir(sums), string(text)) {
			changed = append(changed, filepath.Base(filepath.Dir(sums))+"/"+name)
		}
	}
	return changed
}

// changedSince lists the histories of a directory that are not those of the sums.
func changedSince(directory, sums string) (wrong []string) {
	want := map[string]string{}
	for line := range strings.Lines(sums) {
		if sum, name, found := strings.Cut(strings.TrimSpace(line), "  "); found {
			want[name] = sum
		}
	}
	files, _ := filepath.Glob(filepath.Join(directory, "*.json"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if name := filepath.Base(file); err != nil || fmt.Sprintf("%x", sha256.Sum256(text)) != want[name] {
			wrong = append(wrong, name)
		}
		delete(want, filepath.Base(file))
	}
	return append(wrong, slices.Sorted(maps.Keys(want))...)
}

func TestChangedSince(t *testing.T) {
	directory := t.TempDir()
	for _, name := range []string{"kept.json", "changed.json", "added.json"} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sums := fmt.Sprintf("%x  kept.json\n%064d  changed.json\n%064d  lost.json\n", sha256.Sum256([]byte("kept.json")), 1, 2)
	if got, want := changedSince(directory, sums), []string{"added.json", "changed.json", "lost.json"}; !slices.Equal(got, want) {
		t.Errorf("changed = %v, want %v", got, want)
	}
}
