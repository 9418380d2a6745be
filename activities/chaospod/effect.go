package chaospod

import (
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// EffectAtEnd is what an injector measured before it cleaned.
type EffectAtEnd struct {
	// Pod is the name of the chaos pod.
	Pod    string         `json:"pod"`
	Effect v1beta1.Effect `json:"effect"`
}

// EffectOf is that of a chaos pod that has ended; nil when its injector said nothing.
func EffectOf(pod *corev1.Pod) *EffectAtEnd {
	exited := InjectorState(pod).Terminated
	if exited == nil {
		return nil
	}
	if effect := readInjectionReport(exited).Effect; effect != nil {
		return &EffectAtEnd{pod.Name, *effect}
	}
	return nil
}

// EffectsIn are the turns of an effect that an injector's log tells of, oldest first.
func EffectsIn(log string) []v1beta1.Effect {
	var turns []v1beta1.Effect
	for line := range strings.Lines(log) {
		var said v1beta1.EffectLine
		if json.Unmarshal([]byte(line), &said) == nil && said.Message == v1beta1.MessageEffect {
			turns = append(turns, v1beta1.Effect{State: said.State, Evidence: said.Evidence, Since: said.Since})
		}
	}
	return turns
}

// WithEffects is the progress with the effects that are known, by chaos pod name.
func (p Progress) WithEffects(known map[string]*v1beta1.Effect) Progress {
	if len(known) == 0 {
		return p
	}
	targets := maps.Clone(p.Targets)
	for name, kinds := range targets {
		kinds = maps.Clone(kinds)
		for kind, injection := range kinds {
			injection.Effect = known[injection.InjectorPodName]
			kinds[kind] = injection
		}
		targets[name] = kinds
	}
	p.Targets = targets
	return p
}

// Unproven counts the injections that are known not to act yet. Of one that could not
// be asked nobody knows, and nobody asks again until something turns.
func (p Progress) Unproven() int {
	unproven := 0
	for _, kinds := range p.Targets {
		for _, injection := range kinds {
			if injection.Effect != nil && injection.Effect.State != v1beta1.EffectProven {
				unproven++
			}
		}
	}
	return unproven
}

// SameEffect tells whether two effects are of the same turn.
func SameEffect(a, b *v1beta1.Effect) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.State == b.State && a.Since.Equal(&b.Since)
}
