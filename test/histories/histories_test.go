package histories

import (
	"os"
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
