package scale

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const many = 1000

// TestScale goes from one target to a thousand in one world, so that what the
// figures are compared with is measured on the same machine at the same time.
func TestScale(t *testing.T) {
	w := newWorld(t, "SQUALL_SWEEP_INTERVAL=0") // what it writes would be counted
	w.targets(many, 150)
	for _, part := range []struct {
		name string
		test func(*world)
	}{
		{"one target", (*world).oneTarget},
		{"a thousand targets", (*world).thousandTargets},
		{"ten disruptions of ten targets at once", (*world).tenAtOnce},
		{"the worker is killed while it injects", (*world).workerKilled},
		{"a history to replay", (*world).recordHistory},
	} {
		t.Run(part.name, func(t *testing.T) {
			here := *w
			here.T = t
			part.test(&here)
		})
	}
}

// oneTarget shows that the code for many costs little for one.
func (w *world) oneTarget() {
	d := w.disrupt("one", 1, map[string]string{"app": "web"})
	w.injected(d, "1/1")
	w.delete(d)
	w.completed(d)
	events, bytes := w.length(d)
	w.Logf("1 target: %d events, %d bytes", events, bytes)
	w.history(d)
	if events > 150 {
		w.Errorf("1 target took %d events, want at most 150", events)
	}
}

// acceptance T7
func (w *world) thousandTargets() {
	before, clock := w.meter.settled(w.T), startClock()
	d := w.disrupt("thousand", many, map[string]string{"app": "web"})
	w.injected(d, fmt.Sprintf("%d/%d", many, many))
	injecting := clock.stop()
	made := w.meter.settled(w.T).since(before)
	w.Logf("API calls to inject %d targets:%s", many, made.table(many))
	if perTarget := float64(made.total()) / many; perTarget > 3 {
		w.Errorf("%.2f API calls per target, want at most 3", perTarget)
	}
	w.waitingIsFree(d)
	pod := w.aChaosPod()

	before, clock = w.meter.settled(w.T), startClock()
	w.delete(d)
	cleaning := clock.stop()
	w.Logf("API calls to clean %d targets:%s", many, w.meter.settled(w.T).since(before).table(many))
	w.completed(d)
	events, bytes := w.length(d)
	w.Logf("%d targets: %d events, %d bytes", many, events, bytes)
	w.history(d)
	if events >= 500 {
		w.Errorf("%d targets took %d events, want fewer than 500", many, events)
	}
	up, down := w.floor(pod, many)
	w.compare("create to Injected", injecting, up)
	w.compare("delete to gone", cleaning, down)
}

// waitingIsFree: while nothing happens nothing is written, neither to the API
// (acceptance 3) nor into the history (T6).
func (w *world) waitingIsFree(d *v1beta1.Disruption) {
	w.Helper()
	before := w.meter.settled(w.T)
	length, _ := w.length(d)
	<-time.After(5 * time.Second) // nothing must happen: there is nothing to wait for
	made := w.meter.read(w.T).since(before)
	if writes := made.writes(); len(writes) > 0 {
		w.Errorf("while waiting it wrote:%s", writes.table(1))
	}
	if now, _ := w.length(d); now != length {
		w.Errorf("while waiting the history grew from %d to %d events", length, now)
	}
	w.Logf("5 s of waiting with %d targets: %d writes, %d reads", many, made.writes().total(), made.total()-made.writes().total())
}

// tenAtOnce start together over 150 targets and never share one.
func (w *world) tenAtOnce() {
	all := make([]*v1beta1.Disruption, 10)
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() { all[i] = w.disrupt(fmt.Sprintf("ten-%d", i), 10, map[string]string{"few": "yes"}) })
	}
	group.Wait()
	owner := map[string]string{}
	for _, d := range all {
		w.injected(d, "10/10")
		for target := range d.Status.TargetInjections {
			if other := owner[target]; other != "" { // acceptance 19
				w.Errorf("%s and %s share target %s", other, d.Name, target)
			}
			owner[target] = d.Name
		}
	}
	if len(owner) != 100 {
		w.Errorf("%d targets are disrupted, want 100", len(owner))
	}
	for _, d := range all {
		w.must(w.disruptions.Delete(w.Context(), d))
	}
	for _, d := range all {
		w.vanishes(d)
		w.completed(d)
		w.oneRun(d)
	}
}

// workerKilled: a worker that dies in the middle changes nothing but the time
// it takes (T1, T5).
func (w *world) workerKilled() {
	d := w.disrupt("killed", many, map[string]string{"app": "web"})
	eventually(w.T, time.Minute, "some chaos pods are made", func() bool {
		return w.kubelets.count(w.chaos, func(*corev1.Pod) bool { return true }) > many/10
	})
	w.worker.kill()
	made := w.kubelets.count(w.chaos, func(*corev1.Pod) bool { return true })
	if made >= many {
		w.Fatalf("all %d chaos pods were there before the worker was dead: this proves nothing", made)
	}
	began := time.Now()
	w.worker.start()
	w.injected(d, fmt.Sprintf("%d/%d", many, many))
	if now := w.kubelets.count(w.chaos, func(*corev1.Pod) bool { return true }); now != many {
		w.Errorf("%d chaos pods for %d targets", now, many)
	}
	w.Logf("killed at about %d chaos pods; injected %.1fs later", made, time.Since(began).Seconds())
	w.delete(d)
	w.completed(d)
	w.oneRun(d)
	w.history(d)
}

// recordHistory keeps the history of a disruption with two shards and a change
// among its targets.
func (w *world) recordHistory() {
	if !*record {
		w.Skip("a history is recorded with -record")
	}
	d := w.disrupt("many", 300, map[string]string{"app": "web"})
	w.injected(d, "300/300")
	for target := range d.Status.TargetInjections { // any one
		w.must(w.kube.CoreV1().Pods(w.shop).Delete(w.Context(), target, metav1.DeleteOptions{}))
		eventually(w.T, time.Minute, "another target takes its place", func() bool {
			w.must(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
			_, there := d.Status.TargetInjections[target]
			return !there && d.Status.Targets == "300/300"
		})
		break
	}
	w.delete(d)
	w.completed(d)
	w.keep("many-targets", w.history(d))
}
