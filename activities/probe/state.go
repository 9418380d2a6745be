package probe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Key identifies a result: a probe and, with scope PerTarget, the container of a target
// that it asks.
type Key struct {
	Probe     string    `json:"probe"`
	Target    types.UID `json:"target,omitempty"`
	Container string    `json:"container,omitempty"`
}

// State is what a probe's worker must not forget. A worker that gets the state of
// another one resumes there (rule P10).
type State struct {
	Key
	Phase v1beta1.ProbePhase `json:"phase"`
	// ContainerID of the container that Result is about; empty with scope Once.
	ContainerID string `json:"containerID,omitempty"`
	// Result is the last result that came as often in a row as its threshold demands.
	// Until then it is the initial result of the phase.
	Result Result `json:"result"`
	// Last is the result of the last answer, and Run how many were the same in a row.
	Last Result `json:"last,omitempty"`
	Run  int32  `json:"run,omitempty"`
	// OnHold is true once Result is decided: nothing is asked until the next phase.
	OnHold bool `json:"onHold,omitempty"`
	// Spent is the used part of the probe's budget, in phase During only.
	Spent *Spent `json:"spent,omitempty"`
	// Text of the answer that decided Result, as Results has it; empty if no answer
	// decided, or if another worker reported it.
	Text string `json:"-"`
}

// begin returns the state at the beginning of a phase, or of a container's life in it.
// Before is not steady until it is proven, During was just proven, and After is open.
func begin(key Key, phase v1beta1.ProbePhase, containerID string) State {
	state := State{Key: key, Phase: phase, ContainerID: containerID, Result: Unknown}
	switch phase {
	case v1beta1.ProbeBefore:
		state.Result = Failure
	case v1beta1.ProbeDuring:
		state.Result = Success
	}
	return state
}

// in returns the state for a worker of a phase: a state of another phase counts for
// nothing (rule P7).
func (s State) in(phase v1beta1.ProbePhase) State {
	if s.Phase == phase {
		return s
	}
	return begin(s.Key, phase, "")
}

// after returns the state after an answer with a result (rule P3). In During a failure
// decides, in After a success: a failure there may still heal. A burned budget is a
// failure, whatever the run.
func (s State) after(result Result, probe v1beta1.Probe, at time.Time) State {
	if result != s.Last {
		s.Last, s.Run = result, 0
	}
	s.Run++
	if probe.Budget != nil && s.Phase == v1beta1.ProbeDuring {
		var before Spent
		if s.Spent != nil {
			before = *s.Spent
		}
		now := before.add(*probe.Budget, result, at)
		if s.Spent = &now; now.burned(*probe.Budget, at) {
			return s.decided(Failure)
		}
	}
	if result == Success && s.Run < probe.SuccessThreshold || result == Failure && s.Run < probe.FailureThreshold {
		return s
	}
	return s.decided(result)
}

func (s State) decided(result Result) State {
	s.Result = result
	if s.Phase == v1beta1.ProbeDuring && result == Failure || s.Phase == v1beta1.ProbeAfter && result == Success {
		s.OnHold, s.Run = true, 0 // rule P6
	}
	return s
}

// step is what a worker does at a tick.
type step int

const (
	ask  step = iota
	wait      // for the next tick
	end
)

// lookOnce returns the step of a tick with scope Once.
func (s State) lookOnce(probe v1beta1.Probe, sinceBegin time.Duration) step {
	if s.OnHold || tooEarly(probe, sinceBegin) {
		return wait
	}
	return ask
}

// look returns the step of a tick for a target, with the new state, and why that
// decided anything. pod is the target's pod now; nil if it is unknown.
func (s State) look(probe v1beta1.Probe, pod *corev1.Pod, now time.Time) (_ State, next step, why string) {
	if pod == nil {
		return s, wait, "" // unknown yet, or unknown again
	}
	if pod.UID != s.Target || ended(pod) {
		return s, end, ""
	}
	status := (&Target{Pod: pod, Container: s.Container}).status()
	if s.OnHold || status.ContainerID == "" {
		return s, wait, ""
	}
	if status.ContainerID != s.ContainerID {
		s = begin(s.Key, s.Phase, status.ContainerID) // rule P7
	}
	if pod.DeletionTimestamp != nil && s.Phase != v1beta1.ProbeBefore {
		s.Result = Success // a pod that is being deleted proves nothing about the steady state
		return s, end, "the pod is being deleted"
	}
	if status.State.Running == nil {
		const notRunning = "the container does not run"
		s = s.decided(Failure)
		if status.State.Terminated != nil && pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
			return s, end, notRunning
		}
		return s, wait, notRunning
	}
	if tooEarly(probe, now.Sub(status.State.Running.StartedAt.Time)) {
		return s, wait, ""
	}
	return s, ask, ""
}

// tooEarly compares whole seconds, as the kubelet does (rule P5). A container without a
// start time counts as long started.
func tooEarly(probe v1beta1.Probe, since time.Duration) bool {
	return int64(since/time.Second) < int64(probe.InitialDelaySeconds)
}
