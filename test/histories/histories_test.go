package histories

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
)

func TestEachHistoryHasOneName(t *testing.T) {
	seen := map[string]string{}
	for _, file := range Files {
		if other, twice := seen[file.Name]; twice {
			t.Errorf("%s is recorded by %s and by %s: the later would overwrite the other", file.Name, other, file.Recorder)
		}
		seen[file.Name] = file.Recorder
		if len(file.Paths) == 0 {
			t.Errorf("%s: nothing says what it is there for", file.Name)
		}
	}
}

var small = &history.History{Events: []*history.HistoryEvent{
	{EventId: 1, EventType: enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, Attributes: &history.HistoryEvent_ActivityTaskScheduledEventAttributes{
		ActivityTaskScheduledEventAttributes: &history.ActivityTaskScheduledEventAttributes{ActivityType: &common.ActivityType{Name: "SweepRecords"}}}},
	{EventId: 2, EventType: enums.EVENT_TYPE_ACTIVITY_TASK_STARTED, Attributes: &history.HistoryEvent_ActivityTaskStartedEventAttributes{
		ActivityTaskStartedEventAttributes: &history.ActivityTaskStartedEventAttributes{ScheduledEventId: 1, Attempt: 2}}},
	{EventId: 3, EventType: enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED, Attributes: &history.HistoryEvent_ActivityTaskScheduledEventAttributes{
		ActivityTaskScheduledEventAttributes: &history.ActivityTaskScheduledEventAttributes{ActivityType: &common.ActivityType{Name: "SweepNodes"}}}},
	{EventId: 4, EventType: enums.EVENT_TYPE_TIMER_FIRED},
}}

func TestPaths(t *testing.T) {
	want := map[string]int{"activity SweepRecords": 1, "retried SweepRecords": 1, "activity SweepNodes": 1, "timer fired": 1}
	if diff := cmp.Diff(want, Paths(small)); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	file := File{Paths: []string{"timer fired", "activity SweepNodes:2", "new run"}}
	if got, want := file.Missing(small), []string{"activity SweepNodes:2 (1 times)", "new run (0 times)"}; !slices.Equal(got, want) {
		t.Errorf("missing = %q, want %q", got, want)
	}
}

func TestKeepRefuses(t *testing.T) {
	for _, c := range []struct{ name, recorder, history, want string }{
		{"a name that nobody knows", Played, "none", "is not recorded by"},
		{"the name of another recorder", Cluster, "sweep", "is not recorded by"},
		{"a history that lacks a path", Played, "many-targets", "lacks"},
		{"nothing that is right", Played, "sweep", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			directory := t.TempDir()
			err := Keep(directory, c.recorder, c.history, small)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Keep = %v, want %q", err, c.want)
			}
			if written, _ := os.ReadDir(directory); len(written) > 0 != (c.want == "") {
				t.Errorf("%d files were written", len(written))
			}
		})
	}
}

// TestFreeze: frozen histories are found again with their sum and are not written
// any more. The next recordings belong to the next generation. A second recording
// of a history replaces the first.
func TestFreeze(t *testing.T) {
	root := t.TempDir()
	all := filepath.Join(root, "workflows", "testdata", "histories")
	list := filepath.Join(root, "test", "histories", "list.go")
	for path, text := range map[string]string{
		list: "package histories\n\nconst Released = 0\n", filepath.Join(all, "1", "healthy.json"): "healthy", filepath.Join(all, "1", "sweep.json"): "sweep",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second after one that was interrupted before it counted
		if err := os.WriteFile(list, []byte("package histories\n\nconst Released = 0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if generation, files, err := Freeze(root); err != nil || generation != 1 || files != 2 {
			t.Fatalf("Freeze = generation %d of %d histories, %v", generation, files, err)
		}
	}
	sums, _ := os.ReadFile(filepath.Join(all, "1", Sums))
	if want := fmt.Sprintf("%x  healthy.json\n%x  sweep.json\n", sha256.Sum256([]byte("healthy")), sha256.Sum256([]byte("sweep"))); string(sums) != want {
		t.Errorf("sums are\n%s, want\n%s", sums, want)
	}
	if text, _ := os.ReadFile(list); string(text) != "package histories\n\nconst Released = 1\n" {
		t.Errorf("the list is\n%s", text)
	}
	if _, _, err := Freeze(root); err == nil || !strings.Contains(err.Error(), "generation 2 has no history") {
		t.Errorf("a second release without a new history: %v", err)
	}
	if err := Keep(filepath.Join(all, "1"), Played, "sweep", small); err == nil || !strings.Contains(err.Error(), "is released and stays") {
		t.Errorf("recording into what is frozen: %v", err)
	}
	if err := Keep(filepath.Join(all, "2"), Played, "sweep", small); err != nil {
		t.Error(err)
	}
	for name, generation := range map[string]string{"healthy": "1", "sweep": "2"} {
		if path, err := Newest(all, name); err != nil || path != filepath.Join(all, generation, name+".json") {
			t.Errorf("Newest(%s) = %s, %v, want generation %s", name, path, err, generation)
		}
	}
	if _, err := Newest(all, "expired"); err == nil || !strings.Contains(err.Error(), Cluster) {
		t.Errorf("a history that nobody recorded: %v, want its recorder", err)
	}
}

// The list that a release counts up in is this one.
func TestTheListCountsReleases(t *testing.T) {
	text, err := os.ReadFile("list.go")
	if err != nil {
		t.Fatal(err)
	}
	if count, err := released(text); err != nil || count != Released {
		t.Errorf("list.go counts %d releases, %v; want %d", count, err, Released)
	}
}
