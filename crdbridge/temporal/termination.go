package temporal

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// terminationWindow is how far back the bridge asks Temporal for terminated workflows:
// longer than clocks differ and visibility lags. The next reconcile with a call notices
// older ones.
const terminationWindow = 10 * time.Minute

// TerminationPoller finds terminated workflows. While nothing changes in the cluster, no
// reconcile would notice them, and injected faults would stay until the injector's
// deadline.
type TerminationPoller struct {
	client       Client
	interval     time.Duration
	workflowType string
	// lost is called once for each workflow ID, and returns the object to reconcile; nil
	// for none.
	lost func(id string) client.Object
	// Found has an event for each of these objects.
	Found chan event.GenericEvent
	// seen are the runs of the last answer: each is acted on once.
	seen map[string]bool
}

// NewTerminationPoller returns a poller that calls lost with the ID of each workflow of
// the type that it finds terminated.
func (w *Workflows) NewTerminationPoller(workflowType string, lost func(id string) client.Object) *TerminationPoller {
	return &TerminationPoller{client: w.client, interval: w.interval, workflowType: workflowType, lost: lost, Found: make(chan event.GenericEvent)}
}

// Start polls until ctx ends. Only the bridge that leads polls.
func (p *TerminationPoller) Start(ctx context.Context) error {
	every(ctx, p.interval, func(ctx context.Context) {
		if err := p.poll(ctx); err != nil && ctx.Err() == nil {
			// Health reports when Temporal is away. The next start of a workflow finds what
			// this poll missed.
			ctrl.Log.Info("terminated workflows not looked for", "reason", err.Error())
		}
	})
	return nil
}

// poll enqueues every object whose workflow was terminated since the last poll.
func (p *TerminationPoller) poll(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	request := &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000, Query: fmt.Sprintf(
		"WorkflowType = %q AND ExecutionStatus = 'Terminated' AND CloseTime > %q",
		p.workflowType, time.Now().Add(-terminationWindow).UTC().Format(time.RFC3339))}
	runs := make(map[string]bool)
	for {
		answer, err := p.client.ListWorkflow(call, request)
		if err != nil {
			return err
		}
		for _, one := range answer.GetExecutions() {
			run := one.GetExecution().GetRunId()
			runs[run] = true
			if p.seen[run] {
				continue
			}
			object := p.lost(one.GetExecution().GetWorkflowId())
			if object == nil {
				continue
			}
			select {
			case p.Found <- event.GenericEvent{Object: object}:
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
