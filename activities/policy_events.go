package activities

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// recordDenial records an event on each policy whose rule denial names, so that the
// policy's author sees what it denied. Each pair of rule and disruption has one event.
func (a *Activities) recordDenial(ctx context.Context, d *v1beta1.Disruption, denial string) {
	if a.Policies == nil || denial == "" {
		return
	}
	for _, rule := range policy.Rules(a.Policies.Policies(), d, time.Now()) {
		if !strings.Contains(denial, rule.String()) {
			continue
		}
		about := &metav1.ObjectMeta{Name: rule.Policy, UID: rule.PolicyUID}
		a.events().Of(ctx, v1beta1.KindDisruptionPolicy, about, corev1.EventTypeNormal, "Denied",
			fmt.Sprintf("rule %q, Disruption %s/%s: %s", rule.Name, d.Namespace, d.Name, denial), string(d.UID)+"/"+rule.Name)
	}
}
