package run

import (
	"context"
	"slices"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/report"
)

// manifestOf is the object of a manifest, before it is created. One of both is nil.
type manifestOf struct {
	disruption *v1beta1.Disruption
	scenario   *v1beta1.DisruptionScenario
}

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

func (d *attended) ReportInto(_ context.Context, r *report.Report) {
	described := d.report()
	r.Disruptions = append(r.Disruptions, described)
	if d.ended {
		r.Outcome, r.Why = described.Outcome, described.Why
	}
}

func (s *attendedScenario) ReportInto(ctx context.Context, r *report.Report) {
	if owned, err := s.client.DisruptionsOf(ctx, s.last); err == nil {
		s.seeDisruptions(owned)
	}
	seen := map[string]report.Disruption{}
	for uid, one := range s.disruptions {
		seen[string(uid)] = one.report()
	}
	r.Scenario, r.Disruptions = report.OfScenario(s.last, seen)
	if s.result != nil {
		r.Outcome, r.Why = s.result.Outcome, s.result.Why
	}
}

// seeDisruptions stores the current disruptions of the scenario.
func (s *attendedScenario) seeDisruptions(owned []v1beta1.Disruption) {
	for uid, one := range s.disruptions {
		if !slices.ContainsFunc(owned, func(d v1beta1.Disruption) bool { return d.UID == uid }) {
			one.see(nil, s.Now())
		}
	}
	for i := range owned {
		d := &owned[i]
		if s.disruptions[d.UID] == nil {
			s.disruptions[d.UID] = &watching{}
		}
		s.disruptions[d.UID].see(d, s.Now())
	}
}
