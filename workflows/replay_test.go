package workflows

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/test/histories"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/disruption"
)

// TestReplay replays what real disruptions went through on a real cluster: a change of
// the workflow that running disruptions would not survive fails here (rule T3). Each
// directory is the generation of one release, see docs/upgrades.md; test/histories lists
// them and the recorder of each.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/histories/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < len(histories.Files) {
		t.Errorf("%d histories, want the %d that test/histories lists", len(files), len(histories.Files))
	}
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file)) + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			replayer := worker.NewWorkflowReplayer()
			registerAll(replayer)
			if err := replayer.ReplayWorkflowHistoryFromJSONFile(nil, file); err != nil {
				t.Error(err)
			}
		})
	}
}

func registerAll(replayer worker.WorkflowReplayer) {
	Register(replayer)
	RegisterNotification(replayer)
}

// A replay cannot find what a recording lost: each history has the paths that it is there
// for, in the newest generation that has it.
func TestHistoriesHaveTheirPaths(t *testing.T) {
	for _, file := range histories.Files {
		t.Run(file.Name, func(t *testing.T) {
			path, err := histories.Newest(filepath.Join("testdata", "histories"), file.Name)
			if err != nil {
				t.Fatal(err)
			}
			all := readHistory(t, path)
			if missing := file.Missing(all); len(missing) > 0 {
				t.Errorf("%s lacks %q; it has %v: record it with the tests of %s", file.Name, missing, histories.Paths(all), file.Recorder)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "histories", histories.Generation, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, found := histories.Find(strings.TrimSuffix(filepath.Base(file), ".json")); !found {
			t.Errorf("%s: nobody records it; list it in test/histories", file)
		}
	}
}

func readHistory(t *testing.T, path string) *history.History {
	t.Helper()
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	all, err := client.HistoryFromJSON(reader, client.HistoryJSONOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A replay distinguishes a change of the workflow's commands without a version from one
// that has a version (rule T3): without this TestReplay could not fail.
func TestAnUnguardedChangeIsFound(t *testing.T) {
	const change = "wait a second before all else"
	unguarded := func(ctx workflow.Context, in disruption.Input) (disruption.Result, error) {
		_ = workflow.Sleep(ctx, time.Second)
		return disruption.Workflow(ctx, in)
	}
	guarded := func(ctx workflow.Context, in disruption.Input) (disruption.Result, error) {
		if workflow.GetVersion(ctx, change, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
			return disruption.Workflow(ctx, in)
		}
		return unguarded(ctx, in)
	}
	file := filepath.Join("testdata", "histories", "1", "expired.json") // of the first release
	replay := func(disruption any) error {
		replayer := worker.NewWorkflowReplayer()
		replayer.RegisterWorkflowWithOptions(disruption, workflow.RegisterOptions{Name: contract.WorkflowType})
		return replayer.ReplayWorkflowHistoryFromJSONFile(nil, file)
	}
	if err := replay(unguarded); err == nil || !strings.Contains(err.Error(), "nondeterministic") {
		t.Errorf("a new timer that asks for no version: %v, want a nondeterministic workflow", err)
	}
	if err := replay(guarded); err != nil {
		t.Errorf("a new timer that asks for a version: %v", err)
	}
}

// A generation that is released stays as it is, for good (docs/upgrades.md).
func TestReleasedHistoriesStay(t *testing.T) {
	for _, wrong := range changedReleases(t, "testdata/histories", histories.Released) {
		t.Errorf("%s is of a release, and not as it was then: git checkout RELEASE -- workflows/testdata/histories/%s brings it back; "+
			"record into generation %s what is new. If make freeze was interrupted, do it again", wrong, wrong, histories.Generation)
	}
	t.Run("what is not as it was is found", func(t *testing.T) {
		directory := t.TempDir()
		for path, text := range map[string]string{
			"1/kept.json": "kept", "1/changed.json": "changed", "2/without-sums.json": "open", "3/half-frozen.json": "half", "4/open.json": "open",
			"1/SHA256SUMS": fmt.Sprintf("%x  kept.json\n%x  changed.json\n", sha256.Sum256([]byte("kept")), sha256.Sum256([]byte("as it was"))),
			"3/SHA256SUMS": fmt.Sprintf("%x  half-frozen.json\n", sha256.Sum256([]byte("half"))),
		} {
			path = filepath.Join(directory, path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := changedReleases(t, directory, 2), []string{"1/changed.json", "2/SHA256SUMS", "3/SHA256SUMS"}; !slices.Equal(got, want) {
			t.Errorf("changed = %v, want %v", got, want)
		}
	})
}

// changedReleases are the files of the first released generations that have changed, and
// sums of a generation that is not released.
func changedReleases(t *testing.T, directory string, released int) (changed []string) {
	t.Helper()
	for generation := 1; ; generation++ {
		name := strconv.Itoa(generation)
		text, err := os.ReadFile(filepath.Join(directory, name, histories.Sums))
		switch {
		case err == nil && generation > released, err != nil && generation <= released:
			changed = append(changed, name+"/"+histories.Sums)
		case generation <= released:
			for _, file := range changedSince(filepath.Join(directory, name), string(text)) {
				changed = append(changed, name+"/"+file)
			}
		}
		if _, err := os.Stat(filepath.Join(directory, name)); err != nil && generation > released {
			return changed
		}
	}
}

// changedSince lists the histories of a directory that differ from the sums.
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
