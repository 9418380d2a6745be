package permission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// RecordDenial records an event on the policy of each rule that a judgement applied, so
// that the author of the policy sees what it denied. denial is the judgement's text. A rule
// and a disruption have one event. A rule of no policy, such as safe mode, has none.
func RecordDenial(ctx context.Context, c *cluster.Cluster, d *v1beta1.Disruption, denial string, applied []policy.Rule) {
	for _, rule := range applied {
		if rule.Policy == "" {
			continue
		}
		about := &metav1.ObjectMeta{Name: rule.Policy, UID: rule.PolicyUID}
		cluster.Events(c.Kube).Of(ctx, v1beta1.KindDisruptionPolicy, about, corev1.EventTypeNormal, "Denied",
			fmt.Sprintf("rule %q, Disruption %s/%s: %s", rule.Name, d.Namespace, d.Name, denial), string(d.UID)+"/"+rule.Name)
	}
}
