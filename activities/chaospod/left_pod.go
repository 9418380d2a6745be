package chaospod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// LeftPod is a chaos pod that is to go and cannot go yet.
type LeftPod struct {
	Pod string `json:"pod"`
	// UID tells it apart from another chaos pod that has had, or will have, its name.
	UID     types.UID    `json:"uid,omitempty"`
	Node    string       `json:"node"`
	Target  string       `json:"target"`
	Kind    v1beta1.Kind `json:"kind"`
	Outcome Outcome      `json:"outcome"`
	Why     string       `json:"why"`
	// Tries counts how often a fresh cleaner has failed to clean it. The workflow
	// counts.
	Tries int `json:"tries,omitempty"`

	// TargetUID is for the activity itself.
	TargetUID types.UID `json:"-"`
}

// NewLeftPod says why pod cannot go yet.
func NewLeftPod(pod *corev1.Pod, outcome Outcome, why string) *LeftPod {
	return &LeftPod{
		Pod: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, Target: TargetName(pod),
		Kind: v1beta1.Kind(pod.Labels[v1beta1.LabelDisruptionKind]), Outcome: outcome, Why: why,
		TargetUID: TargetUID(pod),
	}
}

// ID is how a decision names it: by its UID.
func (l LeftPod) ID() string {
	if l.UID == "" {
		return l.Pod // said by a worker that did not tell UIDs
	}
	return string(l.UID)
}

// ForPeople counts chaos pods for a person to read.
func ForPeople(n int) string {
	if n == 1 {
		return "1 chaos pod"
	}
	return fmt.Sprintf("%d chaos pods", n)
}
