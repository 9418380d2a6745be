package main

import (
	"errors"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

// stuckWorkflow answers as the workflow of a stuck disruption would, which has one target
// left.
func stuckWorkflow(ctx workflow.Context, _ contract.Input) error {
	resumed := false
	err := workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateResume,
		func(_ workflow.Context, r contract.Resume) (string, error) {
			resumed = true
			return r.Action + " of " + strings.Join(r.Targets, ", ") + " by " + r.By + ": " + r.Reason, nil
		},
		workflow.UpdateHandlerOptions{Validator: func(r contract.Resume) error {
			if len(r.Targets) > 0 && r.Targets[0] != "web-0" {
				return errors.New(`target "web-1" is not stuck; stuck are: web-0`)
			}
			return nil
		}})
	if err != nil {
		return err
	}
	return workflow.Await(ctx, func() bool { return resumed })
}

func TestResume(t *testing.T) {
	l := newLive(t)
	server := temporalserver.Shared(t)
	temporal := server.Dial(client.DefaultNamespace)
	w := worker.New(temporal, contract.TaskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(stuckWorkflow, workflow.RegisterOptions{Name: contract.WorkflowType})
	l.Must(w.Start())
	t.Cleanup(w.Stop)
	ref := l.Disruption("stuck", nil)
	run, err := temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: contract.WorkflowID(ref), TaskQueue: contract.TaskQueue},
		contract.WorkflowType, contract.Input{Disruption: ref})
	l.Must(err)
	resume := func(args ...string) call {
		return l.squall(append([]string{"resume", "stuck", "--temporal-address", server.Address}, args...)...)
	}
	l.want(resume("--action", "rety"), console.ExitUsage, `--action is "rety"`)
	l.want(resume("--action", "release", "--by", "ann"), console.ExitUsage, "--reason")
	l.want(resume("--action", "retry", "--targets", "web-1"), console.ExitError, `refuses: target "web-1" is not stuck; stuck are: web-0`)
	l.want(resume("--action", "release", "--targets", "web-0", "--by", "ann", "--reason", "scrapped"), console.ExitOK,
		l.Shop+"/stuck: release of web-0 by ann: scrapped")
	l.Must(run.Get(t.Context(), nil))
	l.want(resume("--action", "retry"), console.ExitError, "no workflow of disruption "+l.Shop+"/stuck runs")
	l.finalize(ref)
}

func TestResumeWithoutTemporal(t *testing.T) {
	l := newLive(t)
	ref := l.Disruption("stuck", nil)
	l.want(l.squall("resume", "stuck", "--action", "retry", "--temporal-address", temporalserver.FreeAddress(t)), console.ExitError, "nothing listens there")
	l.finalize(ref)
}
