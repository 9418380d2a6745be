package status

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// MaxEffects bounds the targets whose effects are read: status lists no more.
const MaxEffects = maxListed

// ShowEffects writes the effects that chaos pods reported, by their names, into the
// status of a disruption, and sums them up as a condition.
func ShowEffects(d *v1beta1.Disruption, effects map[string]*v1beta1.Effect) {
	for _, kinds := range d.Status.TargetInjections {
		for kind, injection := range kinds {
			if effect := effects[injection.InjectorPodName]; effect != nil {
				injection.Effect = effect
				kinds[kind] = injection
			}
		}
	}
	showEffectVerified(d)
}

// keepEffects returns listed with the effects that before has for the same chaos pods,
// where listed has none.
func keepEffects(before, listed map[string]map[v1beta1.Kind]v1beta1.TargetInjection) map[string]map[v1beta1.Kind]v1beta1.TargetInjection {
	kept := make(map[string]map[v1beta1.Kind]v1beta1.TargetInjection, len(listed))
	for name, kinds := range listed {
		kept[name] = maps.Clone(kinds)
		for kind, injection := range kinds {
			old := before[name][kind]
			if injection.Effect == nil && old.InjectorPodName == injection.InjectorPodName {
				injection.Effect = old.Effect
				kept[name][kind] = injection
			}
		}
	}
	return kept
}

// verdicts are the states of effects, the most important first, with their meaning for
// the condition EffectVerified.
var verdicts = []struct {
	state  v1beta1.EffectState // empty: not known
	reason string
	status metav1.ConditionStatus
	does   string
}{
	{v1beta1.EffectLost, string(v1beta1.EffectLost), metav1.ConditionFalse, "was removed by something else"},
	{v1beta1.EffectIneffective, string(v1beta1.EffectIneffective), metav1.ConditionFalse, "does not act as it should"},
	{v1beta1.EffectNothingMatchedYet, string(v1beta1.EffectNothingMatchedYet), metav1.ConditionUnknown, "has matched nothing yet"},
	{"", "NotMeasured", metav1.ConditionUnknown, "was not measured"},
	{v1beta1.EffectProven, string(v1beta1.EffectProven), metav1.ConditionTrue, "was seen to act"},
}

// showEffectVerified sums up the effects of all targets. It writes nothing before the
// first injection, and nothing for a dry run.
func showEffectVerified(d *v1beta1.Disruption) {
	if d.Spec.DryRun || d.Status.InjectionStatus == v1beta1.NotInjected || d.Status.InjectionStatus == "" {
		return
	}
	if d.Status.SelectedTargetsCount > maxListed {
		SetCondition(d, v1beta1.ConditionEffectVerified, metav1.ConditionUnknown, "NotMeasured",
			fmt.Sprintf("effects are shown for up to %d targets; see the logs of the chaos pods", maxListed))
		return
	}
	counts, first, all := map[v1beta1.EffectState]int{}, map[v1beta1.EffectState]string{}, 0
	for _, name := range slices.Sorted(maps.Keys(d.Status.TargetInjections)) {
		kinds := d.Status.TargetInjections[name]
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			var effect v1beta1.Effect
			if kinds[kind].Effect != nil {
				effect = *kinds[kind].Effect
			}
			all++
			if counts[effect.State]++; counts[effect.State] == 1 {
				first[effect.State] = fmt.Sprintf("%s, %s", name, kind)
				if effect.Evidence != "" {
					first[effect.State] += ": " + effect.Evidence
				}
			}
		}
	}
	for _, v := range verdicts {
		if n := counts[v.state]; n > 0 {
			message := fmt.Sprintf("%d of %d injections: the fault %s; %s", n, all, v.does, first[v.state])
			SetCondition(d, v1beta1.ConditionEffectVerified, v.status, v.reason, message)
			return
		}
	}
}

// effectsAtEnd returns the effects by chaos pod name.
func effectsAtEnd(measured []chaospod.EffectAtEnd) map[string]*v1beta1.Effect {
	effects := make(map[string]*v1beta1.Effect, len(measured))
	for i := range measured {
		effects[measured[i].Pod] = &measured[i].Effect
	}
	return effects
}
