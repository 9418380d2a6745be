package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DisruptionRollout disrupts a workload each time its containers change: once a
// release is rolled out. Each run is a Disruption named disruption-rollout-NAME,
// which the rollout owns: one at a time. Deleting the rollout ends the run under
// way by cleaning.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=diroll,categories=chaos
// +kubebuilder:printcolumn:name=Kind,type=string,JSONPath=`.spec.targetResource.kind`
// +kubebuilder:printcolumn:name=Target,type=string,JSONPath=`.spec.targetResource.name`
// +kubebuilder:printcolumn:name=Paused,type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name=Watching,type=string,JSONPath=`.status.conditions[?(@.type=="Watching")].reason`,description="whether releases are seen, and why not"
// +kubebuilder:printcolumn:name=Released,type=string,JSONPath=`.status.lastContainerChangeTime`,description="when the last release was seen"
// +kubebuilder:printcolumn:name=Run,type=string,JSONPath=`.status.conditions[?(@.type=="LastRun")].reason`,description="whether a run began for the last release, and why not"
// +kubebuilder:printcolumn:name=Verdict,type=string,JSONPath=`.status.history[-1:].verdict`,description="of the probes of the last run"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Ending,type=string,JSONPath=`.status.history[-1:].ending`,priority=1,description="why the last run ended"
// +kubebuilder:printcolumn:name=LastRun,type=string,JSONPath=`.status.conditions[?(@.type=="LastRun")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 44",message="metadata.name is part of the name of every run, disruption-rollout-NAME: use at most 44 characters",messageExpression="'metadata.name is part of the name of every run, disruption-rollout-NAME: use at most 44 characters, not %d'.format([self.metadata.name.size()])"
type DisruptionRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what to disrupt after its releases. A change has an effect on the runs
	// that begin after it.
	Spec DisruptionRolloutSpec `json:"spec"`
	// Status is what was released and ran last.
	Status DisruptionRolloutStatus `json:"status,omitempty"`
}

// DisruptionRolloutList is a list of rollouts.
//
// +kubebuilder:object:root=true
type DisruptionRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DisruptionRollout `json:"items"`
}

// DisruptionRolloutSpec is what to disrupt after its releases.
//
// +kubebuilder:validation:XValidation:rule="!has(self.disruptionTemplate.level) || self.disruptionTemplate.level != 'node'",message="targetResource stands for pods: set level to pod, or remove it",fieldPath=".disruptionTemplate.level"
// +kubebuilder:validation:XValidation:rule="!has(self.disruptionTemplate.triggers) || ((!has(self.disruptionTemplate.triggers.inject) || !has(self.disruptionTemplate.triggers.inject.notBefore)) && (!has(self.disruptionTemplate.triggers.createPods) || !has(self.disruptionTemplate.triggers.createPods.notBefore)))",message="notBefore is one moment, and the template is for many runs: use offset",fieldPath=".disruptionTemplate.triggers"
type DisruptionRolloutSpec struct {
	// TargetResource is the workload of this namespace whose releases begin runs, and
	// whose pods are the targets.
	TargetResource TargetResource `json:"targetResource"`
	// DelayedStartTolerance is how long after a rollout its run may begin, 0 or more.
	// The run waits until the rollout has completed and the run before is over. It is
	// skipped when this time is over. Less than 10s counts as 10s. Default 15m.
	//
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : !self.startsWith('-')",message="want a duration of 0 or more",messageExpression="string(self) + (type(self) == int ? 'ns' : '') + ' is negative: want a duration of 0 or more'"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self <= 0 || self >= 1000000 : (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || duration(self) <= duration('0s') || duration(self) >= duration('1ms'))",message="want 0, or at least 1ms",messageExpression="type(self) == int ? string(self) + 'ns is shorter than 1ms; a number without a unit is nanoseconds: write ' + string(self) + 's' : self + ' is shorter than 1ms: want 0, or a duration such as 10s'"
	DelayedStartTolerance *Duration `json:"delayedStartTolerance,omitempty"`
	// Paused begins no run and skips rollouts. A running disruption continues. Default
	// false.
	Paused bool `json:"paused,omitempty"`
	// DisruptionTemplate is the spec of each run. The labels by which the workload
	// selects its pods are added to its selectors, which may be empty.
	DisruptionTemplate DisruptionSpec `json:"disruptionTemplate"`
	// Reporting sends notifications about the runs whose template has none.
	//
	// +nullable
	Reporting *Reporting `json:"reporting,omitempty"`
}

// DisruptionRolloutStatus is what was released and ran last. Activities write
// history and the condition LastRun, the bridge writes the rest.
type DisruptionRolloutStatus struct {
	// ObservedTarget is the workload that the hashes are of, such as deployment shop.
	ObservedTarget string `json:"observedTarget,omitempty"`
	// LatestContainersHash is a SHA-256 over the containers of the workload's pod
	// template, in hexadecimal. Nothing can be read from it.
	LatestContainersHash string `json:"latestContainersHash,omitempty"`
	// LatestInitContainersHash is that over its init containers.
	LatestInitContainersHash string `json:"latestInitContainersHash,omitempty"`
	// LastContainerChangeTime is when a release was seen last. Unset before the
	// first: a workload that is seen for the first time is no release.
	LastContainerChangeTime *metav1.Time `json:"lastContainerChangeTime,omitempty"`
	// Releases is how many were seen.
	Releases int64 `json:"releases,omitempty"`
	// StartedRelease is the number of the release that was handed to Temporal last.
	StartedRelease int64 `json:"startedRelease,omitempty"`
	// TargetResourcePreviouslyMissing is since when the workload has been missing.
	// Unset once it is there.
	TargetResourcePreviouslyMissing *metav1.Time `json:"targetResourcePreviouslyMissing,omitempty"`
	// History are the last 5 runs, newest last. Their scheduledAt is when the release
	// was seen.
	//
	// +kubebuilder:validation:MaxItems=5
	// +listType=atomic
	History []DisruptionRun `json:"history,omitempty"`
	// Conditions are Watching and LastRun.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionWatching is True while releases are seen. It is False with the reason
// TargetMissing, Paused, Deleted, TemporalUnreachable or TemporalRefused. The
// bridge writes it.
const ConditionWatching = "Watching"

// Marks on the Disruption that is a run of a rollout.
const (
	// LabelRollout names its rollout.
	LabelRollout = "chaos.squall.dev/disruption-rollout-name" // Disruption: name of its DisruptionRollout
	// RolloutChildPrefix and the rollout's name are the name of its runs.
	RolloutChildPrefix = "disruption-rollout-"
)

// Kinds of what has runs.
const (
	KindDisruptionCron    = "DisruptionCron"
	KindDisruptionRollout = "DisruptionRollout"
)

// ChildName is the name of all runs: there is one at a time, since names are
// unique.
func (r *DisruptionRollout) ChildName() string { return RolloutChildPrefix + r.Name }

// Owns is true for a run of this rollout, and of no other that had its name.
func (r *DisruptionRollout) Owns(d *Disruption) bool {
	owner := metav1.GetControllerOf(d)
	return owner != nil && owner.Kind == KindDisruptionRollout && owner.UID == r.UID && d.Namespace == r.Namespace
}
