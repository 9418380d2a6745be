// Package temporal is the bridge's side of Temporal: it starts and signals workflows, knows
// whether Temporal can be reached, and notices terminated workflows. Every call is bounded
// in time. The package decides nothing about a disruption.
package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/workflows/start"
)

const (
	// PollInterval is how often a bridge asks Temporal, by default, for facts that no watch
	// of the cluster shows: workflows that were terminated or are blocked, and whether a
	// worker runs. It makes three calls, however many disruptions wait. Once a minute it
	// makes a fourth for the owner of the Temporal namespace.
	PollInterval = 15 * time.Second
	// CallTimeout bounds a call to Temporal, so that one that hangs does not keep a worker
	// of the queue; a call takes some milliseconds.
	CallTimeout = 5 * time.Second
	// awayTimeout bounds a call while Temporal does not answer.
	awayTimeout = 500 * time.Millisecond
)

// Client is what the bridge needs of Temporal. The second implementation, in the tests,
// records its calls and can be made unreachable.
type Client interface {
	start.Temporal
	CheckHealth(ctx context.Context, request *client.CheckHealthRequest) (*client.CheckHealthResponse, error)
	DescribeTaskQueue(ctx context.Context, taskQueue string, kind enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error)
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
	ScheduleClient() client.ScheduleClient
}

// Setup lets m watch c's health and the problems of workflows, and returns Workflows that
// use c. Problems are polled once per interval, see PollInterval, and health by
// HealthInterval.
func Setup(m manager.Manager, c Client, registry prometheus.Registerer, interval time.Duration) (*Workflows, error) {
	counters, err := newCounters(registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	who := &identity{reader: m.GetAPIReader()}
	w := &Workflows{
		client: c, identity: who, interval: interval, Health: newHealth(c, HealthInterval(interval)),
		Problems: newProblems(c, interval, who.read), counters: counters,
	}
	return w, errors.Join(m.Add(w.identity), m.Add(w.Health), m.Add(w.Problems))
}

// HealthInterval is how often the bridge checks that Temporal answers: three times per poll
// interval.
func HealthInterval(poll time.Duration) time.Duration { return poll / 3 }

// Unreachable is true for an error that means that Temporal did not answer.
func Unreachable(err error) bool {
	code := serviceerror.ToStatus(err).Code()
	return code == codes.Unavailable || code == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded)
}

// Refused is true for an error that no retry resolves: the rights, the namespace or the
// request are wrong.
func Refused(err error) bool {
	switch serviceerror.ToStatus(err).Code() {
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition:
		return true
	}
	return false
}

// every calls do once per interval until ctx ends.
func every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do(ctx)
		}
	}
}
