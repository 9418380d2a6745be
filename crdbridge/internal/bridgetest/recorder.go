package bridgetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// Recorder is a Temporal that records its calls.
type Recorder struct {
	Mu      sync.Mutex
	Started map[string][]temporalclient.StartWorkflowOptions
	Inputs  map[string]contract.Input
	sent    map[string][]Signal
	Calls   []time.Time
	busy    map[string]int
	// Gone are the runs that a person terminated, by workflow.
	Gone   map[string]string
	Listed int
	// failing has the blocked workflows, polls is how often a bridge asked for them.
	failing map[string]bool
	polls   int
	// owner is the cluster that the Temporal namespace belongs to, asked is how often a
	// bridge asked for it.
	owner string
	asked int
	// Overlap is true once two calls for one workflow ran at the same time.
	Overlap bool
	// answer is called before anything is recorded: a nil error accepts the call.
	answer func(ctx context.Context, call string) error
}

// Signal is a signal that was sent.
type Signal struct {
	Name string
	Arg  any
	At   time.Time
}

// NewRecorder returns a Recorder without workflows.
func NewRecorder() *Recorder {
	return &Recorder{
		Started: map[string][]temporalclient.StartWorkflowOptions{},
		Inputs:  map[string]contract.Input{},
		sent:    map[string][]Signal{},
		busy:    map[string]int{},
		answer:  func(context.Context, string) error { return nil },
	}
}

// ExecuteWorkflow records a start.
func (r *Recorder) ExecuteWorkflow(ctx context.Context, o temporalclient.StartWorkflowOptions, _ any, args ...any) (temporalclient.WorkflowRun, error) {
	return nil, r.call(ctx, o.ID, "start", func() {
		r.Started[o.ID] = append(r.Started[o.ID], o)
		r.Inputs[o.ID], _ = args[0].(contract.Input)
	})
}

// SignalWorkflow records a signal.
func (r *Recorder) SignalWorkflow(ctx context.Context, id, _, name string, arg any) error {
	return r.call(ctx, id, name, func() { r.sent[id] = append(r.sent[id], Signal{name, arg, time.Now()}) })
}

// CheckHealth answers as any other call, and is not counted.
func (r *Recorder) CheckHealth(ctx context.Context, _ *temporalclient.CheckHealthRequest) (*temporalclient.CheckHealthResponse, error) {
	r.Mu.Lock()
	answer := r.answer
	r.Mu.Unlock()
	return &temporalclient.CheckHealthResponse{}, answer(ctx, "health")
}

// ListWorkflow finds the workflows in Gone, and those that Fails named. It counts how often
// a bridge asks for terminated ones.
func (r *Recorder) ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	found, ask, err := r.list(request.GetQuery())
	return found, errors.Join(err, ask(ctx, "list"))
}

// list returns the answer to a query, and the function that may refuse or delay it. The
// function runs without the mutex: it may take its time, and other calls must not wait for
// it.
func (r *Recorder) list(query string) (answer *workflowservice.ListWorkflowExecutionsResponse, ask func(context.Context, string) error, err error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	answer = &workflowservice.ListWorkflowExecutionsResponse{}
	list := func(id, run string, attributes *common.SearchAttributes) {
		answer.Executions = append(answer.Executions, &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{WorkflowId: id, RunId: run}, SearchAttributes: attributes,
		})
	}
	if strings.Contains(query, "TemporalReportedProblems") {
		r.polls++
		problems, err := converter.GetDefaultDataConverter().ToPayload([]string{"category=WorkflowTaskFailed", "cause=WorkflowTaskFailedCauseNonDeterministicError"})
		for id := range r.failing {
			list(id, id, &common.SearchAttributes{IndexedFields: map[string]*common.Payload{"TemporalReportedProblems": problems}})
		}
		return answer, r.answer, err
	}
	r.Listed++
	for id, run := range r.Gone {
		list(id, run, nil)
	}
	return answer, r.answer, nil
}

