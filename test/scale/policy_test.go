package scale

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

// TestPolicies shows that a worker as it is shipped judges by policies, and that it
// costs no call.
func TestPolicies(t *testing.T) {
	w := world.Start(t)
	one := int32(1)
	here := []string{w.Shop} // the other tests have the same API server
	policy := &v1beta1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1beta1.DisruptionPolicySpec{Rules: []v1beta1.PolicyRule{
		{Name: "one-at-once", Namespaces: here, AtMost: &v1beta1.PolicyLimit{Targets: &one}},
		{Name: "no-nodes", Namespaces: here, Level: v1beta1.LevelNode, Reason: "they are few"},
	}}}
	w.Must(w.Disruptions.Create(w.Context(), policy))
	w.Cleanup(func() { w.Must(w.Disruptions.Delete(context.Background(), policy)) })
	s := scale{w, w.Worker().Start(), w.Bridge().Start()}
	w.Targets(3)

	before := w.Meter.Settled(w)
	first := w.Create(w.Disruption("first", 1))
	w.Injected(first)
	made := w.Meter.Settled(w).Since(before)
	if reads := made["GET disruptionpolicies"] + made["LIST disruptionpolicies"]; reads > 0 {
		t.Errorf("the policies were read %d times, want what the watch has", reads)
	}

	second := w.Create(w.Disruption("second", 1))
	s.reports(second, v1beta1.ConditionTargetsSelected, v1beta1.ReasonDenied, `rule "one-at-once" of DisruptionPolicy "prod"`)
	nodes := w.Disruption("nodes", 1)
	nodes.Spec.Level = v1beta1.LevelNode
	nodes = w.Create(nodes)
	s.reports(nodes, v1beta1.ConditionAccepted, v1beta1.ReasonDenied, `rule "no-nodes" of DisruptionPolicy "prod": they are few`)
	if nodes.Status.Phase != v1beta1.PhaseRejected {
		t.Errorf("phase = %s, want Rejected", nodes.Status.Phase)
	}
	for _, d := range []*v1beta1.Disruption{first, second, nodes} {
		w.Delete(d)
	}
}

// reports waits until a condition of d is False for a reason, with this text.
func (w scale) reports(d *v1beta1.Disruption, condition, reason, message string) {
	w.Helper()
	world.Eventually(w, time.Minute, d.Name+" says: "+message, func() bool {
		w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		c := meta.FindStatusCondition(d.Status.Conditions, condition)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, message)
	})
}
