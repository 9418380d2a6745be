package steadystate

import (
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rule P15
func TestVerdictOfAProbe(t *testing.T) {
	const abort, record = v1beta1.ProbeAbort, v1beta1.ProbeRecord
	all := []v1beta1.ProbePhase{v1beta1.ProbeBefore, v1beta1.ProbeDuring, v1beta1.ProbeAfter}
	for _, c := range []struct {
		name                    string
		phases                  []v1beta1.ProbePhase
		onFailure, onProberLost v1beta1.ProbeOnFailure
		found                   Findings
		want                    v1beta1.Verdict
	}{
		{"steady all the time", all, abort, abort, Findings{Steady, Steady, Steady}, v1beta1.VerdictPassed},
		{"the gate did not open", all, abort, abort, Findings{Before: Lost}, v1beta1.VerdictFailed},
		{"the gate did not open, and nothing was to be aborted", all, record, record, Findings{Before: Lost}, v1beta1.VerdictFailed},
		{"deleted before the gate opened", all, abort, abort, Findings{}, v1beta1.VerdictInconclusive},
		{"nobody could ask Before", all, abort, abort, Findings{Before: Blind}, v1beta1.VerdictInconclusive},
		{"deleted before there was a result During", all, abort, abort, Findings{Steady, None, Steady}, v1beta1.VerdictInconclusive},
		{"lost: ended", all, abort, record, Findings{Steady, Lost, Steady}, v1beta1.VerdictAborted},
		{"lost and not back: ended weighs more", all, abort, record, Findings{Steady, Lost, Lost}, v1beta1.VerdictAborted},
		{"lost: recorded", all, record, abort, Findings{Steady, Lost, Steady}, v1beta1.VerdictFailed},
		{"nobody could ask During: ended", all, record, abort, Findings{Steady, Blind, Steady}, v1beta1.VerdictAborted},
		{"nobody could ask During: recorded", all, abort, record, Findings{Steady, Blind, Steady}, v1beta1.VerdictInconclusive},
		{"nobody could ask During, and not back", all, abort, record, Findings{Steady, Blind, Lost}, v1beta1.VerdictFailed},
		{"not back in time", all, abort, abort, Findings{Steady, Steady, Lost}, v1beta1.VerdictFailed},
		{"nobody could ask After", all, abort, abort, Findings{Steady, Steady, Blind}, v1beta1.VerdictInconclusive},
		{"After never came", all, abort, abort, Findings{Steady, Steady, None}, v1beta1.VerdictInconclusive},
		{"a phase it does not ask in", all[1:2], abort, abort, Findings{Lost, Steady, Lost}, v1beta1.VerdictPassed},
		{"After alone", all[2:], abort, abort, Findings{After: Steady}, v1beta1.VerdictPassed},
		{"Before alone", all[:1], abort, abort, Findings{Before: Steady}, v1beta1.VerdictPassed},
	} {
		t.Run(c.name, func(t *testing.T) {
			probe := v1beta1.Probe{Phases: c.phases, OnFailure: c.onFailure}
			if got := OfProbe(probe, c.onProberLost, c.found); got != c.want {
				t.Errorf("OfProbe(%v, onFailure %s, onProberLost %s, %+v) = %s, want %s", c.phases, c.onFailure, c.onProberLost, c.found, got, c.want)
			}
		})
	}
}

// rule P15
func TestVerdictOfARun(t *testing.T) {
	for _, c := range []struct {
		name     string
		verdicts []v1beta1.Verdict
		want     v1beta1.Verdict
	}{
		{"all passed", []v1beta1.Verdict{v1beta1.VerdictPassed, v1beta1.VerdictPassed}, v1beta1.VerdictPassed},
		{"nobody can say of one", []v1beta1.Verdict{v1beta1.VerdictPassed, v1beta1.VerdictInconclusive}, v1beta1.VerdictInconclusive},
		{"one failed", []v1beta1.Verdict{v1beta1.VerdictInconclusive, v1beta1.VerdictFailed, v1beta1.VerdictPassed}, v1beta1.VerdictFailed},
		{"one aborted", []v1beta1.Verdict{v1beta1.VerdictFailed, v1beta1.VerdictPassed, v1beta1.VerdictAborted, v1beta1.VerdictInconclusive}, v1beta1.VerdictAborted},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := WorstOf(c.verdicts...); got != c.want {
				t.Errorf("WorstOf(%v) = %s, want %s", c.verdicts, got, c.want)
			}
		})
	}
}
