package v1beta1

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DisruptionScenario runs steps one after the other. A step is a set of disruptions, a
// wait, or an approval by a person. The scenario owns its disruptions, named
// disruption-scenario-NAME-S-D after the numbers of step and disruption. Deleting it
// ends and cleans up the running ones.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=discenario,categories=chaos
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name=Step,type=string,JSONPath=`.status.step`,description="the step that is under way"
// +kubebuilder:printcolumn:name=Verdict,type=string,JSONPath=`.status.verdict`,description="the worst of its steps and probes"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Message,type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 37",message="metadata.name is part of the name of every disruption, disruption-scenario-NAME-S-D: use at most 37 characters",messageExpression="'metadata.name is part of the name of every disruption, disruption-scenario-NAME-S-D: use at most 37 characters, not %d'.format([self.metadata.name.size()])"
type DisruptionScenario struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the list of steps. A change after the scenario began ends it before the
	// next step of disruptions.
	Spec DisruptionScenarioSpec `json:"spec"`
	// Status is how far it is.
	Status DisruptionScenarioStatus `json:"status,omitempty"`
}

// DisruptionScenarioList is a list of scenarios.
//
// +kubebuilder:object:root=true
type DisruptionScenarioList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DisruptionScenario `json:"items"`
}

// DisruptionScenarioSpec is a plan of disruptions.
//
// +kubebuilder:validation:XValidation:rule="!has(self.steadyState) || self.steadyState.probes.all(p, !has(p.scope) || p.scope != 'PerTarget')",message="the scenario as a whole has no targets: use scope Once, or give the probe to a template",fieldPath=".steadyState.probes"
// +kubebuilder:validation:XValidation:rule="!has(self.steadyState) || !has(self.steadyState.controlGroup)",message="the scenario as a whole has no targets: remove it, or give it to a template",fieldPath=".steadyState.controlGroup"
// +kubebuilder:validation:XValidation:rule="!has(self.steadyState) || !has(self.steadyState.gateTimeoutSeconds) || self.steadyState.gateTimeoutSeconds <= 3600",message="at most 3600 for a scenario",fieldPath=".steadyState.gateTimeoutSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.steadyState) || !has(self.steadyState.recoveryTimeoutSeconds) || self.steadyState.recoveryTimeoutSeconds <= 3600",message="at most 3600 for a scenario",fieldPath=".steadyState.recoveryTimeoutSeconds"
type DisruptionScenarioSpec struct {
	// Steps are done one after the other.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Steps []ScenarioStep `json:"steps"`
	// SteadyState guards the whole run with probes of scope Once. No step begins before
	// they succeed. When one of them fails, all running disruptions end. After the last
	// step they must succeed again. Templates may have probes of their own.
	//
	// +nullable
	SteadyState *SteadyState `json:"steadyState,omitempty"`
	// Reporting sends notifications about the scenario, and about the
	// disruptions whose template has none.
	//
	// +nullable
	Reporting *Reporting `json:"reporting,omitempty"`
}

