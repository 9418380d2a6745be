//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// An emergency stop concerns the whole cluster, so no other test runs beside
// these.

const (
	stopPath = "/apis/chaos.squall.dev/v1beta1/emergencystops"
	fire     = "emergency stop e2e: payment is down"
)

// Three disruptions of three kinds are stopped, nothing new is taken, and
// nothing comes back when the stop is called off.
func TestEmergencyStop(t *testing.T) {
	s := newSpace(t)
	pods := s.targets(4)
	before := s.snapshots(pods)
	all := s.threeKinds()

	began := time.Now()
	s.stop()
	s.awaitSame(before, pods, began)
	for _, d := range all {
		s.stopped(d)
	}
	s.wantStop(metav1.ConditionTrue, "every disruption has ended", 3, 0)
	t.Logf("all over and let go %.1fs after the stop", time.Since(began).Seconds())
	for _, d := range all {
		if events := s.events(d.Name, v1beta1.ReasonEmergencyStop); len(events) != 1 || !strings.HasPrefix(events[0].Message, fire) {
			t.Errorf("events on %s: %v, want one that says %q", d.Name, events, fire)
		}
	}
	_, err := s.tryCreate("late", "{selector: {app: target}, count: 1, duration: 5m, "+quick+"}")
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), fire) || !strings.Contains(err.Error(), "kubectl delete estop e2e") {
		t.Errorf("a new disruption: %v, want it refused with the reason and the way out", err)
	}
	s.callOff()

	fresh := s.injected(s.createSoon("fresh", "{selector: {app: target}, count: 4, duration: 5m, "+quick+"}"))
	for _, d := range all {
		if live := s.read(d); live == nil || live.Status.Phase != v1beta1.PhaseFinished || len(s.chaosPods(t, d)) > 0 {
			t.Errorf("%s came back: %+v", d.Name, live)
		}
	}
	s.delete(fresh)
	s.gone(fresh)
	s.wantSame(before, s.snapshots(pods))
}

// A stop ends the disruption of a scenario's step, and with it the scenario: no further
// step begins, also once the stop is deleted.
func TestEmergencyStopEndsAScenario(t *testing.T) {
	s := newSpace(t)
	pods := s.targets(1)
	before := s.snapshots(pods)
	plan := &v1beta1.DisruptionScenario{}
	scenario := s.parent("disruptionscenarios", plan, `{apiVersion: chaos.squall.dev/v1beta1, kind: DisruptionScenario, metadata: {name: stopped}, spec: {steps: [
  {name: first, onFailure: Continue, disruptions: [{template: {selector: {app: target}, count: 1, duration: 10m, `+quick+`}}]},
  {name: second, disruptions: [{template: {selector: {app: target}, count: 1, duration: 10m, `+quick+`}}]}]}}`)
	first := s.injected(s.begins(plan.ChildName(0, 0)))

	began := time.Now()
	s.stop()
	s.awaitSame(before, pods, began)
	// The stop ends the disruption. The scenario deletes it, unless it has ended by then.
	eventually(t, func() string {
		if live := s.read(first); live != nil && !live.Settled() {
			return fmt.Sprintf("%s has not ended: phase %s", first.Name, live.Status.Phase)
		}
		return ""
	})
	if left := s.chaosPods(t, first); len(left) > 0 {
		t.Errorf("%s ended with %d chaos pods", first.Name, len(left))
	}
	eventually(t, func() string {
		if err := scenario.read(); err != nil || plan.Status.Phase != v1beta1.ScenarioFinished {
			return fmt.Sprintf("it is not over: %v, %+v", err, plan.Status)
		}
		return ""
	})
	if status := plan.Status; status.Verdict != v1beta1.VerdictAborted || !strings.Contains(status.Message, fire) {
		t.Errorf("status %+v, want the verdict Aborted and %q", status, fire)
	}
	s.callOff()
	fresh := s.injected(s.createSoon("fresh", "{selector: {app: target}, count: 1, duration: 5m, "+quick+"}"))
	if err := s.readInto(s.path(plan.ChildName(1, 0)), &v1beta1.Disruption{}); !apierrors.IsNotFound(err) {
		t.Errorf("the second step: %v, want that it never began", err)
	}
	s.delete(fresh)
	s.gone(fresh)
	scenario.delete()
	scenario.gone()
	s.wantSame(before, s.snapshots(pods))
}

