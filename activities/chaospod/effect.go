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

// EffectOf returns the last effect that the injector of an ended chaos pod reported;
// nil without a report.
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

// EffectsIn returns the changes of an effect that an injector logged, oldest first.
func EffectsIn(log string) []v1beta1.Effect {
	var turns []v1beta1.Effect
	for line := range strings.Lines(log) {
		var found v1beta1.EffectLine
		if json.Unmarshal([]byte(line), &found) == nil && found.Message == v1beta1.MessageEffect {
			turns = append(turns, v1beta1.Effect{State: found.State, Evidence: found.Evidence, Since: found.Since})
		}
	}
	return turns
}

// WithEffects returns the progress with the known effects, by chaos pod name.
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

// Unproven counts the injections that are known not to act yet. An injection without a
// known effect does not count: no one asks for it again until another one changes.
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

// SameEffect reports whether two effects have the same state since the same time.
func SameEffect(a, b *v1beta1.Effect) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.State == b.State && a.Since.Equal(&b.Since)
}