// ScenarioStep is one of disruptions, wait and approval.
//
// +kubebuilder:validation:XValidation:rule="[has(self.disruptions), has(self.wait), has(self.approval)].filter(is, is).size() == 1",message="want exactly one of disruptions, wait and approval"
// +kubebuilder:validation:XValidation:rule="!has(self.onFailure) || has(self.disruptions)",message="only disruptions have a verdict: remove it",fieldPath=".onFailure"
type ScenarioStep struct {
	// Name of the step, which status has, and the annotation of an approval.
	//
	// +kubebuilder:validation:MaxLength=51
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Disruptions begin together. The step is over when all of them are, and clean.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Disruptions []ScenarioDisruption `json:"disruptions,omitempty"`
	// OnFailure is the reaction when the verdict of a disruption of the step is not
	// Passed. Stop skips all further steps; Continue proceeds. Default Stop.
	//
	// +kubebuilder:validation:Enum=Stop;Continue
	OnFailure OnFailure `json:"onFailure,omitempty"`
	// Wait is how long nothing is done, 1s to 24h.
	//
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 1000000000 && self <= 86400000000000 : (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || (duration(self) >= duration('1s') && duration(self) <= duration('24h')))`,message="want a duration of 1s to 24h",messageExpression=`string(self) + (type(self) == int ? 'ns' : '') + ': want a duration of 1s to 24h'`
	Wait *Duration `json:"wait,omitempty"`
	// Approval waits until a person approves the step.
	Approval *ScenarioApproval `json:"approval,omitempty"`
	// When the step is done: by the verdict of one before it. Else it is skipped.
	// Default always.
	When *ScenarioCondition `json:"when,omitempty"`
}

// ScenarioCondition is a condition on the verdict of an earlier step.
type ScenarioCondition struct {
	// Step is the name of an earlier step of disruptions. A skipped step has no
	// verdict.
	//
	// +kubebuilder:validation:MaxLength=51
	Step string `json:"step"`
	// Verdict is one of these.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:Enum=Passed;Inconclusive;Failed;Aborted
	// +listType=set
	Verdict []Verdict `json:"verdict"`
}

// Met is true when that step has one of the verdicts. It is true without a condition.
func (c *ScenarioCondition) Met(steps []ScenarioStepStatus) bool {
	return c == nil || slices.ContainsFunc(steps, func(at ScenarioStepStatus) bool {
		return at.Name == c.Step && slices.Contains(c.Verdict, at.Verdict)
	})
}

// OnFailure is the reaction to a step that did not pass.
type OnFailure string

// Values of OnFailure.
const (
	OnFailureStop     OnFailure = "Stop"
	OnFailureContinue OnFailure = "Continue"
)

// ScenarioDisruption is one disruption of a step.
type ScenarioDisruption struct {
	// Template is the spec of the disruption. It is judged as that of a Disruption
	// before the first step begins.
	Template DisruptionSpec `json:"template"`
}

// ScenarioApproval waits for a person.
type ScenarioApproval struct {
	// Message is shown to the approver.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// DisruptionScenarioStatus is how far a scenario is.
type DisruptionScenarioStatus struct {
	// Phase is Running, Waiting while a step waits for its time, Suspended while one
	// waits for a person, Stopping, Finished or Rejected.
	Phase ScenarioPhase `json:"phase,omitempty"`
	// Step is the name of the step that is under way.
	Step string `json:"step,omitempty"`
	// Verdict is the worst of its steps and of its probes. Empty until it ends.
	Verdict Verdict `json:"verdict,omitempty"`
	// Message is what it waits for, or why it ended.
	//
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// Steps are those that began, in their order.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Steps []ScenarioStepStatus `json:"steps,omitempty"`
	// SteadyState is the result of the probes of spec.steadyState. Unset without
	// probes.
	SteadyState *SteadyStateStatus `json:"steadyState,omitempty"`
	// Conditions are Ready, True when the scenario passed, and Stalled, True when it did
	// not or was rejected. They are for programs such as kubectl wait. Orchestrated is
	// False while no worker runs the scenario, or no program its probes.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScenarioPhase is where a scenario, or one of its steps, is.
type ScenarioPhase string

// The phases of a scenario.
const (
	ScenarioRunning   ScenarioPhase = "Running"
	ScenarioWaiting   ScenarioPhase = "Waiting"
	ScenarioSuspended ScenarioPhase = "Suspended"
	ScenarioStopping  ScenarioPhase = "Stopping"
	ScenarioFinished  ScenarioPhase = "Finished"
	ScenarioSkipped   ScenarioPhase = "Skipped"
	ScenarioRejected  ScenarioPhase = "Rejected"
)

// Over is true once a scenario in this phase has ended.
func (p ScenarioPhase) Over() bool { return p == ScenarioFinished || p == ScenarioRejected }

// ScenarioStepStatus is how far a step is.
type ScenarioStepStatus struct {
	// Name of the step.
	Name string `json:"name"`
	// Phase is Running, Waiting, Suspended, Stopping, Finished or Skipped.
	Phase ScenarioPhase `json:"phase"`
	// Verdict is the worst of its disruptions. Empty until it ends, and of other
	// steps.
	Verdict Verdict `json:"verdict,omitempty"`
	// StartedAt is when it began.
	StartedAt metav1.Time `json:"startedAt"`
	// EndedAt is when the step ended. Unset until then.
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// ApprovedBy is the person who approved the step.
	ApprovedBy string `json:"approvedBy,omitempty"`
	// Disruptions of the step.
	//
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	Disruptions []ScenarioRun `json:"disruptions,omitempty"`
}

// ScenarioRun is a disruption of a scenario.
type ScenarioRun struct {
	// Name of the disruption.
	Name string `json:"name"`
	// UID of the disruption.
	UID types.UID `json:"uid,omitempty"`
	// Ending is why it ended. Empty until then.
	Ending string `json:"ending,omitempty"`
	// Verdict is the verdict of its probes. Without probes it is Passed when it lasted
	// for its duration and all targets were injected. It is Inconclusive when not all
	// targets were injected, and Aborted when it ended early. Empty until it ended.
	Verdict Verdict `json:"verdict,omitempty"`
}

// Marks on the Disruptions of a scenario.
const (
	// LabelScenario names its scenario.
	LabelScenario = "chaos.squall.dev/disruption-scenario-name" // Disruption: name of its DisruptionScenario
	// AnnotationApprovedBy and the name of a step that waits for a person: who
	// approves it, on the scenario.
	AnnotationApprovedBy = "chaos.squall.dev/approved-by." // DisruptionScenario; written by an approver: ends with the name of a step; the person who approved it
	// ScenarioChildPrefix begins the names of its disruptions.
	ScenarioChildPrefix = "disruption-scenario-"
)

// KindDisruptionScenario is the kind of a scenario.
const KindDisruptionScenario = "DisruptionScenario"

// ChildName is the name of a disruption of a step, of both of which the first has
// the number 0 here and 1 in the name. Numbers keep apart what names would not:
// of steps a-b and a, disruptions c and b-c.
func (s *DisruptionScenario) ChildName(step, disruption int) string {
	return fmt.Sprintf("%s%s-%d-%d", ScenarioChildPrefix, s.Name, step+1, disruption+1)
}

// Owns is true for a disruption of this scenario, and of no other that had its
// name.
func (s *DisruptionScenario) Owns(d *Disruption) bool {
	owner := metav1.GetControllerOf(d)
	return owner != nil && owner.Kind == KindDisruptionScenario && owner.UID == s.UID && d.Namespace == s.Namespace
}
