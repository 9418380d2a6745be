package run

import (
	"context"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/report"
)

// manifestOf is the object of a manifest, before it is created. One of both is nil.
type manifestOf struct {
	disruption *v1beta1.Disruption
	scenario   *v1beta1.DisruptionScenario
}

// ReportInto implements report.Subject.
func (m manifestOf) ReportInto(_ context.Context, r *report.Report) {
	if m.disruption != nil {
		r.Disruptions = append(r.Disruptions, report.Of(m.disruption, false))
		return
	}
	r.Scenario, r.Disruptions = report.OfScenario(m.scenario, nil)
}

// watching is an object during a run, with the changes that were seen.
type watching struct {
	last *v1beta1.Disruption
	gone bool
	seen []report.Moment
}

// see stores the object as it is now; nil if it is gone.
func (w *watching) see(now *v1beta1.Disruption, at time.Time) {
	if w.gone = now == nil; w.gone {
		return
	}
	w.last = now
	moment := report.MomentOf(now, at)
	if n := len(w.seen); n == 0 || !w.seen[n-1].Same(moment) {
		w.seen = append(w.seen, moment)
	}
}

func (w *watching) report() report.Disruption {
	d := report.Of(w.last, w.gone)
	d.Timeline = w.seen
	return d
}
