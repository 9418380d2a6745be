package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Disruption breaks something on purpose, for a time, and takes it back.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dis
type Disruption struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DisruptionSpec   `json:"spec"`
	Status DisruptionStatus `json:"status,omitempty"`
}

// DisruptionList is a list of disruptions.
//
// +kubebuilder:object:root=true
type DisruptionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Disruption `json:"items"`
}

// Level says what a selector selects.
type Level string

// The levels.
const (
	LevelPod  Level = "pod"
	LevelNode Level = "node"
)

// DisruptionSpec is what to break, where, how much and for how long.
type DisruptionSpec struct {
	Faults `json:",inline"`

	Count                 *intstr.IntOrString               `json:"count"`
	Selector              map[string]string                 `json:"selector,omitempty"`
	AdvancedSelector      []metav1.LabelSelectorRequirement `json:"advancedSelector,omitempty"`
	Filter                *DisruptionFilter                 `json:"filter,omitempty"`
	Level                 Level                             `json:"level,omitempty"`
	Containers            []string                          `json:"containers,omitempty"`
	Duration              *Duration                         `json:"duration,omitempty"`
	Triggers              *DisruptionTriggers               `json:"triggers,omitempty"`
	DryRun                bool                              `json:"dryRun,omitempty"`
	StaticTargeting       bool                              `json:"staticTargeting,omitempty"`
	AllowDisruptedTargets bool                              `json:"allowDisruptedTargets,omitempty"`
	MaxRuns               *int                              `json:"maxRuns,omitempty"`
}

// DisruptionFilter narrows the matching targets further.
type DisruptionFilter struct {
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DisruptionTriggers delay parts of a disruption.
type DisruptionTriggers struct {
	Inject     DisruptionTrigger `json:"inject,omitempty"`
	CreatePods DisruptionTrigger `json:"createPods,omitempty"`
}

// DisruptionTrigger is a moment: absolute or after the creation, not both.
type DisruptionTrigger struct {
	NotBefore metav1.Time `json:"notBefore,omitempty"`
	Offset    Duration    `json:"offset,omitempty"`
}

// DisruptionStatus is written by the workflow's activities, and by nobody
// else but for the condition Orchestrated.
type DisruptionStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// SpecHash is the SHA-256 of the spec that is carried out (acceptance 7).
	SpecHash string `json:"specHash,omitempty"`
	Phase    Phase  `json:"phase,omitempty"`
	// Kinds are the kinds asked for, separated by commas.
	Kinds string `json:"kinds,omitempty"`
	// Targets is injected/selected, such as "2/3".
	Targets         string          `json:"targets,omitempty"`
	InjectionStatus InjectionStatus `json:"injectionStatus,omitempty"`
	// The counts are always written, zeros too, but never asked for: the bridge
	// writes a condition before the workflow has written anything.
	// +optional
	DesiredTargetsCount int `json:"desiredTargetsCount"`
	// +optional
	SelectedTargetsCount int `json:"selectedTargetsCount"`
	// +optional
	IgnoredTargetsCount int `json:"ignoredTargetsCount"`
	// +optional
	InjectedTargetsCount int `json:"injectedTargetsCount"`
	// TargetInjections is by target name, then kind. Of a disruption of more
	// than 500 targets only those that are not injected, at most 100.
	TargetInjections map[string]map[Kind]TargetInjection `json:"targetInjections,omitempty"`
	IsStuckOnRemoval bool                                `json:"isStuckOnRemoval,omitempty"`
	RunCount         int                                 `json:"runCount,omitempty"`
	StartTime        *metav1.Time                        `json:"startTime,omitempty"`
	InjectedTime     *metav1.Time                        `json:"injectedTime,omitempty"`
	ExpiryTime       *metav1.Time                        `json:"expiryTime,omitempty"`
	CleanedAt        *metav1.Time                        `json:"cleanedAt,omitempty"`
	Workflow         *WorkflowRef                        `json:"workflow,omitempty"`
	// Resumes are the decisions people took while the disruption was stuck, newest last.
	Resumes []ResumeRecord `json:"resumes,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TargetInjection is the state of one kind on one target.
type TargetInjection struct {
	InjectorPodName string          `json:"injectorPodName,omitempty"`
	InjectionStatus InjectionStatus `json:"injectionStatus,omitempty"`
	Since           *metav1.Time    `json:"since,omitempty"`
	// UID of the target; a name can be used again.
	TargetUID types.UID `json:"targetUID,omitempty"`
	// Reason says why the target is not injected, or not cleaned.
	Reason string `json:"reason,omitempty"`
}

// WorkflowRef leads to the workflow in the Temporal UI.
type WorkflowRef struct {
	ID    string `json:"id"`
	RunID string `json:"runID"`
}

// ResumeRecord is one decision of a person on a stuck disruption.
type ResumeRecord struct {
	Action  string      `json:"action"`
	By      string      `json:"by,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Targets []string    `json:"targets,omitempty"`
	Time    metav1.Time `json:"time"`
}
