package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Disruption injects faults into targets for a time, and cleans them up.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dis,categories=chaos
// +kubebuilder:printcolumn:name=Kinds,type=string,JSONPath=`.status.kinds`
// +kubebuilder:printcolumn:name=Level,type=string,JSONPath=`.spec.level`
// +kubebuilder:printcolumn:name=Targets,type=string,JSONPath=`.status.targets`,description="injected/wanted"
// +kubebuilder:printcolumn:name=Injection,type=string,JSONPath=`.status.injectionStatus`
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name=Verdict,type=string,JSONPath=`.status.steadyState.verdict`,description="of the probes of spec.steadyState"
// +kubebuilder:printcolumn:name=Temporal,type=string,JSONPath=`.status.conditions[?(@.type=="Orchestrated")].reason`,description="empty unless Temporal was unreachable or refused"
// +kubebuilder:printcolumn:name=Expires,type=string,JSONPath=`.status.expiryTime`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Effect,type=string,JSONPath=`.status.conditions[?(@.type=="EffectVerified")].reason`,priority=1,description="Proven when the fault acts on every target"
// +kubebuilder:printcolumn:name=Requester,type=string,JSONPath=`.metadata.annotations.chaos\.squall\.dev/requester`,priority=1,description="the requester, if known"
// +kubebuilder:printcolumn:name=Workflow,type=string,JSONPath=`.status.workflow.id`,priority=1
// +kubebuilder:printcolumn:name=Ending,type=string,JSONPath=`.status.ending`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name is the value of a label on every chaos pod: use at most 63 characters",messageExpression="'metadata.name is the value of a label on every chaos pod: use at most 63 characters, not %d'.format([self.metadata.name.size()])"
type Disruption struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the fault, the targets and the time. A change after the creation has no
	// effect: delete the disruption and create another.
	//
	// +kubebuilder:validation:XValidation:rule="(has(self.selector) && self.selector.size() > 0) || (has(self.advancedSelector) && self.advancedSelector.size() > 0)",message="selector and advancedSelector are both empty: name the labels of the targets"
	Spec DisruptionSpec `json:"spec"`
	// Status is how far the disruption is.
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

// Level is what a selector selects: pod or node. Empty means pod.
//
// +kubebuilder:validation:Enum=pod;node;""
type Level string

// The levels.
const (
	LevelPod  Level = "pod"
	LevelNode Level = "node"
)

