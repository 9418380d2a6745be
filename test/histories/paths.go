package histories

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
)

// Paths counts what a workflow came by: activities and local activities by
// name, and what became of them; signals, updates, timers; how it began and
// ended.
func Paths(all *history.History) map[string]int {
	paths, names := map[string]int{}, map[int64]string{}
	for _, event := range all.GetEvents() {
		if scheduled := event.GetActivityTaskScheduledEventAttributes(); scheduled != nil {
			names[event.EventId] = scheduled.ActivityType.Name
		}
		if path := activityPath(event, names); path != "" {
			paths[path]++
		}
		if path := messagePath(event); path != "" {
			paths[path]++
		}
	}
	return paths
}

// activityPath relates an event to an activity; names has the scheduled ones.
func activityPath(event *history.HistoryEvent, names map[int64]string) string {
	switch event.EventType {
	case enums.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		return "activity " + names[event.EventId]
	case enums.EVENT_TYPE_ACTIVITY_TASK_STARTED:
		if started := event.GetActivityTaskStartedEventAttributes(); started.Attempt > 1 {
			return "retried " + names[started.ScheduledEventId]
		}
	case enums.EVENT_TYPE_ACTIVITY_TASK_FAILED:
		return "failed " + names[event.GetActivityTaskFailedEventAttributes().ScheduledEventId]
	case enums.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
		return "timed out " + names[event.GetActivityTaskTimedOutEventAttributes().ScheduledEventId]
	case enums.EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED:
		return "cancel " + names[event.GetActivityTaskCancelRequestedEventAttributes().ScheduledEventId]
	case enums.EVENT_TYPE_MARKER_RECORDED:
		return localPath(event.GetMarkerRecordedEventAttributes())
	}
	return ""
}

func localPath(marker *history.MarkerRecordedEventAttributes) string {
	var local struct{ ActivityType string }
	data := marker.GetDetails()["data"].GetPayloads()
	if marker.MarkerName != "LocalActivity" || len(data) == 0 || json.Unmarshal(data[0].Data, &local) != nil {
		return "marker " + marker.MarkerName
	}
	if marker.Failure != nil {
		return "failed locally " + local.ActivityType
	}
	return "local " + local.ActivityType
}

// messagePath relates an event to a message from or to the world outside.
func messagePath(event *history.HistoryEvent) string {
	switch event.EventType {
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		if event.GetWorkflowExecutionStartedEventAttributes().ContinuedExecutionRunId != "" {
			return "carried over"
		}
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		return "signal " + event.GetWorkflowExecutionSignaledEventAttributes().SignalName
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		return "update " + event.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput().GetName()
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		return "cancelled by a person"
	case enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
		return "child " + path.Base(event.GetStartChildWorkflowExecutionInitiatedEventAttributes().GetWorkflowId())
	case enums.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED:
		return "not started " + path.Base(event.GetStartChildWorkflowExecutionFailedEventAttributes().GetWorkflowId())
	case enums.EVENT_TYPE_TIMER_FIRED:
		return "timer fired"
	case enums.EVENT_TYPE_TIMER_CANCELED:
		return "timer canceled"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
		return "new run"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		return "failed"
	case enums.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		return "ended: " + ending(event.GetWorkflowExecutionCompletedEventAttributes())
	}
	return ""
}

// ending is the field of that name in the workflow's result.
func ending(completed *history.WorkflowExecutionCompletedEventAttributes) string {
	var result struct{ Ending string }
	if payloads := completed.GetResult().GetPayloads(); len(payloads) > 0 {
		_ = json.Unmarshal(payloads[0].Data, &result) // a sweep has none
	}
	return result.Ending
}

// Missing are the paths of the file that the history does not have.
func (f File) Missing(all *history.History) (missing []string) {
	paths := Paths(all)
	for _, want := range f.Paths {
		path, least := want, 1
		if i := strings.LastIndex(want, ":"); i > 0 {
			if n, err := strconv.Atoi(want[i+1:]); err == nil {
				path, least = want[:i], n
			}
		}
		if paths[path] < least {
			missing = append(missing, fmt.Sprintf("%s (%d times)", want, paths[path]))
		}
	}
	return missing
}
