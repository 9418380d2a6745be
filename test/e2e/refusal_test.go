//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// TestBadInputIsRefused: a user's mistake is refused at once, with a hint.
func TestBadInputIsRefused(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	for name, c := range map[string]struct{ spec, want string }{
		"an unknown field":              {"{selector: {app: target}, count: 1, network: {dorp: 10}}", "dorp"},
		"a duration without a unit":     {"{selector: {app: target}, count: 1, duration: '90', network: {drop: 10}}", "unit"},
		"a negative duration":           {"{selector: {app: target}, count: 1, duration: -5m, network: {drop: 10}}", "duration"},
		"no selector":                   {"{count: 1, network: {drop: 10}}", "selector"},
		"an empty selector":             {"{selector: {}, count: 1, network: {drop: 10}}", "selector"},
		"count 0":                       {"{selector: {app: target}, count: 0, network: {drop: 10}}", "count"},
		"count 101%":                    {"{selector: {app: target}, count: 101%, network: {drop: 10}}", "percentage"},
		"no count":                      {"{selector: {app: target}, network: {drop: 10}}", "count"},
		"no kind":                       {"{selector: {app: target}, count: 1}", "at least one of"},
		"kinds that exclude another":    {"{selector: {app: target}, count: 1, containerFailure: {}, cpuPressure: {}}", "alone"},
		"a pod-only kind at node level": {"{level: node, selector: {app: target}, count: 1, containerFailure: {}}", "level"},
		"more than all packets":         {"{selector: {app: target}, count: 1, network: {drop: 140}}", "100"},
		"an unknown flow":               {"{selector: {app: target}, count: 1, network: {drop: 10, hosts: [{host: a, flow: sideways}]}}", "flow"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &space{s.world, t, s.name}
			_, err := s.tryCreate("bad", c.spec)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("it was refused with %q, want a message with %q", err, c.want)
			}
		})
	}
}

// Mistakes that only show on the node appear in status with the reason, and
// nothing stays.

func TestHostThatDoesNotResolve(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(1)
	before := s.snapshots(pods)
	d := s.create("unknown-host", "{selector: {app: target}, count: 1, duration: 5m, network: {drop: 100, hosts: [{host: no-such-host.invalid}]}}")
	d = s.await(d, "told that the host does not resolve", func(d *v1beta1.Disruption) bool {
		return strings.Contains(d.Status.TargetInjections["target-0"][v1beta1.KindNetwork].Reason, "no-such-host.invalid")
	})
	if d.Status.InjectionStatus != v1beta1.NotInjected { // rule 33
		t.Errorf("injection status %s, want NotInjected", d.Status.InjectionStatus)
	}
	s.delete(d)
	s.gone(d)
	s.wantSame(before, s.snapshots(pods))
}

// A name that has no address yet is reported, and the target is disrupted once it has one.
func TestHostThatResolvesLater(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(1)
	host := "late." + s.name + ".svc.cluster.local"
	d := s.create("late-host", "{selector: {app: target}, count: 1, duration: 10m, network: {drop: 100, hosts: [{host: "+host+"}]}}")
	d = s.await(d, "told that the host does not resolve", func(d *v1beta1.Disruption) bool {
		return strings.Contains(d.Status.TargetInjections["target-0"][v1beta1.KindNetwork].Reason, host)
	})
	_, err := s.kube.CoreV1().Services(s.name).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "late"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "none"}, Ports: []corev1.ServicePort{{Port: 9090}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	d = s.injected(d)
	s.delete(d)
	s.gone(d)
}

// The nodes of a development cluster are containers of one machine: who would end
// one ends all, and is refused before anything happens.
func TestNodeFailureIsRefusedOnASharedKernel(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(1)
	boot := s.bootID(pods[0].Spec.NodeName)
	d := s.create("end-node", "{selector: {app: target}, count: 1, duration: 5m, nodeFailure: {}}")
	d = s.await(d, "told that the node shares its kernel", func(d *v1beta1.Disruption) bool {
		reason := condition(d, v1beta1.ConditionInjected).Message + d.Status.TargetInjections["target-0"][v1beta1.KindNodeFailure].Reason
		return strings.Contains(reason, "same kernel") || strings.Contains(reason, "shares its kernel")
	})
	if d.Status.InjectionStatus != v1beta1.NotInjected {
		t.Errorf("injection status %s, want NotInjected", d.Status.InjectionStatus)
	}
	s.delete(d)
	s.gone(d)
	if now := s.bootID(pods[0].Spec.NodeName); now != boot {
		t.Errorf("boot ID of the node = %s, before it was %s", now, boot)
	}
}

// bootID is how a node names its kernel's boot.
func (s *space) bootID(node string) string {
	s.t.Helper()
	found, err := s.kube.CoreV1().Nodes().Get(s.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return found.Status.NodeInfo.BootID
}

func TestContainerThatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(1)
	d := s.create("no-container", "{selector: {app: target}, count: 1, containers: [nope], duration: 5m, cpuPressure: {count: 10%}}")
	s.await(d, "told that the container is not there", func(d *v1beta1.Disruption) bool {
		return strings.Contains(condition(d, v1beta1.ConditionTargetsSelected).Message, `"nope"`)
	})
	if events := s.events(d.Name, "InvalidSpec"); len(events) == 0 {
		t.Error("no event InvalidSpec")
	}
	s.delete(d)
	s.gone(d)
}

// TestTargetVanishesAfterSelection: a target that ends right after it was selected
// leaves no chaos pod and delays no other target.
func TestTargetVanishesAfterSelection(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(1)
	d := s.create("vanishing", "{selector: {app: target}, count: 1, duration: 5m, "+quick+"}")
	s.await(d, "target chosen", func(d *v1beta1.Disruption) bool { return len(names(d)) == 1 })
	grace := int64(0)
	if err := s.kube.CoreV1().Pods(s.name).Delete(t.Context(), "target-0", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if pods := s.chaosPods(t, d); len(pods) > 0 {
			return "its chaos pod is still there: " + pods[0].Name
		}
		return ""
	})
	if live := s.read(d); live.Status.IsStuckOnRemoval {
		t.Errorf("the disruption is stuck: %s", conditions(live))
	}
	s.delete(d)
	s.gone(d)
}
