package scenario

import (
	"cmp"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

// listen handles signals and updates for as long as the workflow runs.
func (s *steps) listen(ctx, free workflow.Context) error {
	settled := workflow.GetSignalChannelWithOptions(ctx, contract.SignalSettled, workflow.SignalChannelOptions{
		Description: "Sent by the controller: a disruption of the scenario is over."})
	end := workflow.GetSignalChannelWithOptions(ctx, contract.SignalEnd, workflow.SignalChannelOptions{
		Description: `Stops the scenario: its disruptions are deleted, and no further step is done. {"reason":"why"} is optional.`})
	approve := workflow.GetSignalChannelWithOptions(ctx, contract.SignalApprove, workflow.SignalChannelOptions{
		Description: "As the update of the same name, for scripts that cannot wait for an answer. " + approveHelp})
	probe := workflow.GetSignalChannelWithOptions(ctx, contract.SignalProbe, workflow.SignalChannelOptions{
		Description: "Sent by who asks the probes: what changed."})
	workflow.Go(free, func(ctx workflow.Context) {
		for workflow.Await(ctx, func() bool { return settled.Len()+end.Len()+approve.Len()+probe.Len() > 0 }) == nil {
			flow.Each(settled, func(any) { s.runsChanged = true })
			flow.Each(end, func(end any) { s.end(cmp.Or(flow.ReasonOf(end), "the scenario was deleted or ended")) })
			flow.Each(probe, func(transition contract.ProbeTransition) {
				if s.prober != nil {
					s.prober.Receive(ctx, transition)
				}
			})
			flow.Each(approve, func(a contract.Approval) {
				if err := s.approve(a); err != nil {
					workflow.GetLogger(ctx).Warn("approval refused", "error", err)
				}
			})
		}
	})
	workflow.Go(ctx, func(ctx workflow.Context) {
		ctx.Done().Receive(ctx, nil)
		s.end("its workflow was cancelled in Temporal")
	})
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateApprove,
		func(_ workflow.Context, a contract.Approval) (string, error) {
			return "step " + a.Step + " is approved", s.approve(a)
		},
		workflow.UpdateHandlerOptions{Description: "Approves a step that waits for a person. " + approveHelp, Validator: s.checkApproval})
}

const approveHelp = `{"step":"name","by":"you"}`

func (s *steps) approve(a contract.Approval) error {
	if err := s.checkApproval(a); err != nil {
		return err
	}
	s.status.Steps[len(s.status.Steps)-1].ApprovedBy = strings.TrimSpace(a.By)
	return nil
}

// checkApproval returns an error about a wrong approval, for the dialog it came from.
func (s *steps) checkApproval(a contract.Approval) error {
	if s.status.Phase != v1beta1.ScenarioSuspended || s.status.Step != a.Step {
		return fmt.Errorf("step %q does not wait for an approval", a.Step)
	}
	if strings.TrimSpace(a.By) == "" {
		return fmt.Errorf(`an approval needs "by" (who approves)`)
	}
	if by := s.status.Steps[len(s.status.Steps)-1].ApprovedBy; by != "" {
		return fmt.Errorf("step %q is approved by %s already", a.Step, by)
	}
	return nil
}