// threeKinds are three disruptions of one target each, injected.
func (s *space) threeKinds() []*v1beta1.Disruption {
	s.t.Helper()
	all := []*v1beta1.Disruption{
		s.create("drop", "{selector: {app: target}, count: 1, duration: 10m, network: {drop: 40}}"),
		s.create("burn", "{selector: {app: target}, count: 1, duration: 10m, cpuPressure: {count: 10%}}"),
		s.create("throttle", "{selector: {app: target}, count: 1, duration: 10m, diskPressure: {path: /data, throttling: {writeBytesPerSec: 1048576}}}"),
	}
	for i := range all {
		all[i] = s.injected(all[i])
	}
	return all
}

// stop makes an EmergencyStop that does not outlive the test.
func (s *space) stop() {
	s.t.Helper()
	body := []byte(`{"apiVersion": "chaos.squall.dev/v1beta1", "kind": "EmergencyStop", "metadata": {"name": "e2e"}, "spec": {"reason": "payment is down"}}`)
	if err := s.kube.Discovery().RESTClient().Post().AbsPath(stopPath).SetHeader("Content-Type", "application/json").Body(body).Do(s.t.Context()).Error(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = s.kube.Discovery().RESTClient().Delete().AbsPath(stopPath, "e2e").Do(context.Background()).Error()
	})
}

func (s *space) callOff() {
	s.t.Helper()
	if err := s.kube.Discovery().RESTClient().Delete().AbsPath(stopPath, "e2e").Do(s.t.Context()).Error(); err != nil {
		s.t.Fatal(err)
	}
}

// createSoon creates as soon as the API server has noticed that the stop is gone.
func (s *space) createSoon(name, spec string) (d *v1beta1.Disruption) {
	s.t.Helper()
	eventually(s.t, func() string {
		created, err := s.tryCreate(name, spec)
		if err != nil {
			return err.Error()
		}
		d = created
		return ""
	})
	return d
}

// awaitSame waits until the kernel has nothing of a disruption at any target.
func (s *space) awaitSame(before map[string]string, pods []corev1.Pod, began time.Time) {
	s.t.Helper()
	eventually(s.t, func() string { return cmp.Diff(before, s.snapshots(pods)) })
	s.t.Logf("every target as before %.1fs after the stop", time.Since(began).Seconds())
}

// stopped waits until d has finished because of the stop, with nothing left.
func (s *space) stopped(d *v1beta1.Disruption) {
	s.t.Helper()
	live := s.await(d, "finished and let go", func(d *v1beta1.Disruption) bool {
		return d.Status.Phase == v1beta1.PhaseFinished && len(d.Finalizers) == 0
	})
	if live.Status.Ending != fire || live.Stopped() != fire || condition(live, v1beta1.ConditionCleaned).Status != metav1.ConditionTrue {
		s.t.Errorf("%s ended because of %q, %s; want %q", d.Name, live.Status.Ending, conditions(live), fire)
	}
	if pods := s.chaosPods(s.t, d); len(pods) > 0 {
		s.t.Errorf("%s finished with %d chaos pods", d.Name, len(pods))
	}
}

// saysStop waits for what `kubectl get estop` shows.
func (s *space) wantStop(clean metav1.ConditionStatus, message string, stopped, injectors int) {
	s.t.Helper()
	eventually(s.t, func() string {
		raw, err := s.kube.Discovery().RESTClient().Get().AbsPath(stopPath, "e2e").DoRaw(s.t.Context())
		if err != nil {
			return err.Error()
		}
		live := v1beta1.EmergencyStop{}
		if err := json.Unmarshal(raw, &live); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(live.Status.Conditions, v1beta1.ConditionClean)
		if c == nil || c.Status != clean || !strings.Contains(c.Message, message) || live.Status.Stopped != stopped || live.Status.Injectors != injectors {
			return fmt.Sprintf("the stop says %+v", live.Status)
		}
		return ""
	})
}
