package permission

import (
	"context"

	"github.com/squall-chaos/squall/activities/census"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// SafeMode catches disruptions of more targets than their author may have meant. It checks
// a disruption when it begins and at each choice of targets. nil is off.
type SafeMode struct {
	// Enforced denies a disruption that safe mode catches; otherwise status has a warning.
	Enforced   bool
	Thresholds policy.Thresholds
	// Census has the numbers of pods and nodes, without an API call.
	Census *census.Watch
}

// Run keeps the census up to date until ctx ends.
func (s *SafeMode) Run(ctx context.Context) {
	if s != nil {
		s.Census.Run(ctx)
	}
}

// Sync waits until the census is complete.
func (s *SafeMode) Sync(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.Census.Sync(ctx)
}

// Rules deny a disruption that safe mode catches by its spec alone, where safe mode is
// enforced. Admission checks this too, but not for older objects.
func (s *SafeMode) Rules(d *v1beta1.Disruption) (rules []policy.Rule) {
	if s == nil || !s.Enforced {
		return nil
	}
	for _, why := range d.Spec.CaughtBySafeMode() {
		rules = append(rules, policy.SafeMode(why))
	}
	return rules
}

// Limits deny every target of a disruption that selects too large a share of the pods or
// nodes, where safe mode is enforced.
func (s *SafeMode) Limits(d *v1beta1.Disruption, healthy []targets.Candidate) []policy.Rule {
	if s == nil || !s.Enforced {
		return nil
	}
	if why := s.tooMany(d, healthy); why != "" {
		return []policy.Rule{policy.SafeMode(why)}
	}
	return nil
}

// Warning is the reason of Limits where safe mode is not enforced; empty if there is none.
func (s *SafeMode) Warning(d *v1beta1.Disruption, healthy []targets.Candidate) string {
	if s == nil || s.Enforced {
		return ""
	}
	return s.tooMany(d, healthy)
}

// tooMany compares a list of this moment with a count that may be a moment older.
func (s *SafeMode) tooMany(d *v1beta1.Disruption, healthy []targets.Candidate) string {
	var of policy.Population
	of.Namespace, of.Cluster = s.Census.Pods(d.Namespace)
	of.Namespace, of.Nodes = max(of.Namespace, len(healthy)), max(s.Census.Nodes(), len(healthy))
	return s.Thresholds.TooMany(d, targets.Wanted(d.Spec, healthy), of)
}
