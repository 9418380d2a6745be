package disruption

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	// burst is how many observations of a disruption come as soon as they may. After
	// them one is sent each spareGap, and a quiet spareGap gives one back. An observation
	// costs 14 events of history, and a pod that is replaced takes up to two: 10,000 pods
	// that come and go one by one in a day cost 6 events each instead of 28.
	burst    = 1000
	spareGap = 30 * time.Second
	// gatherGap is how long changes gather before they are sent, when an observation of
	// lost targets was sent within churnMemory. The first change is sent at once.
	gatherGap   = 2 * time.Second
	churnMemory = time.Minute
	// readGap is the shortest time between two reads of the caches. They take
	// tens of milliseconds when there are thousands of pods: then the time
	// between is readShare of what the last took, up to longestReadGap.
	readGap        = 100 * time.Millisecond
	longestReadGap = 2 * time.Second
	readShare      = 20
	// statusLate is how long a count in status may lag behind the chaos pods: it
	// is written after they went, and a worker that was killed comes back first.
	statusLate = 10 * time.Second
	// recheck is how long a workflow is believed to run without asking.
	recheck = 10 * time.Minute
)

// errCaches means that the caches could not be read, which says nothing of Temporal.
var errCaches = errors.New("read the caches")

// inform brings the workflow of d up to date and says when to do so again. It
// reads the caches no more often than it may send something.
func (r *reconciler) inform(ctx context.Context, d *v1beta1.Disruption) (time.Duration, error) {
	t := r.sent.recall(d)
	defer func() { r.sent.keep(d, t) }()
	if time.Since(t.checked) >= recheck {
		if err := r.workflows.Start(ctx, d); err != nil {
			return 0, err
		}
		t.checked = time.Now()
	}
	if why, ends := endOf(d); ends && !t.end {
		if err := r.workflows.End(ctx, d.Ref(), why); err != nil {
			return t.lost(err)
		}
		t.end = true
	}
	if !wantsObservations(d) {
		return recheck, nil
	}
	if !d.Ending() {
		r.services.Follow(d)
	}
	if wait := t.wait(time.Now()); wait > 0 {
		return wait, nil
	}
	began := time.Now()
	seen, err := r.snapshot(ctx, d)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errCaches, err)
	}
	missing := unlisted(d, seen.chaosPods)
	sure, wait := t.misses(missing, time.Now())
	if sure {
		seen.missing, wait = missing, recheck
	}
	wait = nextWindowEnd(seen, wait)
	o := observe(seen)
	if t.hash == "" && alreadyInStatus(d, o) {
		t.hash = o.Hash
	}
	t.readTook = time.Since(began)
	if o.Hash == t.hash {
		t.readAt, t.changedAt = time.Now(), time.Time{}
		return wait, nil
	}
	if young := t.gather(time.Now()); young > 0 {
		t.readAt = time.Now()
		return young, nil
	}
	if err := r.workflows.Observe(ctx, d.Ref(), o); err != nil {
		return t.lost(err)
	}
	t.readAt = time.Now() // not before: an observation that could not be sent is tried again at once
	t.sent(o.Hash, time.Now(), longestOf(d))
	if o.Ended+o.TargetsLost > 0 && !d.Spec.StaticTargeting {
		t.lostAt = time.Now()
	}
	return wait, nil
}

// wantsObservations is false while the workflow of d reads the cluster itself:
// before it has chosen targets, and while it cleans, when only operations are of use to it.
func wantsObservations(d *v1beta1.Disruption) bool {
	if d.Ending() {
		return d.Status.Phase == v1beta1.PhaseStuck || cleansOnly(d)
	}
	return meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionTargetsSelected) != nil
}

func longestOf(d *v1beta1.Disruption) time.Duration {
	if d.Status.Phase == v1beta1.PhaseInjecting && !d.Spec.ParticipatesInOperations() { // that waits for the driver
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

// lost forgets a workflow that runs no longer: the next reconcile starts it
// again and sends it everything. After another error the next one asks whether
// it runs, or a look that has nothing to send would say that Temporal is reached.
func (t *sentState) lost(err error) (time.Duration, error) {
	if !errors.Is(err, start.ErrNotRunning) {
		t.checked = time.Time{}
		return 0, err
	}
	*t = sentState{uid: t.uid}
	return gap, nil
}
