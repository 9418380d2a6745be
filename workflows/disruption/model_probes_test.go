package disruption

import (
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	probing "github.com/squall-chaos/squall/activities/steadystate"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// shopIsLost is the event that makes the probe of the model fail.
const shopIsLost = "the shop does not answer any more"

// askProbes is one session of a prober: in Before and After until the probe succeeds, in
// During until it is cancelled.
func (c *cluster) askProbes(a *attempt, in probing.Input) probing.Result {
	send := func(seq int64, state v1beta1.ProbeState) contract.ProbeReport {
		report := contract.ProbeReport{Name: "shop", State: state, Since: c.now(), Answered: true, Text: "an answer"}
		a.write("signal that the shop is "+string(state), func(bool) {
			c.env.SignalWorkflow(contract.SignalProbe, contract.ProbeTransition{
				Phase: in.Phase, Session: in.Session, Seq: seq, At: c.now(), Probes: []contract.ProbeReport{report},
			})
		})
		return report
	}
	if in.Phase == v1beta1.ProbeDuring {
		send(1, v1beta1.ProbeSuccess)
		for !c.unsteady {
			a.wait(5 * time.Second)
		}
		send(2, v1beta1.ProbeFailure)
		for {
			a.wait(time.Minute)
		}
	}
	for a.wait(time.Second); c.unsteady && (in.Phase == v1beta1.ProbeBefore || len(c.marks) > 0); {
		a.wait(5 * time.Second)
	}
	return probing.Result{Probes: []contract.ProbeReport{{Name: "shop", State: v1beta1.ProbeSuccess, Since: c.now(), Answered: true, Text: "an answer"}}}
}

// lostBy is true for a signal by which the probe aborts a disruption.
func (c *cluster) lostBy(payloads *commonpb.Payloads) bool {
	var transition contract.ProbeTransition
	if converter.GetDefaultDataConverter().FromPayloads(payloads, &transition) != nil || c.cleaning || c.endedBy != "" {
		return false
	}
	return transition.Phase == v1beta1.ProbeDuring && transition.Probes[0].State == v1beta1.ProbeFailure
}
