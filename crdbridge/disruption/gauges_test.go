package disruption

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/temporal"
)

func TestCount(t *testing.T) {
	in := func(phase v1beta1.Phase, injected int, conditions ...metav1.Condition) v1beta1.Disruption {
		var d v1beta1.Disruption
		d.Status.Phase, d.Status.InjectedTargetsCount, d.Status.Conditions = phase, injected, conditions
		return d
	}
	not := func(kind, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason}
	}
	stuckThere := in(v1beta1.PhaseHolding, 1)
	stuckThere.Status.IsStuckOnRemoval = true
	for _, test := range []struct {
		name string
		have []v1beta1.Disruption
		want map[string]float64
	}{
		{"none: every number is 0", nil, map[string]float64{}},
		{"one without a phase", []v1beta1.Disruption{in("", 0)}, map[string]float64{"squall_disruptions Pending": 1}},
		{"two that hold", []v1beta1.Disruption{in(v1beta1.PhaseHolding, 3), in(v1beta1.PhaseHolding, 4)},
			map[string]float64{"squall_disruptions Holding": 2, "squall_targets_injected": 7}},
		{"stuck beside targets that still are disturbed", []v1beta1.Disruption{stuckThere},
			map[string]float64{"squall_disruptions Holding": 1, "squall_disruptions_stuck": 1, "squall_targets_injected": 1}},
		{"one target cannot be injected", []v1beta1.Disruption{in(v1beta1.PhaseInjecting, 0, not(v1beta1.ConditionInjected, "InjectionFailed"))},
			map[string]float64{"squall_disruptions Injecting": 1, "squall_disruptions_injection_failing": 1}},
		{"not injected yet is no failure", []v1beta1.Disruption{in(v1beta1.PhaseInjecting, 0, not(v1beta1.ConditionInjected, "NotInjected"))},
			map[string]float64{"squall_disruptions Injecting": 1}},
		{"what failed is over", []v1beta1.Disruption{in(v1beta1.PhaseFinished, 2, not(v1beta1.ConditionInjected, "InjectionFailed"),
			not(v1beta1.ConditionEffectVerified, "Lost"))}, map[string]float64{"squall_disruptions Finished": 1}},
		{"without effect", []v1beta1.Disruption{in(v1beta1.PhaseHolding, 1, not(v1beta1.ConditionEffectVerified, "Lost"))},
			map[string]float64{"squall_disruptions Holding": 1, "squall_disruptions_without_effect": 1, "squall_targets_injected": 1}},
		{"left alone", []v1beta1.Disruption{in(v1beta1.PhasePending, 0, not(v1beta1.ConditionOrchestrated, condition.ReasonNoWorker))},
			map[string]float64{"squall_disruptions Pending": 1, "squall_disruptions_unattended NoWorker": 1}},
		{"reached again", []v1beta1.Disruption{in(v1beta1.PhasePending, 0, metav1.Condition{
			Type: v1beta1.ConditionOrchestrated, Status: metav1.ConditionTrue, Reason: condition.ReasonReached})}, map[string]float64{"squall_disruptions Pending": 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, shown := map[string]float64{}, 0
			for gauge, parts := range count(test.have) {
				for value, n := range parts {
					shown++
					if name := gauge.Name; n != 0 && value != "" {
						got[name+" "+value] = n
					} else if n != 0 {
						got[name] = n
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("count() (-want +got):\n%s", diff)
			}
			if shown != 8+6+7 {
				t.Errorf("%d numbers are shown, want those of every phase, every reason and the seven without a label", shown)
			}
		})
	}
}

// The page has the numbers of the cluster, and every reason.
func TestGaugesOfABridge(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := &bridge{bridgetest.New(t, bridgetest.Controllers(func(b *bridgetest.Bridge, m manager.Manager, w *temporal.Workflows) error {
		registry.MustRegister(NewGauges(m, w))
		return Setup(m, w, b.ChaosNamespace, 0)
	}))}
	b.Watched = []string{b.Namespace}
	if shown := gather(t, registry); len(shown) != 0 {
		t.Errorf("a bridge that does not run shows %v", shown)
	}
	b.start()
	b.Disrupt("one")
	b.Disrupt("two")
	bridgetest.Eventually(t, bridgetest.Soon, "both are counted", func() bool { return gather(t, registry)["squall_disruptions Pending"] == 2 })
	if names := slices.Sorted(maps.Keys(gather(t, registry))); len(names) != 21 {
		t.Errorf("the page has %v", names)
	}
	b.Temporal.Away()
	bridgetest.Eventually(t, bridgetest.Soon, "Temporal is away", func() bool { return gather(t, registry)["squall_temporal_unreachable"] == 1 })
}

// gather returns the numbers of a page, by name and the value of the label.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += " " + label.GetValue()
			}
			shown[name] = m.GetGauge().GetValue()
		}
	}
	return shown
}
