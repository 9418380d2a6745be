package v1beta1

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SteadyState guards a disruption with probes. Nothing is injected before they succeed.
// The disruption ends when one of them is lost. After the disruption they have to succeed
// again.
//
// +kubebuilder:validation:XValidation:rule="!has(self.controlGroup) || self.probes.exists(p, has(p.scope) && p.scope == 'PerTarget')",message="a control group is asked by probes with scope PerTarget, and there is none: add one, or remove controlGroup",fieldPath=".controlGroup"
type SteadyState struct {
	// GateTimeoutSeconds is how long the probes of phase Before may take to
	// succeed, up to 86400. If they do not, nothing is injected. 0 means 60.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	GateTimeoutSeconds int32 `json:"gateTimeoutSeconds,omitempty"`
	// RecoveryTimeoutSeconds is how long the probes of phase After may take to
	// succeed, up to 86400. If they do not, the verdict is Failed. 0 means 300.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	RecoveryTimeoutSeconds int32 `json:"recoveryTimeoutSeconds,omitempty"`
	// OnProberLost is the reaction when probes could not run for 20 s longer than a
	// probe takes to fail. Abort ends the disruption; Record continues it. Empty means
	// Abort.
	//
	// +kubebuilder:validation:Enum=Abort;Record;""
	OnProberLost ProbeOnFailure `json:"onProberLost,omitempty"`
	// ControlGroup is how many matching pods are not disrupted and are probed for
	// comparison, by probes with scope PerTarget. It is a number, at least 1, or a
	// percentage of the matching pods from "1%" to "99%", rounded up; at most 200. They
	// are selected once, from the pods that are not targets. Default none.
	//
	// +kubebuilder:validation:XValidation:rule=`string(self).matches('^0*([1-9][0-9]{0,8}|[1-9][0-9]?%)$')`,message="want a number of pods such as 2, or a percentage of those that match from \"1%\" to \"99%\"",messageExpression=`string(self) + ': want a number of pods such as 2, or a percentage of those that match from "1%" to "99%"'`
	ControlGroup *intstr.IntOrString `json:"controlGroup,omitempty"`
	// Probes ask for the steady state, 1 to 10. Required.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.name == p.name))",message="another probe has this name: give each its own",messageExpression="'of %d probes two are called the same: another probe has this name: give each its own'.format([self.size()])"
	// +listType=atomic
	Probes []Probe `json:"probes"`
}

const mostSteadyStateSeconds = 86400

// MostControlPods is how many pods a control group has at most.
const MostControlPods = 200

// Compares is true when there is to be a control group.
func (s *SteadyState) Compares() bool { return s != nil && s.ControlGroup != nil }

// ControlWanted is how many pods the control group wants, of so many that match.
func (s *SteadyState) ControlWanted(matching int) int {
	if s == nil || s.ControlGroup == nil {
		return 0
	}
	return min(DisruptionSpec{Count: s.ControlGroup}.Wanted(matching), MostControlPods)
}

// WithDefaults is the steady state with every field filled in that may be left
// out, also those of its probes.
func (s SteadyState) WithDefaults() SteadyState {
	if s.GateTimeoutSeconds == 0 {
		s.GateTimeoutSeconds = 60
	}
	if s.RecoveryTimeoutSeconds == 0 {
		s.RecoveryTimeoutSeconds = 300
	}
	if s.OnProberLost == "" {
		s.OnProberLost = ProbeAbort
	}
	probes := make([]Probe, len(s.Probes))
	for i, probe := range s.Probes {
		probes[i] = probe.WithDefaults()
	}
	s.Probes = probes
	return s
}

// ForWorkflow is what a workflow needs to know of a steady state: its defaults, and no
// handlers, which may hold secrets that are none of its history's. nil stays nil.
func (s *SteadyState) ForWorkflow() *SteadyState {
	if s == nil {
		return nil
	}
	guard := s.DeepCopy().WithDefaults()
	for i := range guard.Probes {
		guard.Probes[i].ProbeHandler = ProbeHandler{}
	}
	return &guard
}

// GateTimeout is how long phase Before may take.
func (s SteadyState) GateTimeout() time.Duration {
	return time.Duration(s.GateTimeoutSeconds) * time.Second
}

// RecoveryTimeout is how long phase After may take.
func (s SteadyState) RecoveryTimeout() time.Duration {
	return time.Duration(s.RecoveryTimeoutSeconds) * time.Second
}

// Of are the probes that ask in a phase. The steady state has its defaults.
func (s SteadyState) Of(phase ProbePhase) []Probe {
	var probes []Probe
	for _, probe := range s.Probes {
		if slices.Contains(probe.Phases, phase) {
			probes = append(probes, probe)
		}
	}
	return probes
}

// Asks is true when a probe asks in the phase.
func (s SteadyState) Asks(phase ProbePhase) bool { return len(s.Of(phase)) > 0 }

func (s *SteadyState) validate(path *field.Path, level Level) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := within(path.Child("gateTimeoutSeconds"), int(s.GateTimeoutSeconds), 0, mostSteadyStateSeconds)
	errs = append(errs, within(path.Child("recoveryTimeoutSeconds"), int(s.RecoveryTimeoutSeconds), 0, mostSteadyStateSeconds)...)
	errs = append(errs, oneOf(path.Child("onProberLost"), string(s.OnProberLost), "", string(ProbeAbort), string(ProbeRecord))...)
	errs = append(errs, s.validateControlGroup(path.Child("controlGroup"))...)
	return append(errs, ValidateProbes(path.Child("probes"), level, s.Probes)...)
}

