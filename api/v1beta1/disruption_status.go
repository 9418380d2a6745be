package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DisruptionStatus is written by the workflow's activities alone, except for the
// conditions Orchestrated and Stopped.
type DisruptionStatus struct {
	// ObservedGeneration is the generation of the spec this status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// SpecHash is the SHA-256 of the spec that is carried out.
	SpecHash string `json:"specHash,omitempty"`
	// Phase is where the disruption is in its life: Pending, Selecting,
	// Injecting, Holding, Cleaning, Stuck, Finished or Rejected.
	Phase Phase `json:"phase,omitempty"`
	// Ending is why the disruption ends, has ended or was refused, such as
	// "expired" or "emergency stop NAME: REASON". Empty until it ends.
	Ending string `json:"ending,omitempty"`
	// ReportedAt is when the workflow decided on phase and ending. An older decision
	// that is written later has no effect.
	ReportedAt *metav1.MicroTime `json:"reportedAt,omitempty"`
	// WatchedAt is when the workflow began to watch the injections in targets,
	// injectionStatus and targetInjections. An older watch that writes later has no
	// effect.
	WatchedAt *metav1.MicroTime `json:"watchedAt,omitempty"`
	// Kinds are the kinds asked for, separated by commas.
	Kinds string `json:"kinds,omitempty"`
	// Targets is injected/wanted, such as "2/3". After the end it keeps what it was last.
	Targets string `json:"targets,omitempty"`
	// InjectionStatus is NotInjected, PartiallyInjected or Injected; with the
	// prefix Paused while the targets are away, Previously when it has ended.
	InjectionStatus InjectionStatus `json:"injectionStatus,omitempty"`
	// DesiredTargetsCount is the number of targets that spec.count requests. It is
	// unset until the worker has counted.
	//
	// +optional
	DesiredTargetsCount int `json:"desiredTargetsCount"`
	// SelectedTargetsCount is how many targets were chosen.
	//
	// +optional
	SelectedTargetsCount int `json:"selectedTargetsCount"`
	// IgnoredTargetsCount is how many matching targets were not chosen.
	//
	// +optional
	IgnoredTargetsCount int `json:"ignoredTargetsCount"`
	// InjectedTargetsCount is how many targets have every fault injected.
	//
	// +optional
	InjectedTargetsCount int `json:"injectedTargetsCount"`
	// TargetInjections is by target name, then kind. Of a disruption of more
	// than 500 targets only those that are not injected, at most 100.
	TargetInjections map[string]map[Kind]TargetInjection `json:"targetInjections,omitempty"`
	// IsStuckOnRemoval is true while a person must decide; see the condition
	// StuckOnRemoval.
	IsStuckOnRemoval bool `json:"isStuckOnRemoval,omitempty"`
	// RunCount is how many injections there were; see spec.maxRuns.
	RunCount int `json:"runCount,omitempty"`
	// StartTime is when the workflow began.
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// InjectedTime is when every target was injected for the first time.
	InjectedTime *metav1.Time `json:"injectedTime,omitempty"`
	// ExpiryTime is when the duration of the disruption is over.
	ExpiryTime *metav1.Time `json:"expiryTime,omitempty"`
	// CleanedAt is when the last chaos pod was gone.
	CleanedAt *metav1.Time `json:"cleanedAt,omitempty"`
	// CleanedVerified is true when every node was searched after the clean-up and
	// nothing of the disruption was found. False when something is left or a node could
	// not be searched; see the condition Cleaned. Unset before the end.
	CleanedVerified *bool `json:"cleanedVerified,omitempty"`
	// SteadyState is the result of the probes of spec.steadyState. Unset without
	// probes.
	SteadyState *SteadyStateStatus `json:"steadyState,omitempty"`
	// Workflow carries the disruption out.
	Workflow *WorkflowRef `json:"workflow,omitempty"`
	// Resumes are the decisions people took while the disruption was stuck, newest last.
	//
	// +listType=atomic
	Resumes []ResumeRecord `json:"resumes,omitempty"`
	// Conditions are Accepted, TargetsSelected, Injected, EffectVerified, Cleaned,
	// StuckOnRemoval, SteadyState, Aborted, Orchestrated, Stopped, Ready and Stalled.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// TargetInjection is the state of one kind on one target.
type TargetInjection struct {
	// InjectorPodName is the chaos pod.
	InjectorPodName string `json:"injectorPodName,omitempty"`
	// InjectionStatus is NotInjected, Injected or IsStuckOnRemoval.
	InjectionStatus InjectionStatus `json:"injectionStatus,omitempty"`
	// Since is when the target was injected. It stays when the target is clean again.
	Since *metav1.Time `json:"since,omitempty"`
	// TargetUID is the UID of the target; a name can be used again.
	TargetUID types.UID `json:"targetUID,omitempty"`
	// Reason is why the target is not injected, or not clean.
	Reason string `json:"reason,omitempty"`
	// Effect is whether the fault acts on the target, as its injector measures it. It
	// is written when the target is injected, when the state turns, and at the end.
	// Unset as long as nothing is injected, in a dry run, and while it is not known.
	Effect *Effect `json:"effect,omitempty"`
}

// WorkflowRef leads to the workflow in the Temporal UI.
type WorkflowRef struct {
	// ID of the workflow.
	ID string `json:"id"`
	// RunID of its first run. Later ones, as of a disruption that lasts long, have the same ID.
	RunID string `json:"runID"`
}

// ResumeRecord is one decision of a person on a stuck disruption.
type ResumeRecord struct {
	// Action is retry or release.
	Action string `json:"action"`
	// By is who decided.
	By string `json:"by,omitempty"`
	// Reason is why.
	Reason string `json:"reason,omitempty"`
	// Targets the decision was about; empty means all that were stuck.
	//
	// +listType=atomic
	Targets []string `json:"targets,omitempty"`
	// Time of the decision.
	Time metav1.Time `json:"time"`
}
