package disruption

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
)

// Who lacks targets hears of what policies say; nobody else does.
func TestObserveTellsOfPolicies(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*v1beta1.Disruption)
		want   bool
	}{
		{"it wants more targets", func(*v1beta1.Disruption) {}, true},
		{"static, and it has none", func(d *v1beta1.Disruption) { d.Spec.StaticTargeting, d.Status.SelectedTargetsCount = true, 0 }, true},
		{"static, and it has some", func(d *v1beta1.Disruption) { d.Spec.StaticTargeting = true }, false},
		{"it has all that it wants", func(d *v1beta1.Disruption) { d.Status.SelectedTargetsCount = 2 }, false},
		{"it ends", func(d *v1beta1.Disruption) { d.Status.Phase = v1beta1.PhaseCleaning }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := holding()
			s.d.Status.DesiredTargetsCount, s.d.Status.SelectedTargetsCount = 2, 1
			test.change(s.d)
			s.d.Status.SpecHash = s.d.Spec.Hash()
			seen := s.snapshot()
			hashOf := func(generations ...int64) string {
				seen.policies = nil
				for _, generation := range generations {
					seen.policies = append(seen.policies, v1beta1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Generation: generation}})
				}
				return observe(seen).Hash
			}
			if told := hashOf(1) != hashOf(2); told != test.want {
				t.Errorf("of an edit it is told %t, want %t", told, test.want)
			}
			if told := hashOf(1) != hashOf(); told != test.want {
				t.Errorf("of a deletion it is told %t, want %t", told, test.want)
			}
		})
	}
}

// The change of a policy is told to who lacks targets, at either level, and to nobody
// else.
func TestAPolicyWakesWhoLacksTargets(t *testing.T) {
	b := newBridge(t).start()
	short, full := b.Disrupt("short"), b.Disrupt("full")
	nodes := b.Disrupt("nodes", func(d *v1beta1.Disruption) {
		d.Spec.Level, d.Spec.Faults = v1beta1.LevelNode, v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}
	})
	for d, selected := range map[*v1beta1.Disruption]int{short: 1, nodes: 1, full: 2} {
		b.SetStatus(d, func(s *v1beta1.DisruptionStatus) {
			s.Phase, s.SpecHash = v1beta1.PhaseHolding, d.Spec.Hash()
			s.DesiredTargetsCount, s.SelectedTargetsCount = 2, selected
		})
		b.Told(d)
	}
	b.Quiet()
	last := func(d *v1beta1.Disruption) string { return b.Temporal.LastObservation(d).Hash }
	ofFull := last(full)
	policy := &v1beta1.DisruptionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: b.Namespace},
		Spec:       v1beta1.DisruptionPolicySpec{Rules: []v1beta1.PolicyRule{{Name: "never", Namespaces: []string{b.Namespace}}}},
	}
	t.Cleanup(func() { _ = b.Kube.Delete(context.Background(), policy) }) // it is of the whole cluster
	woken := func(what string, change func() error) {
		t.Helper()
		ofShort, ofNodes := last(short), last(nodes)
		b.Must(change())
		bridgetest.Eventually(t, bridgetest.Soon, what, func() bool { return last(short) != ofShort && last(nodes) != ofNodes })
	}
	woken("of the policy", func() error { return b.Kube.Create(t.Context(), policy) })
	policy.Spec.Rules[0].Name = "other"
	woken("of its edit", func() error { return b.Kube.Update(t.Context(), policy) })
	woken("of its end", func() error { return b.Kube.Delete(t.Context(), policy) })
	b.Quiet()
	if last(full) != ofFull {
		t.Error("a disruption with all its targets is told of policies")
	}
}