// DisruptionSpec is what to break, where, how much and for how long. The rules
// about kinds are in Combinations; crdgen adds them to the schema.
//
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.level != 'node' || !has(self.network) || !has(self.network.http)",message="network.http works at level pod only",fieldPath=".network.http"
// +kubebuilder:validation:XValidation:rule="!has(self.diskFailure) || !has(self.level) || self.level != 'node' || !self.diskFailure.paths.exists(p, p.trim().matches('^/[/.]*$')) || (has(self.unsafeMode) && ((has(self.unsafeMode.allowRootDiskFailure) && self.unsafeMode.allowRootDiskFailure) || (has(self.unsafeMode.disableAll) && self.unsafeMode.disableAll)))",message="\"/\" at level node breaks the whole node: name a path below it, or set unsafeMode.allowRootDiskFailure",fieldPath=".diskFailure.paths"
// +kubebuilder:validation:XValidation:rule="!has(self.steadyState) || !has(self.level) || self.level != 'node' || !self.steadyState.probes.exists(p, has(p.scope) && p.scope == 'PerTarget')",message="nodes cannot be probed: use scope Once, or level pod",fieldPath=".steadyState.probes"
// +kubebuilder:validation:XValidation:rule="!has(self.onInit) || !self.onInit || !has(self.steadyState) || !has(self.steadyState.controlGroup)",message="with onInit, pods have not started and cannot be probed: remove it",fieldPath=".steadyState.controlGroup"
// +kubebuilder:validation:XValidation:rule="!has(self.containerFailure) || !has(self.containerFailure.interval) || !has(self.maxRuns) || self.maxRuns != 1",message="maxRuns 1 leaves nothing to repeat: raise it, or remove containerFailure.interval",fieldPath=".containerFailure.interval"
// +kubebuilder:validation:XValidation:rule="!has(self.podOpsLifecycle) || !has(self.level) || self.level != 'node'",message="podOpsLifecycle is about pods: set level to pod, or remove it",fieldPath=".podOpsLifecycle"
// +kubebuilder:validation:XValidation:rule="!has(self.podOpsLifecycle) || !has(self.podOpsLifecycle.policy) || self.podOpsLifecycle.policy != 'Participate' || !has(self.onInit) || !self.onInit",message="a pod that waits for onInit was never in service: set policy to Respect, or remove onInit",fieldPath=".podOpsLifecycle.policy"
// +kubebuilder:validation:XValidation:rule="!has(self.podOpsLifecycle) || !has(self.podOpsLifecycle.policy) || self.podOpsLifecycle.policy != 'Participate' || !has(self.podReplacement)",message="podReplacement ends its targets, so no operation can return them: set policy to Respect",fieldPath=".podOpsLifecycle.policy"
// +kubebuilder:validation:XValidation:rule="!has(self.podDisruptionBudget) || self.podDisruptionBudget != 'Respect' || !has(self.level) || self.level != 'node'",message="podDisruptionBudget is about pods: set level to pod, or remove it",fieldPath=".podDisruptionBudget"
type DisruptionSpec struct {
	Faults `json:",inline"`

	// Count is how many targets: a number, at least 1, or a percentage of the
	// matching targets from "1%" to "100%", rounded up. More than match means
	// all. Required.
	//
	// +kubebuilder:validation:XValidation:rule=`string(self).matches('^0*([1-9][0-9]{0,8}|([1-9][0-9]?|100)%)$')`,message="want a number of targets such as 2, or a percentage of them from \"1%\" to \"100%\"",messageExpression=`string(self) + ': want a number of targets such as 2, or a percentage of them from "1%" to "100%"'`
	Count *intstr.IntOrString `json:"count"`
	// Selector are labels a target has, each with exactly this value. Targets
	// are pods of the disruption's namespace, or nodes, by level. This or
	// advancedSelector is required; both must hold.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$'))",message="want names of labels, such as app or app.kubernetes.io/name",messageExpression="self.filter(k, k.size() > 317 || !k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$'))[0] + ': want names of labels, such as app or app.kubernetes.io/name'"
	// +nullable
	Selector map[string]string `json:"selector,omitempty"`
	// AdvancedSelector are further requirements on the target's labels, all of
	// which must hold: an operator In, NotIn, Exists or DoesNotExist each.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator is In, NotIn, Exists or DoesNotExist",messageExpression="'operator is In, NotIn, Exists or DoesNotExist, not %s'.format([self.filter(r, !(r.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist']))[0].operator])"
	// +kubebuilder:validation:XValidation:rule="self.all(r, (r.operator in ['In', 'NotIn']) == (has(r.values) && r.values.size() > 0))",message="In and NotIn need values; Exists and DoesNotExist have none",messageExpression="'%s: In and NotIn need values; Exists and DoesNotExist have none'.format([self.filter(r, (r.operator in ['In', 'NotIn']) != (has(r.values) && r.values.size() > 0))[0].key])"
	// +listType=atomic
	// +nullable
	AdvancedSelector []metav1.LabelSelectorRequirement `json:"advancedSelector,omitempty"`
	// Filter narrows the matching targets further.
	//
	// +nullable
	Filter *DisruptionFilter `json:"filter,omitempty"`
	// Level is what the selectors select: pod (the default) or node.
	//
	// +kubebuilder:default=pod
	Level Level `json:"level,omitempty"`
	// Containers narrows the disruption to these containers of a target. Empty
	// means all that run. Not at level node, nor with diskPressure,
	// memoryPressure, podReplacement or onInit.
	//
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.all(c, c.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",message="want names of containers: lower case letters, digits and -, such as web",messageExpression="'\"' + self.filter(c, !c.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))[0] + '\" is no name of a container: want lower case letters, digits and -, such as web'"
	// +listType=atomic
	// +nullable
	Containers []string `json:"containers,omitempty"`
	// Duration is how long the disruption lasts: a Go duration such as "5m" or "1h30m",
	// at least 1s. It counts from the time to inject, which is the creation or
	// triggers.inject. With triggers, a disruption ends within a year (8760h) of its
	// creation. Default 1h.
	//
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 1000000000 : (self != '' && (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || duration(self) >= duration('1s')))`,message="want a duration of at least 1s, such as \"5m\"",messageExpression=`type(self) != int ? (self == '' ? '0s' : self) + ' is shorter than 1s: want a duration such as "5m"' : (self > 0 && self < 1000000 ? string(self) + 'ns is shorter than 1s; a number without a unit is nanoseconds: write ' + string(self) + 's' : string(self) + 'ns is shorter than 1s: want a duration such as "5m"')`
	Duration *Duration `json:"duration,omitempty"`
	// Triggers delay the chaos pods or the injection. Nothing means at once.
	//
	// +nullable
	Triggers *DisruptionTriggers `json:"triggers,omitempty"`
	// Pulse turns the injection on and off while the disruption lasts.
	//
	// +nullable
	Pulse *DisruptionPulse `json:"pulse,omitempty"`
	// DryRun does everything but the injection itself. Default false.
	DryRun bool `json:"dryRun,omitempty"`
	// OnInit disrupts pods before their containers start. Its targets are pods that are
	// created during the disruption, with the label
	// chaos.squall.dev/disrupt-on-init=true. Level pod, network and dns only. Default
	// false.
	OnInit bool `json:"onInit,omitempty"`
	// StaticTargeting selects the targets once. Otherwise, the default, lost targets
	// are replaced, up to maxLostTargets, and a percentage follows the number of
	// matching pods. A target that no longer matches is cleaned up in both cases.
	StaticTargeting bool `json:"staticTargeting,omitempty"`
	// AllowDisruptedTargets accepts targets of other disruptions if they have no fault
	// in common with this one. Default false.
	AllowDisruptedTargets bool `json:"allowDisruptedTargets,omitempty"`
	// MaxRuns ends the disruption after so many injections, at least 1. Nothing means
	// unlimited. With containerFailure.interval it also limits how often each target is
	// disrupted.
	//
	// +kubebuilder:validation:Minimum=1
	// +nullable
	MaxRuns *int `json:"maxRuns,omitempty"`
	// MaxLostTargets is how many lost targets are replaced, at least 0. A target is
	// lost when it ended, was deleted, or lost its chaos pod. Nothing means as many as
	// count requests, or 10 per hour for each target with "100%".
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +nullable
	MaxLostTargets *int `json:"maxLostTargets,omitempty"`
	// PodOpsLifecycle is how the disruption treats pods with an operation of another
	// controller. Nothing means that they are not selected. Level pod only.
	//
	// +nullable
	PodOpsLifecycle *PodOpsLifecycle `json:"podOpsLifecycle,omitempty"`
	// SteadyState guards the disruption with probes: it does not begin before they
	// succeed, and ends when they fail.
	//
	// +nullable
	SteadyState *SteadyState `json:"steadyState,omitempty"`
	// PodDisruptionBudget is Ignore, the default, or Respect. With Respect, targets are
	// limited to the disruptions that each PodDisruptionBudget allows, minus the
	// targets of running disruptions. Level pod only.
	//
	// +kubebuilder:validation:Enum=Ignore;Respect;""
	PodDisruptionBudget BudgetPolicy `json:"podDisruptionBudget,omitempty"`
	// UnsafeMode switches safety nets off.
	//
	// +nullable
	UnsafeMode *UnsafeMode `json:"unsafeMode,omitempty"`
	// Reporting sends notifications about this disruption.
	//
	// +nullable
	Reporting *Reporting `json:"reporting,omitempty"`
}

// DisruptionFilter narrows the matching targets further.
type DisruptionFilter struct {
	// Annotations a target has, each with exactly this value.
	//
	// +kubebuilder:validation:MaxProperties=64
	// +nullable
	Annotations map[string]string `json:"annotations,omitempty"`
}
