package story

import (
	"encoding/json"
	"time"

	historypb "go.temporal.io/api/history/v1"

	"github.com/squall-chaos/squall/cli/chart"
)

// course has the answers to a probe by one group, as a history keeps them.
type course struct {
	Probe   string     `json:"probe"`
	Group   string     `json:"group"`
	Seconds int64      `json:"seconds"`
	Points  [][3]int32 `json:"points"`
}

// answers gathers the answers to probes from the events of a history, in their order: the
// results of AskProbes, or the state it left to the next AskProbes.
type answers struct {
	asked map[int64]int // by the event that scheduled it: the index of its phase
	// phases are the phases with answers, in order.
	phases []askedPhase
}

type askedPhase struct {
	name    string
	began   time.Time
	courses []course
}

// add processes an event.
func (a *answers) add(e *historypb.HistoryEvent) {
	if scheduled := e.GetActivityTaskScheduledEventAttributes(); scheduled.GetActivityType().GetName() == "AskProbes" {
		var in struct {
			Phase  string
			Began  time.Time
			Resume *struct{ Courses []course }
		}
		if json.Unmarshal(first(scheduled.GetInput()).GetData(), &in) != nil {
			return
		}
		last := len(a.phases) - 1
		if last < 0 || a.phases[last].name != in.Phase {
			a.phases = append(a.phases, askedPhase{name: in.Phase, began: in.Began})
			last++
		}
		if in.Resume != nil {
			a.phases[last].courses = in.Resume.Courses
		}
		if a.asked == nil {
			a.asked = map[int64]int{}
		}
		a.asked[e.GetEventId()] = last
	}
	if done := e.GetActivityTaskCompletedEventAttributes(); done != nil {
		phase, asked := a.asked[done.GetScheduledEventId()]
		var out struct{ Courses []course }
		if asked && json.Unmarshal(first(done.GetResult()).GetData(), &out) == nil && len(out.Courses) > 0 {
			a.phases[phase].courses = out.Courses
		}
	}
}

// series are the series to draw.
func (a *answers) series() (all []chart.Series) {
	for _, phase := range a.phases {
		for _, c := range phase.courses {
			group := "targets"
			if c.Group == chart.Control {
				group = chart.Control
			}
			if len(c.Points) > 0 {
				all = append(all, chart.Series{Probe: c.Probe, Group: group, Phase: phase.name, Began: phase.began, Seconds: c.Seconds, Points: c.Points})
			}
		}
	}
	return all
}
