package disruption

import (
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// policyNews is which DisruptionPolicies there are, for a disruption that would choose
// more targets if they denied fewer; nil for any other. What they deny it is the worker
// that judges.
func policyNews(d *v1beta1.Disruption, policies []v1beta1.DisruptionPolicy) []string {
	if !wantsTargets(d) {
		return nil
	}
	var news []string
	for i := range policies {
		news = append(news, fmt.Sprintf("policy %s of generation %d", policies[i].UID, policies[i].Generation))
	}
	return news
}
