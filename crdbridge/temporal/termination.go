package temporal

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// terminationWindow is how far back Temporal is asked for workflows that
// somebody terminated: longer than clocks differ and visibility lags. What is
// older is found when a workflow is next asked for.
const terminationWindow = 10 * time.Minute

// TerminationPoller notices workflows that somebody terminated. Nothing else
// would tell of it while nothing changes in the cluster, and what is injected
// would stay until its own deadline.
type TerminationPoller struct {
	client   Client
	interval time.Duration
	// lost is told of each workflow once, and says whether anybody cares.
	lost func(v1beta1.DisruptionRef) bool
	// Found has an event for each Disruption somebody cares about.
	Found chan event.GenericEvent
	// seen are the runs of the last answer: each is acted on once.
	seen map[string]bool
}

// NewTerminationPoller returns a poller that asks lost about each workflow it
// finds terminated.
func (w *Workflows) NewTerminationPoller(lost func(v1beta1.DisruptionRef) bool) *TerminationPoller {
	return &TerminationPoller{client: w.client, interval: w.interval, lost: lost, Found: make(chan event.GenericEvent)}
}

// Start asks until ctx ends. Only the bridge that leads asks.
func (p *TerminationPoller) Start(ctx context.Context) error {
	every(ctx, p.interval, func(ctx context.Context) {
		if err := p.poll(ctx); err != nil && ctx.Err() == nil {
			// Health tells when Temporal is away; what is missed is found when a workflow is next asked for.
			ctrl.Log.Info("terminated workflows not looked for", "reason", err.Error())
		}
	})
	return nil
}

// poll has every Disruption looked at whose workflow was terminated since the
// last poll, as if nothing had ever been sent.
func (p *TerminationPoller) poll(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	request := &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000, Query: fmt.Sprintf(
		"WorkflowType = %q AND ExecutionStatus = 'Terminated' AND CloseTime > %q",
		contract.WorkflowType, time.Now().Add(-terminationWindow).UTC().Format(time.RFC3339))}
	runs := make(map[string]bool)
	for {
		answer, err := p.client.ListWorkflow(call, request)
		if err != nil {
			return err
		}
		for _, one := range answer.GetExecutions() {
			run := one.GetExecution().GetRunId()
			runs[run] = true
			ref, ours := contract.ParseWorkflowID(one.GetExecution().GetWorkflowId())
			if !ours || p.seen[run] || !p.lost(ref) {
				continue
			}
			d := &v1beta1.Disruption{}
			d.Namespace, d.Name = ref.Namespace, ref.Name
			select {
			case p.Found <- event.GenericEvent{Object: d}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if request.NextPageToken = answer.GetNextPageToken(); len(request.NextPageToken) == 0 {
			p.seen = runs
			return nil
		}
	}
}
