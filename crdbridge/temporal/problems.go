package temporal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// pollerAlive is how long after its last poll a worker counts as running: it polls again
// after a minute at the latest, and Temporal remembers it for five.
const pollerAlive = 90 * time.Second

// ownerEvery is after how many polls Temporal is asked again to which cluster its namespace
// belongs: once a minute.
const ownerEvery = 4

// reportedProblems is Temporal's own search attribute: it is set once some tasks of a
// workflow in a row failed or timed out, and unset when one succeeds.
const reportedProblems = "TemporalReportedProblems"

var (
	// ErrNoWorker means that no worker polls Temporal for the tasks of disruptions.
	ErrNoWorker = errors.New("no worker polls Temporal")
	// ErrNoProber means that no worker polls Temporal for the probes of steady states.
	ErrNoProber = errors.New("no program polls Temporal for probes")
	// ErrTaskFailing means that a workflow runs and is blocked.
	ErrTaskFailing = errors.New("the tasks of the workflow fail")
)

// Problems knows why workflows are blocked although Temporal can be reached. Its namespace
// is another cluster's, no worker polls, no program polls for probes, or the tasks of a
// workflow fail one after the other. No watch of the cluster shows that.
type Problems struct {
	client   Client
	interval time.Duration
	// cluster is the UID of the bridge's own cluster.
	cluster func(context.Context) (types.UID, error)
	// Changed has an event for each Disruption whose problem appeared or disappeared; one
	// without a name means every Disruption.
	Changed chan event.GenericEvent
	// PollersChanged has an event when workers or probers have come or gone. At most one
	// event waits, because it names nothing.
	PollersChanged chan event.GenericEvent

	mu sync.Mutex
	// otherCluster is start.ErrOtherCluster, wrapped, or nil; askedOwner is when that was
	// found.
	otherCluster error
	askedOwner   time.Time
	failing      map[v1beta1.DisruptionRef]string
	// workers and probers ask for the tasks of workflows, and for those of probes.
	workers, probers pollers
}

// pollers are those of a task queue.
type pollers struct {
	// missed counts the polls in a row that saw none. Two must have: a worker that is just
	// starting is no problem.
	missed int
}

func (p *pollers) missing() bool { return p.missed >= 2 }

// note records an answer, and returns true if missing changes.
func (p *pollers) note(alive bool) bool {
	before := p.missing()
	p.missed++
	if alive {
		p.missed = 0
	}
	return p.missing() != before
}

func newProblems(c Client, interval time.Duration, cluster func(context.Context) (types.UID, error)) *Problems {
	return &Problems{client: c, interval: interval, cluster: cluster, Changed: make(chan event.GenericEvent), PollersChanged: make(chan event.GenericEvent, 1)}
}

// Start polls until ctx ends. Only the bridge that leads polls.
func (p *Problems) Start(ctx context.Context) error {
	poll := func(ctx context.Context) {
		if err := errors.Join(p.pollOwner(ctx), p.pollWorkers(ctx), p.pollProbers(ctx), p.pollFailing(ctx)); err != nil && ctx.Err() == nil {
			// Health reports when Temporal is away.
			ctrl.Log.Info("problems of workflows not looked for", "reason", err.Error())
		}
	}
	if err := p.pollOwner(ctx); err != nil && ctx.Err() == nil {
		ctrl.Log.Info("not known yet whether the Temporal namespace is another cluster's", "reason", err.Error())
	}
	every(ctx, p.interval, poll)
	return nil
}

// Err is why the workflow of d is blocked, or nil: start.ErrOtherCluster, ErrNoWorker,
// ErrTaskFailing with Temporal's cause, or ErrNoProber if d has probes.
func (p *Problems) Err(d *v1beta1.Disruption) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.otherCluster != nil {
		return p.otherCluster
	}
	if p.workers.missing() {
		return ErrNoWorker
	}
	if cause, found := p.failing[d.Ref()]; found {
		return fmt.Errorf("%w: %s", ErrTaskFailing, cause)
	}
	if d.Spec.SteadyState != nil && p.probers.missing() {
		return ErrNoProber
	}
	return nil
}

// OfScenario is why the workflow of s does not go on, or nil: ErrNoWorker, or ErrNoProber
// if s has probes.
func (p *Problems) OfScenario(s *v1beta1.DisruptionScenario) error {
	switch {
	case p.NoWorker():
		return ErrNoWorker
	case s.Spec.SteadyState != nil && p.NoProber():
		return ErrNoProber
	}
	return nil
}

// NoWorker is true while no worker polls Temporal.
func (p *Problems) NoWorker() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers.missing()
}

// NoProber is true while no program polls Temporal for the probes of steady states.
func (p *Problems) NoProber() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.probers.missing()
}

