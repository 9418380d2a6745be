package v1beta1

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodOpsLifecycle is how a disruption treats pods with an operation of another
// controller: a rollout, a scaling, a deletion that waits until their traffic has ended.
// Level pod only.
//
// +kubebuilder:validation:XValidation:rule="!has(self.protectTargets) || !self.protectTargets || (has(self.policy) && self.policy == 'Participate')",message="only an operation on a pod can keep others from it: set policy to Participate, or remove protectTargets",fieldPath=".protectTargets"
type PodOpsLifecycle struct {
	// Policy is Respect, Ignore or Participate. Respect, the default, selects no pods
	// with an operation of another controller. Ignore does not check. Participate is
	// Respect, and makes the disruption an operation on each target. It injects when a
	// driver of PodOpsLifecycle has taken the pod out of service.
	//
	// +kubebuilder:validation:Enum=Ignore;Respect;Participate;""
	Policy OperationPolicy `json:"policy,omitempty"`
	// WhenBusy is what happens to a matching pod with another operation when targets
	// are selected. Skip, the default, selects other pods. Wait keeps a place for it
	// for busyTimeoutSeconds, if no free pod fills the place.
	//
	// +kubebuilder:validation:Enum=Skip;Wait;""
	WhenBusy WhenBusy `json:"whenBusy,omitempty"`
	// BusyTimeoutSeconds is how long whenBusy Wait keeps places, in seconds from the
	// time at which the first targets are due, 1 to 86400. Default 300.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +nullable
	BusyTimeoutSeconds *int `json:"busyTimeoutSeconds,omitempty"`
	// OnConcurrentOperation is the reaction when another controller begins to operate
	// on a target. Release, the default, cleans it up; Keep continues the disruption. A
	// target that is being deleted is always cleaned up.
	//
	// +kubebuilder:validation:Enum=Release;Keep;""
	OnConcurrentOperation OnConcurrentOperation `json:"onConcurrentOperation,omitempty"`
	// OperatingTimeoutSeconds is how long policy Participate waits until each target is
	// granted and out of service, in seconds, 1 to 86400. Then the operation is undone
	// and the target is not disrupted. Default 300.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +nullable
	OperatingTimeoutSeconds *int `json:"operatingTimeoutSeconds,omitempty"`
	// AvailableTimeoutSeconds is how long policy Participate waits after the clean-up
	// until the targets are in service again, in seconds, 1 to 86400. Then the
	// disruption ends, and reports the targets that are not. Default 300.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +nullable
	AvailableTimeoutSeconds *int `json:"availableTimeoutSeconds,omitempty"`
	// UnmanagedPods is what policy Participate does with pods that no driver manages.
	// Such a pod lacks the label kusionstack.io/control, the readiness gate
	// pod.kusionstack.io/service-ready or its condition. Proceed, the default, disrupts
	// it as with Respect; Skip does not select it.
	//
	// +kubebuilder:validation:Enum=Proceed;Skip;""
	UnmanagedPods UnmanagedPods `json:"unmanagedPods,omitempty"`
	// WhenUnavailable is what policy Participate does when the cluster has no driver.
	// Fail, the default, rejects the disruption; Proceed continues as with Respect.
	//
	// +kubebuilder:validation:Enum=Fail;Proceed;""
	WhenUnavailable WhenUnavailable `json:"whenUnavailable,omitempty"`
	// ProtectTargets, with policy Participate, puts a finalizer on each granted target.
	// Other operations, and deletions that wait for its traffic, wait until the target
	// is clean, or until protectionTimeoutSeconds are over. Default false.
	ProtectTargets bool `json:"protectTargets,omitempty"`
	// ProtectionTimeoutSeconds is how long another operation waits for a protected
	// target, in seconds, 1 to 86400. Then Squall removes the finalizer, clean or not.
	// Squall also removes it this long after the disruption's end. Default 120.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +nullable
	ProtectionTimeoutSeconds *int `json:"protectionTimeoutSeconds,omitempty"`
}

// OperationPolicy is whether operations of other controllers on a pod matter. Empty means
// Respect.
type OperationPolicy string

// The policies.
const (
	OperationsIgnored   OperationPolicy = "Ignore"
	OperationsRespected OperationPolicy = "Respect"
	OperationsJoined    OperationPolicy = "Participate"
)

// WhenBusy is the treatment of a matching pod with another operation. Empty means Skip.
type WhenBusy string

// Values of WhenBusy.
const (
	SkipBusy    WhenBusy = "Skip"
	WaitForBusy WhenBusy = "Wait"
)

// OnConcurrentOperation is the reaction when another controller begins to operate on a
// target. Empty means Release.
type OnConcurrentOperation string

// Values of OnConcurrentOperation.
const (
	ReleaseTarget OnConcurrentOperation = "Release"
	KeepTarget    OnConcurrentOperation = "Keep"
)

// UnmanagedPods is the treatment of pods that no driver manages. Empty means Proceed.
type UnmanagedPods string

// Values of UnmanagedPods.
const (
	DisruptUnmanaged UnmanagedPods = "Proceed"
	SkipUnmanaged    UnmanagedPods = "Skip"
)

// WhenUnavailable is the reaction when the cluster has no driver and the disruption wants
// one. Empty means Fail.
type WhenUnavailable string

// Values of WhenUnavailable.
const (
	FailWithoutDriver    WhenUnavailable = "Fail"
	ProceedWithoutDriver WhenUnavailable = "Proceed"
)

// defaultOperationTimeout is each time-out of spec.podOpsLifecycle that is not set.
const defaultOperationTimeout = 5 * time.Minute

// defaultProtectionTimeout is protectionTimeoutSeconds when it is not set.
const defaultProtectionTimeout = 2 * time.Minute

