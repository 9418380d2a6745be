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
	// gap is the shortest time between two observations sent to a workflow, longestGap that
	// between two of many. Each observation costs four events of history.
	gap        = 250 * time.Millisecond
	longestGap = 4 * time.Second
	// busyGap replaces longestGap while the disruption injects anyway.
	busyGap = 16 * time.Second
	// burst is how many observations of a disruption are sent as soon as they may. After
	// them one is sent each spareGap, and a quiet spareGap allows one more. An observation
	// costs 9 to 14 events of history. So 10,000 pods that are replaced one by one in a day
	// cost at most 6 events each.
	burst    = 1000
	spareGap = 30 * time.Second
	// gatherGap is how long changes gather before they are sent, when an observation of
	// lost targets was sent within churnMemory. The first change is sent at once.
	gatherGap   = 2 * time.Second
	churnMemory = time.Minute
	// readGap is the shortest time between two reads of the caches. A read takes tens of
	// milliseconds when there are thousands of pods. The time between reads is then
	// readShare times the last duration, up to longestReadGap.
	readGap        = 100 * time.Millisecond
	longestReadGap = 2 * time.Second
	readShare      = 20
	// statusLate is how long a count in status may lag behind the chaos pods: the worker
	// writes it after they are gone, and a worker that was killed must first restart.
	statusLate = 10 * time.Second
	// repeatAfter is how long status may count other targets than the last observation: the
	// workflow may still clean up. Then the observation is sent again.
	repeatAfter = 20 * time.Second
	// recheck is how long the bridge assumes that a workflow runs without asking Temporal.
	recheck = 10 * time.Minute
)

// errCaches means that the caches could not be read; Temporal may be fine.
var errCaches = errors.New("read the caches")

// inform brings the workflow of d up to date and returns when to do so again. It reads the
// caches no more often than it may send something.
func (r *reconciler) inform(ctx context.Context, d *v1beta1.Disruption) (time.Duration, error) {
	t := r.sent.recall(d)
	defer func() { r.sent.keep(d, t) }()
	if err := r.ensureRuns(ctx, d, &t); err != nil {
		return 0, err
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
		due, until := t.repeats(chosenBetween(d, o), time.Now())
		if !due {
			t.readAt, t.changedAt = time.Now(), time.Time{}
			return min(wait, until), nil
		}
	}
	if young := t.gather(time.Now()); young > 0 {
		t.readAt = time.Now()
		return young, nil
	}
	if err := r.workflows.Observe(ctx, d.Ref(), o); err != nil {
		return t.lost(err)
	}
	t.readAt = time.Now() // after the call: an observation that could not be sent is retried at once
	t.sent(o.Hash, time.Now(), longestOf(d))
	if o.Ended+o.TargetsLost > 0 && !d.Spec.StaticTargeting {
		t.lostAt = time.Now()
	}
	return wait, nil
}

// ensureRuns starts the workflow of d if it is not known to run.
func (r *reconciler) ensureRuns(ctx context.Context, d *v1beta1.Disruption, t *sentState) error {
	if time.Since(t.checked) < recheck {
		return nil
	}
	if err := r.workflows.Start(ctx, d); err != nil {
		return err
	}
	t.checked = time.Now()
	return nil
}

// wantsObservations is false while the workflow of d reads the cluster itself: before it
// has chosen targets, and while it cleans up and needs only operations.
func wantsObservations(d *v1beta1.Disruption) bool {
	if d.Ending() {
		return d.Status.Phase == v1beta1.PhaseStuck || cleansOnly(d)
	}
	return meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionTargetsSelected) != nil
}

func longestOf(d *v1beta1.Disruption) time.Duration {
	// an operation waits for the driver
	if d.Status.Phase == v1beta1.PhaseInjecting && !d.Spec.ParticipatesInOperations() {
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

// lost forgets a workflow that no longer runs: the next reconcile starts it and sends it
// everything again. After another error the next reconcile asks Temporal whether the
// workflow runs. Otherwise a reconcile that sends nothing would report that Temporal is
// reached.
func (t *sentState) lost(err error) (time.Duration, error) {
	if !errors.Is(err, start.ErrNotRunning) {
		t.checked = time.Time{}
		return 0, err
	}
	*t = sentState{uid: t.uid}
	return gap, nil
}
