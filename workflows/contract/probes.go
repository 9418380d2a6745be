package contract

import (
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// ProbeHeartbeatTimeout is after how long without a sign of life a prober counts
// as dead.
const ProbeHeartbeatTimeout = 10 * time.Second

// BlindLimit is how long a probe may be without any answer before nobody can say
// whether it is steady: as long as it takes to fail, and until a prober that
// died is missed and another one has begun. The probe has its defaults.
func BlindLimit(probe v1beta1.Probe) time.Duration {
	return time.Duration(probe.FailureThreshold)*max(probe.Period(), probe.Timeout()) + 2*ProbeHeartbeatTimeout
}

// ProbeTransition tells what probes say, of those alone for which it changed. A
// prober that dies may have told something that the next one tells again, and
// one that lives on unnoticed may tell something late: NewerThan finds both.
//
// In During the first one of a session comes as soon as it asks, with all probes
// of the phase: somebody asks again. In Before and After the first one comes with
// the first change.
type ProbeTransition struct {
	Phase v1beta1.ProbePhase `json:"phase"`
	// Session is that of the AskProbes which tells it, Seq its number in there.
	Session int   `json:"session"`
	Seq     int64 `json:"seq"`
	// At is the prober's time.
	At     time.Time     `json:"at"`
	Probes []ProbeReport `json:"probes"`
}

// NewerThan is true for what was told after that.
func (t ProbeTransition) NewerThan(session int, seq int64) bool {
	return t.Session > session || t.Session == session && t.Seq > seq
}

// ProbeReport is what one probe says in a phase. With scope PerTarget it is
// Failure if any target fails, and else Unknown if any is.
type ProbeReport struct {
	Name string `json:"name"`
	// State in Before and After is Success once the probe is steady. In During it
	// is Success until the probe is lost, which Failure says for good; Unknown
	// says that nobody could be asked for longer than the BlindLimit.
	State v1beta1.ProbeState `json:"state"`
	Since time.Time          `json:"since"`
	// Answered is true once there was an answer in this phase. Without, State is only
	// what the phase begins with.
	Answered bool `json:"heard,omitempty"`
	// Text says why, in at most 256 bytes.
	Text string `json:"text,omitempty"`
	// Targets is how many are asked, Failing how many of them fail, and
	// FailingTargets the names of up to 10 of these; with scope Once nothing.
	Targets        int      `json:"targets,omitempty"`
	Failing        int      `json:"failing,omitempty"`
	FailingTargets []string `json:"failingTargets,omitempty"`
	// Comparison with the control group; nil without one, and with scope Once.
	Comparison *Comparison `json:"comparison,omitempty"`
}

// Comparison is what the targets and the control group have answered in a phase.
type Comparison struct {
	// Pods of the control group are asked, of which Failing fail.
	Pods    int `json:"pods"`
	Failing int `json:"failing,omitempty"`
	// Targets and Control are all answers since the phase began.
	Targets Answers `json:"targets"`
	Control Answers `json:"control"`
}

// Answers counts those that had a result.
type Answers struct {
	Successes int64 `json:"successes,omitempty"`
	Failures  int64 `json:"failures,omitempty"`
}

// Count is how many there are.
func (a Answers) Count() int64 { return a.Successes + a.Failures }

// Plus adds those of another time.
func (a Answers) Plus(more Answers) Answers {
	return Answers{a.Successes + more.Successes, a.Failures + more.Failures}
}

// FailedPercent is how many of them were failures, rounded; 0 for none at all.
func (a Answers) FailedPercent() int {
	if a.Count() == 0 {
		return 0
	}
	return int((200*a.Failures + a.Count()) / (2 * a.Count()))
}