func (s *SteadyState) validateControlGroup(path *field.Path) field.ErrorList {
	if s.ControlGroup == nil {
		return nil
	}
	var errs field.ErrorList
	amount, percent, err := parseAmount(*s.ControlGroup)
	if err == nil && percent && amount == 100 {
		err = fmt.Errorf("%q: a percentage goes from 1%% to 99%%, as the targets are none of it", s.ControlGroup)
	}
	if err != nil {
		errs = append(errs, field.Invalid(path, s.ControlGroup.String(), err.Error()))
	}
	if !slices.ContainsFunc(s.Probes, Probe.perTarget) {
		errs = append(errs, field.Invalid(path, s.ControlGroup.String(), "a control group is asked by probes with scope PerTarget, and there is none: add one, or remove controlGroup"))
	}
	return errs
}

// How the Ending of a disruption begins that its probes have ended.
const (
	// EndingAborted: a probe was lost, or could not be asked.
	EndingAborted = "aborted: "
	// EndingNotSteady: probes did not succeed before, and nothing was injected.
	EndingNotSteady = "not steady: "
)

// Verdict is what a disruption has shown of the steady state.
type Verdict string

const (
	// VerdictPassed: it was steady all the time, and is.
	VerdictPassed Verdict = "Passed"
	// VerdictInconclusive: the answers prove neither.
	VerdictInconclusive Verdict = "Inconclusive"
	// VerdictFailed: it was not steady before, or was lost, or did not come back.
	VerdictFailed Verdict = "Failed"
	// VerdictAborted: it was lost, and the disruption ended for that.
	VerdictAborted Verdict = "Aborted"
)

// ProbeState is the state of a probe now.
type ProbeState string

const (
	// ProbeUnknown: it has not decided yet, or could not be asked for long.
	ProbeUnknown ProbeState = "Unknown"
	ProbeSuccess ProbeState = "Success"
	ProbeFailure ProbeState = "Failure"
)

// SteadyStateStatus is the result of the probes.
type SteadyStateStatus struct {
	// Phase in which the probes run: Before, During or After. Empty after the last one.
	Phase ProbePhase `json:"phase,omitempty"`
	// Verdict is Passed, Failed, Aborted or Inconclusive. Empty as long as the
	// disruption may still show another.
	Verdict Verdict `json:"verdict,omitempty"`
	// Summary is the result in one sentence.
	Summary string `json:"summary,omitempty"`
	// ReportedAt is when the workflow decided on it. An older decision that is written
	// later has no effect.
	ReportedAt *metav1.MicroTime `json:"reportedAt,omitempty"`
	// ControlGroup is the selected control group. Unset without one.
	ControlGroup *ControlGroupStatus `json:"controlGroup,omitempty"`
	// Probes in the order of the spec.
	//
	// +listType=atomic
	Probes []ProbeStatus `json:"probes,omitempty"`
}

// ControlGroupStatus is the control group as it was chosen.
type ControlGroupStatus struct {
	// Wanted is how many pods the spec asks for, Chosen how many there were; 0 means
	// that the targets left none.
	Wanted int `json:"wanted"`
	Chosen int `json:"chosen"`
}

// ProbeComparison sets the answers of the targets in phase During against those of
// the control group.
type ProbeComparison struct {
	// ControlPods is how many pods of the control group were asked last, and
	// ControlFailing how many of them failed.
	ControlPods    int `json:"controlPods"`
	ControlFailing int `json:"controlFailing"`
	// TargetAnswers and ControlAnswers count the answers.
	TargetAnswers  int64 `json:"targetAnswers"`
	ControlAnswers int64 `json:"controlAnswers"`
	// TargetsFailedPercent and ControlFailedPercent are how many of these answers
	// were failures, in percent and rounded.
	TargetsFailedPercent int `json:"targetsFailedPercent"`
	ControlFailedPercent int `json:"controlFailedPercent"`
	// Difference is how many percentage points more of the targets' answers failed;
	// negative if it was fewer.
	Difference int `json:"difference"`
}

// ProbeStatus is the result of one probe.
type ProbeStatus struct {
	// Name of the probe.
	Name string `json:"name"`
	// State is Success, Failure or Unknown. With scope PerTarget it is Failure if
	// one of the targets fails.
	State ProbeState `json:"state,omitempty"`
	// Since is when the state became what it is.
	Since *metav1.Time `json:"since,omitempty"`
	// Text is the reason, in at most 256 bytes.
	Text string `json:"text,omitempty"`
	// Targets is how many targets are asked, Failing how many of them fail; 0
	// with scope Once.
	Targets int `json:"targets,omitempty"`
	Failing int `json:"failing,omitempty"`
	// FailingTargets are the names of up to 10 of them.
	//
	// +listType=atomic
	FailingTargets []string `json:"failingTargets,omitempty"`
	// Verdict of the probe alone, once it is known.
	Verdict Verdict `json:"verdict,omitempty"`
	// Comparison with the control group. Absent without one, with scope Once, and
	// before both have answered in phase During.
	Comparison *ProbeComparison `json:"comparison,omitempty"`
}
