package chaospod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// LeftPod is a chaos pod that is to be deleted and cannot be yet.
type LeftPod struct {
	Pod string `json:"pod"`
	// UID distinguishes it from earlier and later chaos pods of its name.
	UID     types.UID    `json:"uid,omitempty"`
	Node    string       `json:"node"`
	Target  string       `json:"target"`
	Kind    v1beta1.Kind `json:"kind"`
	Outcome Outcome      `json:"outcome"`
	Why     string       `json:"why"`
	// Tries counts how often a new cleaner has failed to clean it. The workflow counts.
	Tries int `json:"tries,omitempty"`

	// TargetUID is for the activity only; it is not serialised.
	TargetUID types.UID `json:"-"`
}

// NewLeftPod describes why pod cannot be deleted yet.
func NewLeftPod(pod *corev1.Pod, outcome Outcome, why string) *LeftPod {
	return &LeftPod{
		Pod: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, Target: TargetName(pod),
		Kind: v1beta1.Kind(pod.Labels[v1beta1.LabelDisruptionKind]), Outcome: outcome, Why: why,
		TargetUID: TargetUID(pod),
	}
}

// ID is the name of the pod in a decision: its UID.
func (l LeftPod) ID() string {
	if l.UID == "" {
		return l.Pod // an older worker recorded no UID
	}
	return string(l.UID)
}

// ForPeople is a number of chaos pods as text.
func ForPeople(n int) string {
	if n == 1 {
		return "1 chaos pod"
	}
	return fmt.Sprintf("%d chaos pods", n)
}
