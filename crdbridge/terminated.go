package main

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

const (
	// terminatedEvery is how often Temporal is asked for workflows that
	// somebody terminated. It is one query, however many disruptions wait.
	terminatedEvery = 15 * time.Second
	// terminatedWindow is how far back it is asked: longer than clocks differ
	// and visibility lags. What is older is found by the recheck.
	terminatedWindow = recheck
)

// terminated notices workflows that somebody terminated. Nothing else would
// tell of it while nothing changes in the cluster, and what is injected would
// stay until its own deadline.
type terminated struct {
	temporal orchestrator
	memory   *memory
	found    chan event.GenericEvent
	// seen are the runs of the last answer: each is acted on once.
	seen map[string]bool
}

func newTerminated(temporal orchestrator, memory *memory) *terminated {
	return &terminated{temporal: temporal, memory: memory, found: make(chan event.GenericEvent)}
}

// Start asks until ctx ends. Only the bridge that leads asks.
func (t *terminated) Start(ctx context.Context) error {
	ticker := time.NewTicker(terminatedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := t.look(ctx); err != nil && ctx.Err() == nil {
				// The pulse tells when Temporal is away, the recheck finds what is missed.
				ctrl.Log.Info("terminated workflows not looked for", "reason", err.Error())
			}
		}
	}
}

// look has every Disruption looked at whose workflow was terminated since the
// last look, as if nothing had ever been told.
func (t *terminated) look(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000, Query: fmt.Sprintf(
		"WorkflowType = %q AND ExecutionStatus = 'Terminated' AND CloseTime > %q",
		contract.WorkflowType, time.Now().Add(-terminatedWindow).UTC().Format(time.RFC3339))}
	runs := make(map[string]bool)
	for {
		answer, err := t.temporal.ListWorkflow(call, request)
		if err != nil {
			return err
		}
		for _, one := range answer.GetExecutions() {
			run := one.GetExecution().GetRunId()
			runs[run] = true
			ref, ours := contract.ParseWorkflowID(one.GetExecution().GetWorkflowId())
			if !ours || t.seen[run] || !t.memory.lose(ref) {
				continue
			}
			d := &v1beta1.Disruption{}
			d.Namespace, d.Name = ref.Namespace, ref.Name
			select {
			case t.found <- event.GenericEvent{Object: d}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if request.NextPageToken = answer.GetNextPageToken(); len(request.NextPageToken) == 0 {
			t.seen = runs
			return nil
		}
	}
}
