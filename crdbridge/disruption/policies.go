package disruption

import (
	"fmt"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/window"
)

// windowLeeway is how long a window counts after its end: the clock of the worker, which
// judges, may be that far behind.
const windowLeeway = 5 * time.Second

// policyChanges lists the policies by generation, and each rule that stops matching the
// disruption when a window ends. It is nil unless the disruption would choose more targets
// if policies denied fewer. The worker judges what they deny.
func policyChanges(s snapshot) []string {
	if !wantsTargets(s.disruption) {
		return nil
	}
	var changes []string
	for i := range s.policies {
		p := &s.policies[i]
		changes = append(changes, fmt.Sprintf("policy %s of generation %d", p.UID, p.Generation))
		for _, rule := range p.Spec.Rules {
			if _, waits := windowsEnd(s, rule); waits {
				changes = append(changes, "until a window ends: rule "+rule.Name)
			}
		}
	}
	return changes
}

// nextWindowEnd is the time until policyChanges changes because a window ends, at most
// `most`.
func nextWindowEnd(s snapshot, most time.Duration) time.Duration {
	for i := range s.policies {
		for _, rule := range s.policies[i].Spec.Rules {
			if end, waits := windowsEnd(s, rule); waits {
				most = min(most, end.Add(windowLeeway).Sub(s.at))
			}
		}
	}
	return most
}

// windowsEnd is when the last window that overlaps the rest of the disruption's time ends.
// waits is false if no window overlaps, or if the windows outlast the disruption.
func windowsEnd(s snapshot, rule v1beta1.PolicyRule) (end time.Time, waits bool) {
	created := s.disruption.CreationTimestamp.Time
	from, until := s.disruption.Spec.TimeToInject(created), s.disruption.Spec.Expiry(created)
	if now := s.at.Add(-windowLeeway); from.Before(now) {
		from = now
	}
	end, touch := window.LastEnd(rule.Windows, from, until)
	return end, touch && end.Before(until)
}
