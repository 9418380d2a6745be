package contract

import (
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// ProbeHeartbeatTimeout is after how long without a sign of life a prober counts as dead.
const ProbeHeartbeatTimeout = 10 * time.Second

// BlindLimit is how long a probe may have no answer before its finding is Blind. That is
// as long as it takes to fail, and until a dead prober is detected and the next one has
// begun. The probe has its defaults.
func BlindLimit(probe v1beta1.Probe) time.Duration {
	return time.Duration(probe.FailureThreshold)*max(probe.Period(), probe.Timeout()) + 2*ProbeHeartbeatTimeout
}

// ProbeTransition has the reports of the probes whose state changed. A prober that dies
// may have sent a report that the next one sends again, and one that lives on unnoticed
// may send a report late: NewerThan finds both.
//
// In During the first transition of a session comes as soon as the prober asks, with all
// probes of the phase. In Before and After the first one comes with the first change.
type ProbeTransition struct {
	Phase v1beta1.ProbePhase `json:"phase"`
	// Session is the session of the AskProbes that sent it, Seq its number in there.
	Session int   `json:"session"`
	Seq     int64 `json:"seq"`
	// At is the time of the prober's clock.
	At     time.Time     `json:"at"`
	Probes []ProbeReport `json:"probes"`
}

// NewerThan is true if t was sent after transition seq of the session.
func (t ProbeTransition) NewerThan(session int, seq int64) bool {
	return t.Session > session || t.Session == session && t.Seq > seq
}

// ProbeReport is the state of one probe in a phase. With scope PerTarget it is Failure if
// any target fails, and else Unknown if any is.
type ProbeReport struct {
	Name string `json:"name"`
	// State in Before and After is Success once the probe is steady. In During it is Success
	// until the probe is lost, and then Failure for good. Unknown means that there was no
	// answer for longer than the BlindLimit.
	State v1beta1.ProbeState `json:"state"`
	Since time.Time          `json:"since"`
	// Answered is true once there was an answer in this phase. Before that, State is only
	// the initial state of the phase.
	Answered bool `json:"heard,omitempty"`
	// Text is the reason, in at most 256 bytes.
	Text string `json:"text,omitempty"`
	// Targets is how many are asked, Failing how many of them fail, and FailingTargets the
	// names of up to 10 of these; empty with scope Once.
	Targets        int      `json:"targets,omitempty"`
	Failing        int      `json:"failing,omitempty"`
	FailingTargets []string `json:"failingTargets,omitempty"`
	// Comparison with the control group; nil without one, and with scope Once.
	Comparison *Comparison `json:"comparison,omitempty"`
}

// Comparison is what the targets and the control group have answered in a phase.
type Comparison struct {
	// Pods is the number of pods of the control group that are asked, Failing how many of
	// them fail.
	Pods    int `json:"pods"`
	Failing int `json:"failing,omitempty"`
	// Targets and Control count all answers since the phase began.
	Targets Answers `json:"targets"`
	Control Answers `json:"control"`
}

// Answers counts answers by result.
type Answers struct {
	Successes int64 `json:"successes,omitempty"`
	Failures  int64 `json:"failures,omitempty"`
}

// Count is the number of answers.
func (a Answers) Count() int64 { return a.Successes + a.Failures }

// Plus adds the answers of another time.
func (a Answers) Plus(more Answers) Answers {
	return Answers{a.Successes + more.Successes, a.Failures + more.Failures}
}

// FailedPercent is the percentage of failures, rounded; 0 without answers.
func (a Answers) FailedPercent() int {
	if a.Count() == 0 {
		return 0
	}
	return int((200*a.Failures + a.Count()) / (2 * a.Count()))
}
