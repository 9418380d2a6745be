package v1beta1

// Conditions of a Disruption.
const (
	// ConditionAccepted is True when the spec is valid and its workflow runs.
	ConditionAccepted = "Accepted"
	// ConditionTargetsSelected is True when at least one target was chosen.
	ConditionTargetsSelected = "TargetsSelected"
	// ConditionInjected is True from the moment every chosen target is
	// injected until the disruption ends (rule 31).
	ConditionInjected = "Injected"
	// ConditionEffectVerified is True when every fault was measured to act on every target.
	// It is False with the reason Lost or Ineffective when one of them does not act. It is
	// Unknown with the reason NothingMatchedYet when nothing occurred on which the fault
	// could act, or NotMeasured when no measurement exists. After the end it has the last
	// measurement.
	ConditionEffectVerified = "EffectVerified"
	// ConditionCleaned is True when no chaos pod is left.
	ConditionCleaned = "Cleaned"
	// ConditionStuckOnRemoval is True while a chaos pod failed to clean and a
	// person must decide (rule 45). Bad when True.
	ConditionStuckOnRemoval = "StuckOnRemoval"
	// ConditionSteadyState is True while the probes of spec.steadyState succeed. It is False
	// once one of them is lost, was not reached or does not succeed again, and Unknown
	// without answers.
	ConditionSteadyState = "SteadyState"
	// ConditionAborted is True, for good, when the disruption ended because a probe was lost
	// or could not be asked. Bad when True.
	ConditionAborted = "Aborted"
	// ConditionOperating is True while every target is given to a disruption that
	// participates in operations, and out of service. It is False with the reason Waiting
	// while the driver has not given all targets, with GivingBack or NotEnded while the
	// operations end, and with Ended or NotAvailable when they are over.
	ConditionOperating = "Operating"
	// ConditionOrchestrated is False while Temporal cannot be reached. The
	// bridge writes it.
	ConditionOrchestrated = "Orchestrated"
	// ConditionReady is True while every target is injected, and after a good end. It
	// is for programs such as kubectl wait, Flux and Argo CD.
	ConditionReady = "Ready"
	// ConditionStalled is True when the disruption failed, was rejected, or is stuck
	// until a person decides. Otherwise there is no such condition.
	ConditionStalled = "Stalled"
	// ConditionStopped is True, for good, when an EmergencyStop ended the disruption or
	// refused it. The bridge writes it, so that it does not depend on Temporal or on the
	// stop's existence.
	ConditionStopped = "Stopped"
)

// ConditionClean of an EmergencyStop is True when every disruption has ended
// and no chaos pod is left.
const ConditionClean = "Clean"

// ReasonEmergencyStop is the reason of conditions and events of a disruption
// that an EmergencyStop ends or refuses.
const ReasonEmergencyStop = "EmergencyStop"

// ReasonDenied is the reason of conditions and events of a disruption that is refused, or
// gets no target, because of a rule of a DisruptionPolicy or a namespace without the
// opt-in.
const ReasonDenied = "DeniedByPolicy"

// ReasonInjectionFailed is the reason of a False Injected when a target cannot be
// injected. The message has the cause.
const ReasonInjectionFailed = "InjectionFailed"

// ReasonWaitingForCordon is the reason of a False Injected when targets wait until Squall
// may cordon their node. The message has the node, the time since which they wait, and the
// disruptions that keep other nodes cordoned.
const ReasonWaitingForCordon = "WaitingForCordon"

// ReasonWaitingForRoom is the reason of a False Cleaned while the kubelets of full nodes reject
// cleaner pods. The message has the node and the kubelet's reason.
const ReasonWaitingForRoom = "WaitingForRoom"

// ReasonNothingLeft is the reason of a False Orchestrated in the last status of a deleted
// Disruption that no workflow cleaned up, since there was nothing to clean up.
const ReasonNothingLeft = "NothingLeft"

// Phase is where a disruption is in its life.
type Phase string

// The phases in the order of a life. Stuck comes between Cleaning and
// Finished, and only when a person must decide.
const (
	PhasePending   Phase = "Pending"
	PhaseSelecting Phase = "Selecting"
	PhaseInjecting Phase = "Injecting"
	PhaseHolding   Phase = "Holding"
	PhaseCleaning  Phase = "Cleaning"
	PhaseStuck     Phase = "Stuck"
	PhaseFinished  Phase = "Finished"
	// PhaseRejected is final: the spec can never run, and the condition Accepted has the
	// reason.
	PhaseRejected Phase = "Rejected"
)

// Endings of a disruption whose duration is over, or that was deleted.
const (
	EndingExpired = "expired"
	// EndingFailed is how the Ending of a disruption whose workflow failed begins.
	EndingFailed  = "failed: "
	EndingDeleted = "deleted"
	// EndingNeverBegan is how a run ended whose Disruption was deleted before a workflow began to
	// carry it out. Only the history of its parent shows it.
	EndingNeverBegan = "deleted before it began"
	// EndingCancelled is the Ending of a disruption whose workflow was cancelled in Temporal.
	EndingCancelled = "cancelled"
)

// InjectionStatus is how much of a disruption is in place.
type InjectionStatus string

// The injection statuses; the Previously ones when the disruption has ended.
const (
	NotInjected                 InjectionStatus = "NotInjected"
	PartiallyInjected           InjectionStatus = "PartiallyInjected"
	Injected                    InjectionStatus = "Injected"
	PausedInjected              InjectionStatus = "PausedInjected"
	PausedPartiallyInjected     InjectionStatus = "PausedPartiallyInjected"
	PreviouslyNotInjected       InjectionStatus = "PreviouslyNotInjected"
	PreviouslyPartiallyInjected InjectionStatus = "PreviouslyPartiallyInjected"
	PreviouslyInjected          InjectionStatus = "PreviouslyInjected"
	// IsStuckOnRemoval is the status of one target's kind, never of a disruption.
	IsStuckOnRemoval InjectionStatus = "IsStuckOnRemoval"
)
