//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// answers asks each target for its health every second.
const answers = "{name: answers, scope: PerTarget, periodSeconds: 1, failureThreshold: 3, httpGet: {port: 8080, path: /healthz}}"

// TestALostSteadyStateEndsTheDisruption (rule P9): a target that stops answering
// ends the disruption without a person. Everything is cleaned up, and answers are
// back.
func TestALostSteadyStateEndsTheDisruption(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2)
	before := s.snapshots(pods)
	d := s.create("guarded", "{selector: {app: target}, count: 1, duration: 10m, network: {drop: 100, hosts: [{port: 8080, protocol: tcp, flow: ingress}]}, "+
		"steadyState: {probes: ["+answers+"]}}")
	d = s.judged(d, v1beta1.VerdictAborted)
	if probe := d.Status.SteadyState.Probes[0]; probe.State != v1beta1.ProbeSuccess || probe.Verdict != v1beta1.VerdictAborted {
		t.Errorf("probe %+v, want that it answers again, and verdict Aborted", probe)
	}
	if !meta.IsStatusConditionTrue(d.Status.Conditions, v1beta1.ConditionAborted) || len(s.events(d.Name, "DisruptionAborted")) != 1 {
		t.Errorf("conditions %+v and %d events DisruptionAborted, want it told once", d.Status.Conditions, len(s.events(d.Name, "DisruptionAborted")))
	}
	s.wantSame(before, s.snapshots(pods))
}

// rule P8: what is not steady before is not disturbed.
func TestNothingIsInjectedIntoWhatIsNotSteady(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(1)
	d := s.create("closed", "{selector: {app: target}, count: 1, duration: 10m, "+quick+", "+
		"steadyState: {gateTimeoutSeconds: 5, probes: [{name: nobody, scope: PerTarget, periodSeconds: 1, tcpSocket: {port: 8099}}]}}")
	d = s.judged(d, v1beta1.VerdictFailed)
	if d.Status.InjectedTime != nil || len(s.events(d.Name, "ChaosPodCreated")) > 0 {
		t.Errorf("injected at %v, %d events ChaosPodCreated, want nothing injected", d.Status.InjectedTime, len(s.events(d.Name, "ChaosPodCreated")))
	}
}

// rule P15: what stays steady while it is disturbed has passed.
func TestWhatStaysSteadyHasPassed(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(1)
	d := s.create("passed", "{selector: {app: target}, count: 1, duration: 90s, network: {drop: 100, hosts: [{host: 192.0.2.1}]}, "+
		"steadyState: {probes: [{name: answers, scope: PerTarget, periodSeconds: 1, timeoutSeconds: 10, failureThreshold: 3, httpGet: {port: 8080, path: /healthz}}]}}")
	d = s.judged(d, v1beta1.VerdictPassed)
	if d.Status.InjectedTime == nil {
		t.Error("it passed without having been injected")
	}
}

// TestTheFaultIsDistinguishedFromABadDay asks untouched pods beside the targets,
// so that a fault and a general failure are distinguished.
func TestTheFaultIsDistinguishedFromABadDay(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(3)
	before := s.snapshots(pods)
	d := s.create("compared", "{selector: {app: target}, count: 1, duration: 90s, network: {drop: 100, hosts: [{port: 8080, protocol: tcp, flow: ingress}]}, "+
		"steadyState: {controlGroup: 1, probes: [{name: answers, scope: PerTarget, onFailure: Record, periodSeconds: 1, timeoutSeconds: 5, failureThreshold: 3, httpGet: {port: 8080, path: /healthz}}]}}")
	d = s.judged(d, v1beta1.VerdictFailed)
	steady := d.Status.SteadyState
	if group := steady.ControlGroup; group == nil || group.Chosen != 1 {
		t.Fatalf("control group %+v, want one pod", group)
	}
	compared := steady.Probes[0].Comparison
	if compared == nil || compared.ControlPods != 1 || compared.ControlAnswers == 0 || compared.Difference <= 0 {
		t.Errorf("comparison %+v, want a control group of one pod that failed less than the target", compared)
	}
	s.wantSame(before, s.snapshots(pods))
}

// judged waits until a disruption is over, and wants its verdict and no chaos pod.
func (s *space) judged(d *v1beta1.Disruption, want v1beta1.Verdict) *v1beta1.Disruption {
	s.t.Helper()
	d = s.await(d, fmt.Sprintf("finished with verdict %s", want), func(d *v1beta1.Disruption) bool { return d.Status.Phase == v1beta1.PhaseFinished })
	if d.Status.SteadyState == nil || d.Status.SteadyState.Verdict != want {
		s.t.Fatalf("steady state %+v, ending %q, want verdict %s", d.Status.SteadyState, d.Status.Ending, want)
	}
	if pods := s.chaosPods(s.t, d); len(pods) > 0 {
		s.t.Errorf("%d chaos pods are left", len(pods))
	}
	return d
}
