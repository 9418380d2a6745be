package story

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/squall-chaos/squall/workflows/contract"
)

// chapters gather the steps that a person wants to read from the events of a history, in
// their order: targets, injection, probes, decisions and clean-up. The waits of the
// workflow and its writes of the status are left out.
type chapters struct {
	steps    []Step
	activity map[int64]string // by the event that scheduled it
	probes   map[string]string
	// injected is when every target was, kinds are the injected faults.
	injected time.Time
	kinds    []string
}

func newChapters() *chapters {
	return &chapters{activity: map[int64]string{}, probes: map[string]string{}, steps: []Step{}}
}

// add processes an event.
func (c *chapters) add(e *historypb.HistoryEvent) {
	at := e.GetEventTime().AsTime()
	step := func(format string, args ...any) { c.step(at, fmt.Sprintf(format, args...)) }
	switch e.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		step("begins: %s", textOf(e.GetUserMetadata().GetSummary()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
		scheduled := e.GetActivityTaskScheduledEventAttributes()
		c.activity[e.GetEventId()] = scheduled.GetActivityType().GetName()
		c.asked(at, scheduled.GetActivityType().GetName(), first(scheduled.GetInput()))
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
		done := e.GetActivityTaskCompletedEventAttributes()
		c.done(at, c.activity[done.GetScheduledEventId()], first(done.GetResult()))
	case enumspb.EVENT_TYPE_MARKER_RECORDED:
		details := e.GetMarkerRecordedEventAttributes().GetDetails()
		var local struct{ ActivityType string }
		if json.Unmarshal(first(details["data"]).GetData(), &local) == nil {
			c.done(at, local.ActivityType, first(details["result"]))
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		signal := e.GetWorkflowExecutionSignaledEventAttributes()
		if signal.GetSignalName() == contract.SignalEnd {
			var end struct{ Reason string }
			_ = json.Unmarshal(first(signal.GetInput()).GetData(), &end)
			step("%s", join("is to end", end.Reason))
		}
	case enumspb.EVENT_TYPE_ACTIVITY_TASK_FAILED, enumspb.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
		enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		step("%s", stepOf(e))
	}
}

// step adds a step, unless it repeats the one before it.
func (c *chapters) step(at time.Time, text string) {
	if n := len(c.steps); n == 0 || c.steps[n-1].Text != text {
		c.steps = append(c.steps, Step{at, text})
	}
}

// asked processes the input of an activity that writes the status.
func (c *chapters) asked(at time.Time, activity string, input *commonpb.Payload) {
	var in struct {
		Phase, Ending string
		Left          []struct{ Target, Node, Why string }
		Status        struct {
			Phase, Summary string
			Probes         []struct{ Name, State, Text string }
		}
	}
	if json.Unmarshal(input.GetData(), &in) != nil {
		return
	}
	switch activity {
	case "ReportPhase":
		c.step(at, "phase "+join(in.Phase, in.Ending))
		for _, left := range in.Left {
			c.step(at, fmt.Sprintf("not cleaned up: target %s on node %s: %s", left.Target, left.Node, left.Why))
		}
	case "ReportSteadyState":
		for _, p := range in.Status.Probes {
			if p.State != "" && c.probes[p.Name] != p.State {
				c.probes[p.Name] = p.State
				c.step(at, join(fmt.Sprintf("probe %s is %s", p.Name, p.State), p.Text))
			}
		}
	}
}

// done processes the result of an activity.
func (c *chapters) done(at time.Time, activity string, result *commonpb.Payload) {
	var out struct {
		Kinds                     []string
		Desired, Selected         int
		Injected, Total, Unproven int
		Replaced, Remaining       int
		Stopped                   string
		UnverifiedNodes           []string
		Left                      json.RawMessage
	}
	if json.Unmarshal(result.GetData(), &out) != nil {
		return
	}
	text := ""
	switch activity {
	case "Prepare":
		c.kinds = out.Kinds
	case "SelectTargets":
		text = fmt.Sprintf("selected %d of %d targets", out.Selected, out.Desired)
	case "AwaitInjection":
		text = fmt.Sprintf("injected %d of %d targets", out.Injected, out.Total)
		if out.Unproven > 0 {
			text += fmt.Sprintf(", effect not proven on %d", out.Unproven)
		}
		if c.injected.IsZero() && out.Total > 0 && out.Injected == out.Total {
			c.injected = at
		}
	case "ReplacePods":
		text = fmt.Sprintf("replaced %d of %d pods", out.Replaced, out.Total)
	case "CleanChaosPods":
		text = "cleaned up"
		if out.Remaining > 0 {
			text = fmt.Sprintf("cleans up, %d left", out.Remaining)
		}
		if len(out.UnverifiedNodes) > 0 {
			text += ", not verified on " + strings.Join(out.UnverifiedNodes, ", ")
		}
	case "VerifyNodes":
		var left []string
		if json.Unmarshal(out.Left, &left) == nil && len(left) > 0 {
			text = "may be left: " + strings.Join(left, "; ")
		}
	}
	if text != "" {
		c.step(at, text)
	}
	if out.Stopped != "" {
		c.step(at, "stopped: "+out.Stopped)
	}
}

// shownProbes are the probes with their last states.
func (c *chapters) shownProbes() (all []ProbeState) {
	for name, state := range c.probes {
		all = append(all, ProbeState{name, state})
	}
	slices.SortFunc(all, func(a, b ProbeState) int { return strings.Compare(a.Name, b.Name) })
	return all
}
