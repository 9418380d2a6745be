package matrix

import (
	"context"
	"strings"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
)

// deleted is a person who deletes the disruption.
func (r *run) deleted() error {
	if err := client.IgnoreNotFound(r.world.Disruptions.Delete(r.ctx, r.d)); err != nil {
		return err
	}
	return r.until("the disruption is gone", func() bool { return !r.see() })
}

// ended is a person who ends the disruption and lets it be.
func (r *run) ended() error {
	err := r.until("it is asked to end", func() bool {
		return r.temporal.SignalWorkflow(r.ctx, world.WorkflowOf(r.d), "", contract.SignalEnd, contract.End{Reason: "it was seen"}) == nil
	})
	if err != nil {
		return err
	}
	return r.over()
}

// over is a person who does nothing.
func (r *run) over() error {
	return r.untilWithin(patience+r.lasts, "the disruption is over", func() bool {
		return r.see() && r.d.Status.Phase == v1beta1.PhaseFinished && len(r.d.Finalizers) == 0
	})
}

// probeAborts is what the probe asks for that goes, and comes again once that has
// ended the disruption.
func (r *run) probeAborts() error {
	if err := r.world.Kube.CoreV1().Pods(r.shop).Delete(r.ctx, guard, metav1.DeleteOptions{}); err != nil {
		return err
	}
	err := r.until("the disruption is aborted, and "+guard+" gone", func() bool {
		return r.see() && strings.HasPrefix(r.d.Status.Ending, v1beta1.EndingAborted) && r.world.Kubelets.There(r.shop) == r.pods()-1
	})
	if err != nil {
		return err
	}
	if err := r.makePod(guard, guard, "node-0"); err != nil {
		return err
	}
	return r.over()
}

// targetDies is a target that goes while it is disrupted.
func (r *run) targetDies() error {
	if err := r.world.Kube.CoreV1().Pods(r.shop).Delete(r.ctx, "web-1", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := r.injected(r.targets - 1); err != nil {
		return err
	}
	err := r.until("another target was looked for", func() bool { return r.see() && r.d.Status.DesiredTargetsCount == r.targets-1 })
	if err != nil {
		return err
	}
	return r.deleted()
}

// stuckAndResumed is a person who repairs the node of a stuck disruption and has it clean
// again.
func (r *run) stuckAndResumed() error {
	if err := client.IgnoreNotFound(r.world.Disruptions.Delete(r.ctx, r.d)); err != nil {
		return err
	}
	if err := r.until("the disruption is stuck", func() bool { return r.see() && r.d.Status.Phase == v1beta1.PhaseStuck }); err != nil {
		return err
	}
	r.saw.failing(r.chaos, false)
	// The update waits for a worker; one that dies meanwhile costs another try.
	err := r.until("the decision is taken", func() bool {
		ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
		defer cancel()
		handle, err := r.temporal.UpdateWorkflow(ctx, temporalclient.UpdateWorkflowOptions{
			WorkflowID: world.WorkflowOf(r.d), UpdateID: "resume", UpdateName: contract.UpdateResume,
			Args:         []any{contract.Resume{Action: contract.ActionRetry}},
			WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
		})
		return err == nil && handle.Get(ctx, nil) == nil
	})
	if err != nil {
		return err
	}
	return r.until("the disruption is gone", func() bool { return !r.see() })
}
