//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// To start a part of Squall again takes as long as a test, so the tests of one outage
// share it. No other test runs beside them.

// TestNothingOfSquallRuns has one outage of all workers and controllers:
//
//   - an injection ends at its deadline without anything to clean it;
//   - the sweep finds and cleans a disruption of which only the state on the nodes is left
//     (injectors are killed, their chaos pods, the records and the Disruption deleted by
//     force, the workflow is terminated).
func TestNothingOfSquallRuns(t *testing.T) {
	ends, lost := newSpace(t), newSpace(t)
	pods, lostPods := ends.targets(2), lost.targets(2)
	before, lostBefore := ends.snapshots(pods), lost.snapshots(lostPods)
	forgotten := lost.injected(lost.create("lost", "{selector: {app: target}, count: 2, duration: 10m, "+quick+
		", diskPressure: {path: /data, throttling: {writeBytesPerSec: 1048576}}}"))
	alone := ends.injected(ends.create("alone", "{selector: {app: target}, count: 2, duration: 45s, "+quick+"}"))
	ends.scale("squall-crdbridge", 0)
	ends.scale("squall-worker", 0)
	ends.scale("squall-probes", 0)
	restart := func() {
		ends.scale("squall-worker", 2)
		ends.scale("squall-probes", 2)
		ends.scale("squall-crdbridge", 2)
		ends.awaitSystem()
	}
	defer func() { restart() }()

	node := lost.loseAllButMarks(forgotten)
	if output := lost.injector(node, "audit"); !strings.Contains(output, string(forgotten.UID)) {
		t.Fatalf("%s carries nothing of %s: nothing is to be swept\n%s", node, forgotten.UID, output)
	}
	ends.injectorsSucceed(alone)
	ends.wantSame(before, ends.snapshots(pods))
	if live := ends.read(alone); live.Status.Phase == v1beta1.PhaseFinished {
		t.Error("the disruption finished without a worker: the test stopped nobody")
	}

	restart()
	restart = func() {}
	ends.await(alone, "finished", func(d *v1beta1.Disruption) bool { return d.Status.Phase == v1beta1.PhaseFinished })
	lost.wantSwept(forgotten)
	lost.wantSame(lostBefore, lost.snapshots(lostPods))
}

// loseAllButMarks removes everything of a disruption but what its injectors changed, and
// returns one of the nodes. With a record, the disruption's workflow would come back.
func (s *space) loseAllButMarks(d *v1beta1.Disruption) (node string) {
	s.t.Helper()
	for _, pod := range s.chaosPods(s.t, d) {
		s.killInjector(pod)
		s.force(pod)
		node = pod.Spec.NodeName
	}
	s.ripOff(d)
	if err := s.temporal.TerminateWorkflow(s.t.Context(), workflowID(d), "", "by the test"); err != nil {
		s.t.Fatal(err)
	}
	records := metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(d.UID)}
	if err := s.kube.CoreV1().ConfigMaps(chaosNamespace).DeleteCollection(s.t.Context(), metav1.DeleteOptions{}, records); err != nil {
		s.t.Fatal(err)
	}
	return node
}

// wantSwept runs a sweep, which must find marks and leave none.
func (s *space) wantSwept(d *v1beta1.Disruption) {
	s.t.Helper()
	swept := s.sweep()
	s.t.Logf("%s", swept.Summary)
	if swept.Nodes != len(s.nodes) || swept.Audited != len(s.nodes) || len(swept.Skipped) > 0 {
		s.t.Errorf("%d of %d nodes audited, skipped %v; want all %d", swept.Audited, swept.Nodes, swept.Skipped, len(s.nodes))
	}
	if swept.Marks.Found == 0 || swept.Marks.Left+swept.Records.Left > 0 {
		s.t.Errorf("marks %+v, records %+v, left %v; want marks found and all of them cleaned", swept.Marks, swept.Records, swept.Left)
	}
	for _, node := range s.nodes {
		if output := s.injector(node, "audit"); strings.Contains(output, string(d.UID)) {
			s.t.Errorf("%s still carries marks of %s: %s", node, d.UID, output)
		}
	}
	if left := s.left(s.t.Context()); left != "" {
		s.t.Error(left)
	}
}

// TestTemporalIsAway has one outage of Temporal, which hangs from before the end of a
// disruption until long after it:
//
//   - rule T8: the injectors end at their deadline, `kubectl get` shows why nothing else
//     moves, and the disruption finishes when Temporal is back;
//   - an emergency stop still ends what runs, and what was stopped stays so.
func TestTemporalIsAway(t *testing.T) {
	hung, stopped := newSpace(t), newSpace(t)
	pods, stoppedPods := hung.targets(2), stopped.targets(4)
	before, stoppedBefore := hung.snapshots(pods), stopped.snapshots(stoppedPods)
	all := stopped.threeKinds()
	d := hung.injected(hung.create("hung", "{selector: {app: target}, count: 2, duration: 40s, "+quick+"}"))
	hung.hurtTemporal("freeze")
	defer hung.hurtTemporal("thaw")
	hung.await(d, "told that Temporal cannot be reached", func(d *v1beta1.Disruption) bool {
		return condition(d, v1beta1.ConditionOrchestrated).Reason == "TemporalUnreachable"
	})
	hung.injectorsSucceed(d)
	hung.wantSame(before, hung.snapshots(pods))
	if live := hung.read(d); live.Status.Phase == v1beta1.PhaseFinished {
		t.Error("the disruption finished without Temporal: the test hurt nobody")
	}

	began := time.Now()
	stopped.stop()
	stopped.awaitSame(stoppedBefore, stoppedPods, began)
	stopped.wantStop(metav1.ConditionFalse, "Temporal cannot be reached", len(all)+1, 0)
	for _, d := range all {
		if live := stopped.read(d); live.Stopped() != fire || len(stopped.chaosPods(t, d)) != 1 {
			t.Errorf("%s is stopped by %q with %d chaos pods, want %q and one to be judged", d.Name, live.Stopped(), len(stopped.chaosPods(t, d)), fire)
		}
	}
	stopped.callOff()
	hung.hurtTemporal("thaw")
	hung.await(d, "finished", func(d *v1beta1.Disruption) bool { return d.Status.Phase == v1beta1.PhaseFinished })
	for _, d := range all {
		stopped.stopped(d)
	}
	stopped.wantSame(stoppedBefore, stopped.snapshots(stoppedPods))
}
