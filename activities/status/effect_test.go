package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// rule E5
func TestEffectVerified(t *testing.T) {
	const proven, nothing, ineffective, lost = v1beta1.EffectProven, v1beta1.EffectNothingMatchedYet, v1beta1.EffectIneffective, v1beta1.EffectLost
	for _, test := range []struct {
		name    string
		change  func(*v1beta1.Disruption)
		effects []v1beta1.EffectState // empty: not known
		status  metav1.ConditionStatus
		reason  string
		text    string
	}{
		{"all act", nil, []v1beta1.EffectState{proven, proven}, metav1.ConditionTrue, "Proven", "2 of 2"},
		{"nothing came by one", nil, []v1beta1.EffectState{proven, nothing}, metav1.ConditionUnknown, "NothingMatchedYet", "figures of web-1"},
		{"one is not known", nil, []v1beta1.EffectState{proven, ""}, metav1.ConditionUnknown, "NotMeasured", "1 of 2"},
		{"nothing came by one, and one is not known", nil, []v1beta1.EffectState{"", nothing}, metav1.ConditionUnknown, "NothingMatchedYet", "1 of 2"},
		{"one does not act", nil, []v1beta1.EffectState{nothing, ineffective, proven}, metav1.ConditionFalse, "Ineffective", "figures of web-1"},
		{"one is lost", nil, []v1beta1.EffectState{ineffective, lost, nothing}, metav1.ConditionFalse, "Lost", "figures of web-1"},
		{"a dry run", func(d *v1beta1.Disruption) { d.Spec.DryRun = true }, []v1beta1.EffectState{proven}, "", "", ""},
		{"nothing is injected", func(d *v1beta1.Disruption) { d.Status.InjectionStatus = v1beta1.NotInjected }, []v1beta1.EffectState{""}, "", "", ""},
		{"more targets than are listed", func(d *v1beta1.Disruption) { d.Status.SelectedTargetsCount = maxListed + 1 }, nil, metav1.ConditionUnknown, "NotMeasured", "logs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, known := &v1beta1.Disruption{}, map[string]*v1beta1.Effect{}
			d.Status.InjectionStatus = v1beta1.Injected
			d.Status.TargetInjections = map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}
			for n, state := range test.effects {
				name := fmt.Sprint("web-", n)
				d.Status.TargetInjections[name] = map[v1beta1.Kind]v1beta1.TargetInjection{v1beta1.KindNetwork: {InjectorPodName: "chaos-" + name}}
				if state != "" {
					known["chaos-"+name] = &v1beta1.Effect{State: state, Evidence: "figures of " + name}
				}
			}
			if test.change != nil {
				test.change(d)
			}
			ShowEffects(d, known)
			got := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionEffectVerified)
			if got == nil {
				got = &metav1.Condition{}
			}
			if strings.HasSuffix(got.Message, ": ") {
				t.Errorf("the message %q breaks off", got.Message)
			}
			if got.Status != test.status || got.Reason != test.reason || !strings.Contains(got.Message, test.text) {
				t.Errorf("condition = %+v, want %s %s with %q", got, test.status, test.reason, test.text)
			}
		})
	}
}

// Progress has some effects; those that status has of the same chaos pods stay.
func TestProgressKeepsEffects(t *testing.T) {
	d := &v1beta1.Disruption{}
	of := func(pod string, effect *v1beta1.Effect) map[string]map[v1beta1.Kind]v1beta1.TargetInjection {
		return map[string]map[v1beta1.Kind]v1beta1.TargetInjection{"web": {v1beta1.KindNetwork: {
			InjectorPodName: pod, InjectionStatus: v1beta1.Injected, Effect: effect,
		}}}
	}
	old, newer := &v1beta1.Effect{State: v1beta1.EffectProven}, &v1beta1.Effect{State: v1beta1.EffectLost}
	for _, step := range []struct {
		pod         string
		known, want *v1beta1.Effect
	}{{"chaos-a", old, old}, {"chaos-a", nil, old}, {"chaos-a", newer, newer}, {"chaos-b", nil, nil}} {
		p := chaospod.Progress{Targets: of(step.pod, step.known), Injected: 1, Total: 1, ReadyPods: 1}
		ShowProgress(d, p, time.Now())
		if got := d.Status.TargetInjections["web"][v1beta1.KindNetwork].Effect; got != step.want {
			t.Errorf("%s reported %v: effect = %v, want %v", step.pod, step.known, got, step.want)
		}
		if p.Targets["web"][v1beta1.KindNetwork].Effect != step.known {
			t.Error("what was measured was changed")
		}
	}
}