// ScheduleClient has only the schedule of the sweep: tests of crons have a real Temporal.
func (r *Recorder) ScheduleClient() temporalclient.ScheduleClient { return sweepOf{r: r} }

// sweepOf is the schedule of the sweep, which has the owner of the Temporal namespace.
type sweepOf struct {
	temporalclient.ScheduleClient
	temporalclient.ScheduleHandle
	r *Recorder
}

func (s sweepOf) GetHandle(context.Context, string) temporalclient.ScheduleHandle { return s }

func (s sweepOf) Describe(context.Context) (*temporalclient.ScheduleDescription, error) {
	s.r.Mu.Lock()
	defer s.r.Mu.Unlock()
	s.r.asked++
	if s.r.owner == "" {
		return nil, serviceerror.NewNotFound("no such schedule")
	}
	owner, err := converter.GetDefaultDataConverter().ToPayload(s.r.owner)
	action := &temporalclient.ScheduleWorkflowAction{Memo: map[string]any{start.MemoCluster: owner}}
	return &temporalclient.ScheduleDescription{Schedule: temporalclient.Schedule{Action: action}}, err
}

// AskedOwner is how often a bridge asked for the owner of the Temporal namespace.
func (r *Recorder) AskedOwner() int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.asked
}

// BelongsTo sets the cluster that owns the Temporal namespace.
func (r *Recorder) BelongsTo(cluster string) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.owner = cluster
}

// Fails sets whether the tasks of d's workflow fail.
func (r *Recorder) Fails(d *v1beta1.Disruption, fails bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.failing = map[string]bool{contract.WorkflowID(d.Ref()): true}
	if !fails {
		r.failing = nil
	}
}

// Polls is how often Temporal was asked for blocked workflows.
func (r *Recorder) Polls() int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.polls
}

// DescribeTaskQueue answers that a worker polls.
func (r *Recorder) DescribeTaskQueue(ctx context.Context, _ string, _ enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	r.Mu.Lock()
	answer := r.answer
	r.Mu.Unlock()
	poller := &taskqueue.PollerInfo{Identity: "worker", LastAccessTime: timestamppb.Now()}
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueue.PollerInfo{poller}}, answer(ctx, "describe")
}

func (r *Recorder) call(ctx context.Context, id, what string, record func()) error {
	r.Mu.Lock()
	r.Calls = append(r.Calls, time.Now())
	r.busy[id]++
	r.Overlap = r.Overlap || r.busy[id] > 1
	answer := r.answer
	r.Mu.Unlock()
	err := answer(ctx, what)
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.busy[id]--
	if err == nil {
		record()
	}
	return err
}

// Answers sets the answer to all later calls.
func (r *Recorder) Answers(answer func(ctx context.Context, call string) error) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.answer = answer
}

// Away makes every later call fail, as if Temporal did not run.
func (r *Recorder) Away() {
	r.Answers(func(context.Context, string) error { return serviceerror.NewUnavailable("connection refused") })
}

// Back ends Away.
func (r *Recorder) Back() { r.Answers(func(context.Context, string) error { return nil }) }

// Starts is how often the workflow of d was started.
func (r *Recorder) Starts(d *v1beta1.Disruption) int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return len(r.Started[contract.WorkflowID(d.Ref())])
}

// Signals are those of a name that the workflow of d received.
func (r *Recorder) Signals(d *v1beta1.Disruption, name string) []Signal {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	var found []Signal
	for _, s := range r.sent[contract.WorkflowID(d.Ref())] {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// LastObservation is the last observation that the workflow of d received, or zero.
func (r *Recorder) LastObservation(d *v1beta1.Disruption) contract.Observation {
	all := r.Signals(d, contract.SignalObserved)
	if len(all) == 0 {
		return contract.Observation{}
	}
	o, _ := all[len(all)-1].Arg.(contract.Observation)
	return o
}

// Total is how many calls there were.
func (r *Recorder) Total() int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return len(r.Calls)
}
