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

// policyNews is which DisruptionPolicies there are, and which of their rules cease to be
// about the disruption when a window ends, for one that would choose more targets if
// they denied fewer; nil for any other. What they deny it is the worker that judges.
func policyNews(s snapshot) []string {
	if !wantsTargets(s.disruption) {
		return nil
	}
	var news []string
	for i := range s.policies {
		p := &s.policies[i]
		news = append(news, fmt.Sprintf("policy %s of generation %d", p.UID, p.Generation))
		for _, rule := range p.Spec.Rules {
			if _, waits := windowsEnd(s, rule); waits {
				news = append(news, "until a window ends: rule "+rule.Name)
			}
		}
	}
	return news
}

// nextWindowEnd is how long it takes until policyNews changes because a window ends, at
// most so long.
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

// windowsEnd is when the windows of a rule leave the rest of the disruption's time alone;
// false if they do, or never will.
func windowsEnd(s snapshot, rule v1beta1.PolicyRule) (end time.Time, waits bool) {
	created := s.disruption.CreationTimestamp.Time
	from, until := s.disruption.Spec.TimeToInject(created), s.disruption.Spec.Expiry(created)
	if now := s.at.Add(-windowLeeway); from.Before(now) {
		from = now
	}
	end, touch := window.LastEnd(rule.Windows, from, until)
	return end, touch && end.Before(until)
}
