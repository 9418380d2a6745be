// Package workflows registers Squall's workflows, each of which has a package of its own.
// Workflows make the durable decisions. They touch neither cluster nor clock: activities
// read and change the cluster. Activities decide only what needs a live read: which target
// is chosen, how a chaos pod ended, what is an orphan.
package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/disruption"
	"github.com/squall-chaos/squall/workflows/notification"
	"github.com/squall-chaos/squall/workflows/run"
	"github.com/squall-chaos/squall/workflows/scenario"
	"github.com/squall-chaos/squall/workflows/sweep"
)

// registry is a worker, a replayer or a test environment.
type registry interface {
	RegisterWorkflowWithOptions(w any, options workflow.RegisterOptions)
}

// Register registers all workflows of contract.TaskQueue. They are started by name, never
// by function: the SDK confuses functions that have the same name in several packages.
func Register(r registry) {
	r.RegisterWorkflowWithOptions(disruption.Workflow, workflow.RegisterOptions{Name: contract.WorkflowType})
	r.RegisterWorkflowWithOptions(scenario.Workflow, workflow.RegisterOptions{Name: contract.ScenarioWorkflowType})
	r.RegisterWorkflowWithOptions(run.Workflow, workflow.RegisterOptions{Name: contract.CronWorkflowType})
	r.RegisterWorkflowWithOptions(run.Workflow, workflow.RegisterOptions{Name: contract.RolloutWorkflowType})
	r.RegisterWorkflowWithOptions(sweep.Workflow, workflow.RegisterOptions{Name: contract.SweepWorkflowType})
}

// RegisterNotification registers the workflow of contract.NotificationTaskQueue.
func RegisterNotification(r registry) {
	r.RegisterWorkflowWithOptions(notification.Workflow, workflow.RegisterOptions{Name: contract.NotificationWorkflowType})
}