// pollOwner checks whether the Temporal namespace belongs to another cluster: its workers
// run and refuse every request of this one.
func (p *Problems) pollOwner(ctx context.Context) error {
	if time.Since(p.askedOwner) < ownerEvery*p.interval {
		return nil
	}
	cluster, err := p.cluster(ctx)
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	owner, err := start.Owner(call, p.client.ScheduleClient())
	if err != nil {
		return err
	}
	p.askedOwner = time.Now()
	if p.noteOwner(start.OtherCluster(owner, cluster)) {
		p.changed(ctx, v1beta1.DisruptionRef{})
	}
	return nil
}

// noteOwner records an answer, and returns true if it changes.
func (p *Problems) noteOwner(other error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := (p.otherCluster == nil) != (other == nil)
	p.otherCluster = other
	return changed
}

// OtherCluster is start.ErrOtherCluster, wrapped, while the Temporal namespace is known to
// belong to another cluster.
func (p *Problems) OtherCluster() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.otherCluster
}

// pollWorkers checks whether a worker polls for workflow tasks.
func (p *Problems) pollWorkers(ctx context.Context) error {
	return p.pollQueue(ctx, contract.TaskQueue, enumspb.TASK_QUEUE_TYPE_WORKFLOW, &p.workers)
}

// pollProbers checks whether a program polls for probes, which disruptions without a steady
// state do not need.
func (p *Problems) pollProbers(ctx context.Context) error {
	return p.pollQueue(ctx, contract.ProbeTaskQueue, enumspb.TASK_QUEUE_TYPE_ACTIVITY, &p.probers)
}

func (p *Problems) pollQueue(ctx context.Context, queue string, kind enumspb.TaskQueueType, known *pollers) error {
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	answer, err := p.client.DescribeTaskQueue(call, queue, kind)
	if err != nil {
		return fmt.Errorf("describe the task queue %s: %w", queue, err)
	}
	alive := false
	for _, poller := range answer.GetPollers() {
		alive = alive || time.Since(poller.GetLastAccessTime().AsTime()) < pollerAlive
	}
	p.mu.Lock()
	changed := known.note(alive)
	p.mu.Unlock()
	if !changed {
		return nil
	}
	select {
	case p.PollersChanged <- event.GenericEvent{Object: &v1beta1.DisruptionScenario{}}:
	default:
	}
	p.changed(ctx, v1beta1.DisruptionRef{})
	return nil
}

// pollFailing finds the disruptions whose workflow is blocked.
func (p *Problems) pollFailing(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	request := &workflowservice.ListWorkflowExecutionsRequest{PageSize: 1000, Query: fmt.Sprintf(
		"WorkflowType = %q AND ExecutionStatus = 'Running' AND %s IN ('category=WorkflowTaskFailed', 'category=WorkflowTaskTimedOut')",
		contract.WorkflowType, reportedProblems)}
	failing := make(map[v1beta1.DisruptionRef]string)
	for {
		answer, err := p.client.ListWorkflow(call, request)
		if err != nil {
			return fmt.Errorf("ask for workflows that cannot go on: %w", err)
		}
		for _, one := range answer.GetExecutions() {
			if ref, ours := contract.ParseWorkflowID(one.GetExecution().GetWorkflowId()); ours {
				failing[ref] = causeOf(one)
			}
		}
		if request.NextPageToken = answer.GetNextPageToken(); len(request.NextPageToken) == 0 {
			break
		}
	}
	for _, ref := range p.noteFailing(failing) {
		p.changed(ctx, ref)
	}
	return nil
}

// noteFailing returns the disruptions whose problem appeared, disappeared or changed.
func (p *Problems) noteFailing(failing map[v1beta1.DisruptionRef]string) (changed []v1beta1.DisruptionRef) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref := range p.failing {
		if _, still := failing[ref]; !still {
			changed = append(changed, ref)
		}
	}
	for ref, cause := range failing {
		if p.failing[ref] != cause {
			changed = append(changed, ref)
		}
	}
	p.failing = maps.Clone(failing)
	return changed
}

func (p *Problems) changed(ctx context.Context, ref v1beta1.DisruptionRef) {
	d := &v1beta1.Disruption{}
	d.Namespace, d.Name = ref.Namespace, ref.Name
	select {
	case p.Changed <- event.GenericEvent{Object: d}:
	case <-ctx.Done():
	}
}

// causeOf is Temporal's cause of a workflow's problem, such as
// "WorkflowTaskFailedCauseNonDeterministicError".
func causeOf(one *workflowpb.WorkflowExecutionInfo) string {
	var problems []string
	payload := one.GetSearchAttributes().GetIndexedFields()[reportedProblems]
	if err := converter.GetDefaultDataConverter().FromPayload(payload, &problems); err != nil {
		return "Temporal gives no reason"
	}
	i := slices.IndexFunc(problems, func(problem string) bool { return strings.HasPrefix(problem, "cause=") })
	if i < 0 {
		return "Temporal gives no reason"
	}
	return strings.TrimPrefix(problems[i], "cause=")
}
