package workflows

import (
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// shopIsLost is what befalls the cluster when the probe of the model fails.
const shopIsLost = "the shop does not answer any more"

// askProbes is one session of those who ask the probe: in Before and After until it
// succeeds, in During until it is cancelled.
func (c *cluster) askProbes(a *attempt, in activities.AskProbesInput) activities.AskProbesResult {
	say := func(seq int64, state v1beta1.ProbeState) contract.ProbeReport {
		report := contract.ProbeReport{Name: "shop", State: state, Since: c.now(), Answered: true, Text: "an answer"}
		a.write("signal that the shop is "+string(state), func(bool) {
			c.env.SignalWorkflow(contract.SignalProbe, contract.ProbeTransition{
				Phase: in.Phase, Session: in.Session, Seq: seq, At: c.now(), Probes: []contract.ProbeReport{report},
			})
		})
		return report
	}
	if in.Phase == v1beta1.ProbeDuring {
		say(1, v1beta1.ProbeSuccess)
		for !c.unsteady {
			a.wait(5 * time.Second)
		}
		say(2, v1beta1.ProbeFailure)
		for {
			a.wait(time.Minute)
		}
	}
	for a.wait(time.Second); c.unsteady && (in.Phase == v1beta1.ProbeBefore || len(c.marks) > 0); {
		a.wait(5 * time.Second)
	}
	return activities.AskProbesResult{Probes: []contract.ProbeReport{{Name: "shop", State: v1beta1.ProbeSuccess, Since: c.now(), Answered: true, Text: "an answer"}}}
}

// lostBy is true for a signal by which the probe aborts a disruption that goes on.
func (c *cluster) lostBy(payloads *commonpb.Payloads) bool {
	var told contract.ProbeTransition
	if converter.GetDefaultDataConverter().FromPayloads(payloads, &told) != nil || c.cleaning || c.told != "" {
		return false
	}
	return told.Phase == v1beta1.ProbeDuring && told.Probes[0].State == v1beta1.ProbeFailure
}