// operations are the spec's rules about operations; an absent field has its default.
func (s DisruptionSpec) operations() PodOpsLifecycle {
	if s.PodOpsLifecycle == nil {
		return PodOpsLifecycle{}
	}
	return *s.PodOpsLifecycle
}

// RespectsOperations is true for a disruption that spares pods with an operation of
// another controller. Nodes have no such operations.
func (s DisruptionSpec) RespectsOperations() bool {
	return s.Level != LevelNode && s.operations().Policy != OperationsIgnored
}

// ReleasesOnOperation is true for a disruption that cleans up a target when another
// controller begins to operate on it.
func (s DisruptionSpec) ReleasesOnOperation() bool {
	return s.RespectsOperations() && s.operations().OnConcurrentOperation != KeepTarget
}

// WaitsForBusy is true for a disruption that keeps places for pods with an operation of
// another controller.
func (s DisruptionSpec) WaitsForBusy() bool {
	return s.RespectsOperations() && s.operations().WhenBusy == WaitForBusy
}

// BusyUntil is until when a disruption that was created at that time keeps places; the
// zero time if it keeps none.
func (s DisruptionSpec) BusyUntil(created time.Time) time.Time {
	if !s.WaitsForBusy() {
		return time.Time{}
	}
	timeout := operationTimeout(s.PodOpsLifecycle.BusyTimeoutSeconds)
	due := s.TimeToCreate(created)
	if s.Kinds().By() == ByWorker {
		due = s.TimeToInject(created)
	}
	return due.Add(timeout)
}

func operationTimeout(seconds *int) time.Duration {
	if seconds == nil {
		return defaultOperationTimeout
	}
	return time.Duration(*seconds) * time.Second
}

// ParticipatesInOperations is true for a disruption that is an operation on its
// targets. A dry run injects nothing, so it takes no pod out of service either.
func (s DisruptionSpec) ParticipatesInOperations() bool {
	return s.Level != LevelNode && s.operations().Policy == OperationsJoined && !s.DryRun
}

// SkipsUnmanaged is true for a disruption that does not choose pods that no driver
// manages.
func (s DisruptionSpec) SkipsUnmanaged() bool {
	return s.ParticipatesInOperations() && s.operations().UnmanagedPods == SkipUnmanaged
}

// NeedsDriver is true for a disruption that is not carried out without a driver.
func (s DisruptionSpec) NeedsDriver() bool {
	return s.ParticipatesInOperations() && s.operations().WhenUnavailable != ProceedWithoutDriver
}

// OperatingTimeout is how long to wait until the driver gives a target.
func (s DisruptionSpec) OperatingTimeout() time.Duration {
	return operationTimeout(s.operations().OperatingTimeoutSeconds)
}

// AvailableTimeout is how long to wait until the targets are in service again.
func (s DisruptionSpec) AvailableTimeout() time.Duration {
	return operationTimeout(s.operations().AvailableTimeoutSeconds)
}

// ProtectsTargets is true for a disruption that blocks other operations on its targets.
func (s DisruptionSpec) ProtectsTargets() bool {
	return s.ParticipatesInOperations() && s.operations().ProtectTargets
}

// ProtectionTimeout is how long other operations wait for a target at most.
func (s DisruptionSpec) ProtectionTimeout() time.Duration {
	if s.operations().ProtectionTimeoutSeconds == nil {
		return defaultProtectionTimeout
	}
	return operationTimeout(s.operations().ProtectionTimeoutSeconds)
}

// participants are the reasons why a disruption cannot participate in operations, with
// hints.
func (s DisruptionSpec) participants(path *field.Path) field.ErrorList {
	if s.operations().Policy != OperationsJoined {
		return nil
	}
	switch {
	case s.OnInit:
		return field.ErrorList{field.Invalid(path, OperationsJoined, "a pod that waits for onInit was never in service: set policy to Respect, or remove onInit")}
	case s.PodReplacement != nil:
		return field.ErrorList{field.Invalid(path, OperationsJoined, "podReplacement ends its targets, so no operation can return them: set policy to Respect")}
	}
	return nil
}

const protectsAlone = "only an operation on a pod can keep others from it: set policy to Participate, or remove protectTargets"

func (p *PodOpsLifecycle) validate(path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := oneOf(path.Child("policy"), string(p.Policy), "", string(OperationsIgnored), string(OperationsRespected), string(OperationsJoined))
	errs = append(errs, oneOf(path.Child("whenBusy"), string(p.WhenBusy), "", string(SkipBusy), string(WaitForBusy))...)
	errs = append(errs, oneOf(path.Child("onConcurrentOperation"), string(p.OnConcurrentOperation), "", string(ReleaseTarget), string(KeepTarget))...)
	errs = append(errs, oneOf(path.Child("unmanagedPods"), string(p.UnmanagedPods), "", string(DisruptUnmanaged), string(SkipUnmanaged))...)
	errs = append(errs, oneOf(path.Child("whenUnavailable"), string(p.WhenUnavailable), "", string(FailWithoutDriver), string(ProceedWithoutDriver))...)
	if p.ProtectTargets && p.Policy != OperationsJoined {
		errs = append(errs, field.Invalid(path.Child("protectTargets"), p.ProtectTargets, protectsAlone))
	}
	for name, seconds := range map[string]*int{
		"busyTimeoutSeconds": p.BusyTimeoutSeconds, "operatingTimeoutSeconds": p.OperatingTimeoutSeconds, "availableTimeoutSeconds": p.AvailableTimeoutSeconds,
		"protectionTimeoutSeconds": p.ProtectionTimeoutSeconds,
	} {
		if seconds != nil {
			errs = append(errs, within(path.Child(name), *seconds, 1, 86400)...)
		}
	}
	return errs
}
