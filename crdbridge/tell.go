package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/start"
)

const (
	// gap is the shortest time between two observations sent to a workflow,
	// longestGap that between two of many: each costs four events of history.
	gap        = 250 * time.Millisecond
	longestGap = 4 * time.Second
	// busyGap is the same while all is injected anyway.
	busyGap = 16 * time.Second
	// lookGap is the shortest time between two looks through the caches, which
	// take milliseconds when there are thousands of pods.
	lookGap = 100 * time.Millisecond
	// statusLate is how long a count in status may lag behind the chaos pods: it
	// is written after they went, and a worker that was killed comes back first.
	statusLate = 10 * time.Second
	// recheck is how long a workflow is believed to run without asking.
	recheck = 10 * time.Minute
	// callTimeout bounds a call to Temporal, so that one that hangs does not
	// keep a worker of the queue; a call takes some milliseconds.
	callTimeout = 5 * time.Second
	awayTimeout = 500 * time.Millisecond
)

// errLook means that the caches could not be read, which says nothing of Temporal.
var errLook = errors.New("look through the caches")

// orchestrator is what the bridge needs of Temporal. The second implementation,
// in the tests, records what it is told and can be away at will.
type orchestrator interface {
	start.Temporal
	CheckHealth(ctx context.Context, request *client.CheckHealthRequest) (*client.CheckHealthResponse, error)
	ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error)
}

// tell brings the workflow of d up to date and says when to look again. It
// looks through the caches no more often than it may speak.
func (r *reconciler) tell(ctx context.Context, d *v1beta1.Disruption) (time.Duration, error) {
	t := r.memory.recall(d)
	defer func() { r.memory.keep(d, t) }()
	if time.Since(t.checked) >= recheck {
		if err := r.workflows.start(ctx, d); err != nil {
			return 0, err
		}
		t.checked = time.Now()
	}
	if why, ends := endOf(d); ends && !t.end {
		if err := r.workflows.end(ctx, d.Ref(), why); err != nil {
			return t.lost(err)
		}
		t.end = true
	}
	if !listens(d) {
		return recheck, nil
	}
	if wait := t.wait(time.Now()); wait > 0 {
		return wait, nil
	}
	seen, err := r.look(ctx, d)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errLook, err)
	}
	missing := unlisted(d, seen.chaosPods)
	sure, wait := t.misses(missing, time.Now())
	if sure {
		seen.missing, wait = missing, recheck
	}
	o := observe(seen)
	if t.hash == "" && known(d, o) {
		t.hash = o.Hash
	}
	if o.Hash == t.hash {
		t.looked = time.Now()
		return wait, nil
	}
	if err := r.workflows.observed(ctx, d.Ref(), o); err != nil {
		return t.lost(err)
	}
	t.looked = time.Now() // not before: what could not be told is tried again, not waited with
	t.sent(o.Hash, time.Now(), longestOf(d))
	return wait, nil
}

// listens is false while the workflow of d looks for itself: before it has
// chosen targets, and while it cleans.
func listens(d *v1beta1.Disruption) bool {
	if ending(d) {
		return d.Status.Phase == v1beta1.PhaseStuck
	}
	return meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionTargetsSelected) != nil
}

func longestOf(d *v1beta1.Disruption) time.Duration {
	if d.Status.Phase == v1beta1.PhaseInjecting {
		return busyGap
	}
	return longestGap
}

// endOf is why the workflow of a Disruption must end; empty when its object is
// being deleted.
func endOf(d *v1beta1.Disruption) (why string, ends bool) {
	why = d.Stopped()
	return why, why != "" || d.DeletionTimestamp != nil
}

// lost forgets a workflow that runs no longer: the next look starts it again
// and tells it everything.
func (t *told) lost(err error) (time.Duration, error) {
	if !errors.Is(err, start.ErrNotRunning) {
		return 0, err
	}
	*t = told{uid: t.uid}
	return gap, nil
}
