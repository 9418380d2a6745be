// Package steadystate decides what the answers of probes mean for a disruption, or a
// scenario.
// It knows no workflow, no cluster and no clock.
package steadystate

import (
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// OfProbe is the verdict on one probe, with its defaults. onProberLost decides about
// findings that are Blind. A phase in which the probe is not asked counts for nothing
// (rule P15).
func OfProbe(probe v1beta1.Probe, onProberLost v1beta1.ProbeOnFailure, found Findings) v1beta1.Verdict {
	asks := func(phase v1beta1.ProbePhase) bool { return slices.Contains(probe.Phases, phase) }
	var verdicts []v1beta1.Verdict
	if asks(v1beta1.ProbeBefore) {
		verdicts = append(verdicts, outside(found.Before))
	}
	if asks(v1beta1.ProbeDuring) {
		verdicts = append(verdicts, during(found.During, probe.OnFailure, onProberLost))
	}
	if asks(v1beta1.ProbeAfter) {
		verdicts = append(verdicts, outside(found.After))
	}
	return WorstOf(verdicts...)
}

// during is the verdict of phase During.
func during(finding Finding, onFailure, onProberLost v1beta1.ProbeOnFailure) v1beta1.Verdict {
	switch finding {
	case Steady:
		return v1beta1.VerdictPassed
	case Lost:
		return ended(onFailure, v1beta1.VerdictFailed)
	case Blind:
		return ended(onProberLost, v1beta1.VerdictInconclusive)
	}
	return v1beta1.VerdictInconclusive
}

func ended(policy v1beta1.ProbeOnFailure, otherwise v1beta1.Verdict) v1beta1.Verdict {
	if policy == v1beta1.ProbeRecord {
		return otherwise
	}
	return v1beta1.VerdictAborted
}

// outside is the verdict of phases Before and After.
func outside(finding Finding) v1beta1.Verdict {
	switch finding {
	case Steady:
		return v1beta1.VerdictPassed
	case Lost:
		return v1beta1.VerdictFailed
	}
	return v1beta1.VerdictInconclusive
}

// WorstOf is the worst of verdicts: of the probes of a disruption, of the disruptions of
// a step, of the steps of a scenario. Passed if there are none. A verdict that is known
// to be bad weighs more than one that is not known.
func WorstOf(verdicts ...v1beta1.Verdict) v1beta1.Verdict {
	for _, worst := range []v1beta1.Verdict{v1beta1.VerdictAborted, v1beta1.VerdictFailed, v1beta1.VerdictInconclusive} {
		if slices.Contains(verdicts, worst) {
			return worst
		}
	}
	return v1beta1.VerdictPassed
}
