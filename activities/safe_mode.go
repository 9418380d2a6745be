package activities

import (
	"context"

	"github.com/squall-chaos/squall/activities/census"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// SafeMode judges disruptions of more than anybody named when they begin and whenever
// they choose targets. nil judges none.
type SafeMode struct {
	// Enforced denies what is caught; otherwise status tells it.
	Enforced   bool
	Thresholds policy.Thresholds
	// Census counts what there is, without a call.
	Census *census.Watch
}

// Run counts until ctx ends.
func (s *SafeMode) Run(ctx context.Context) {
	if s != nil {
		s.Census.Run(ctx)
	}
}

// Sync waits until all is counted.
func (s *SafeMode) Sync(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.Census.Sync(ctx)
}

// rules deny what is caught by its spec alone, where that is enforced. By admission it
// was judged too; not what was created before.
func (s *SafeMode) rules(d *v1beta1.Disruption) (rules []policy.Rule) {
	if s == nil || !s.Enforced {
		return nil
	}
	for _, why := range d.Spec.CaughtBySafeMode() {
		rules = append(rules, policy.SafeMode(why))
	}
	return rules
}

// limits deny every target of a disruption that wants too large a share of what there
// is, where that is enforced.
func (s *SafeMode) limits(d *v1beta1.Disruption, healthy []targets.Candidate) []policy.Rule {
	if s == nil || !s.Enforced {
		return nil
	}
	if why := s.tooMany(d, healthy); why != "" {
		return []policy.Rule{policy.SafeMode(why)}
	}
	return nil
}

// warning says the same where it is not enforced; empty if there is nothing to say.
func (s *SafeMode) warning(d *v1beta1.Disruption, healthy []targets.Candidate) string {
	if s == nil || s.Enforced {
		return ""
	}
	return s.tooMany(d, healthy)
}

// tooMany judges by a list of this moment and a count that may be a moment older.
func (s *SafeMode) tooMany(d *v1beta1.Disruption, healthy []targets.Candidate) string {
	var of policy.Population
	of.Namespace, of.Cluster = s.Census.Pods(d.Namespace)
	of.Namespace, of.Nodes = max(of.Namespace, len(healthy)), max(s.Census.Nodes(), len(healthy))
	return s.Thresholds.TooMany(d, targets.Wanted(d.Spec, healthy), of)
}
