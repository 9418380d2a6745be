//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// TestChaosPodsTakenFromOutside (rules 18, 26, 37, 41): chaos pods that a user
// deletes or a drain evicts clean up and are finalized. Their targets are not
// selected again.
func TestChaosPodsTakenFromOutside(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(3)
	before := s.snapshots(pods)
	d := s.injected(s.create("outside", "{selector: {app: target}, count: 3, duration: 5m, "+quick+"}"))
	deleted, evicted := s.chaosPodOf(d, "target-0"), s.chaosPodOf(d, "target-1")

	held := s.heldByFinalizer(deleted)
	if err := s.kube.CoreV1().Pods(chaosNamespace).Delete(t.Context(), deleted.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: evicted.Name, Namespace: chaosNamespace}}
	if err := s.kube.PolicyV1().Evictions(chaosNamespace).Evict(t.Context(), eviction); err != nil {
		t.Fatal(err)
	}
	s.awaitGone(deleted)
	s.awaitGone(evicted)
	if !<-held {
		t.Errorf("deleted, the chaos pod went at once; its finalizer %v should have held it", deleted.Finalizers)
	}
	s.await(d, "only target-2 disrupted", func(d *v1beta1.Disruption) bool {
		return slices.Equal(names(d), []string{"target-2"})
	})
	s.wantSame(before, s.mergeSnapshots(before, pods[:2]))

	// A new pod is taken in the place of one; the old ones are not.
	fresh := s.pod("target-9", s.hosts[0])
	if _, err := s.kube.CoreV1().Pods(s.name).Create(t.Context(), fresh, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d = s.await(d, "the new pod disrupted too", func(d *v1beta1.Disruption) bool {
		return d.Status.TargetInjections["target-9"][v1beta1.KindNetwork].InjectionStatus == v1beta1.Injected
	})
	if got := names(d); !slices.Equal(got, []string{"target-2", "target-9"}) {
		t.Errorf("targets = %v, want target-2 and the new target-9", got)
	}
	s.delete(d)
	s.gone(d)
}

// TestKilledInjectorHeals: a killed injector cannot have cleaned. A fresh pod
// cleans from the journal on the node without a person's help.
func TestKilledInjectorHeals(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2)
	before := s.snapshots(pods)
	d := s.injected(s.create("healed", "{selector: {app: target}, count: 2, duration: 10m, "+quick+"}"))
	bad := s.chaosPodOf(d, "target-0")
	began := time.Now()
	s.killInjector(bad)
	s.awaitGone(bad)
	t.Logf("SIGKILL of an injector to its chaos pod gone and the node clean: %.1fs", time.Since(began).Seconds())
	s.wantSame(before, s.mergeSnapshots(before, pods[:1]))
	if live := s.read(d); live.Status.IsStuckOnRemoval || live.Status.Phase != v1beta1.PhaseHolding {
		t.Errorf("phase %s, stuck %t; want it to go on with the other target", live.Status.Phase, live.Status.IsStuckOnRemoval)
	}
	s.delete(d)
	s.gone(d)
	s.wantSame(before, s.snapshots(pods))
	s.record("healed", d)
}

// TestOneOfTwoKindsIsKilledAndHeals kills the injector of one of two kinds on a
// target. The rest of its fault is cleaned up beside the other kind, which stays
// injected. The killed kind is not injected again (rule 18), and the disruption
// can be deleted at any time.
func TestOneOfTwoKindsIsKilledAndHeals(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(1)
	before := s.snapshots(pods)
	d := s.injected(s.create("mixed", "{selector: {app: target}, count: 1, duration: 10m, "+quick+", cpuPressure: {count: 10%}}"))
	kinds := map[v1beta1.Kind]corev1.Pod{}
	for _, pod := range s.chaosPods(t, d) {
		kinds[v1beta1.Kind(pod.Labels[v1beta1.LabelDisruptionKind])] = pod
	}
	began := time.Now()
	s.killInjector(kinds[v1beta1.KindNetwork])
	s.awaitGone(kinds[v1beta1.KindNetwork])
	t.Logf("SIGKILL of one of two injectors to its chaos pod gone: %.1fs", time.Since(began).Seconds())
	live := s.read(d)
	if live.Status.IsStuckOnRemoval || live.Status.Phase != v1beta1.PhaseHolding {
		t.Errorf("phase %s, stuck %t; want it to go on with the other kind", live.Status.Phase, live.Status.IsStuckOnRemoval)
	}
	eventually(t, func() string { // the cleaner is on its way out
		left := s.chaosPods(t, d)
		if len(left) != 1 || left[0].UID != kinds[v1beta1.KindCPUPressure].UID || left[0].DeletionTimestamp != nil {
			return fmt.Sprintf("%d chaos pods are left, want the one that was not killed", len(left))
		}
		return ""
	})
	for _, reason := range []string{"InjectorFailed", "Healed"} {
		if n := len(s.events(d.Name, reason)); n != 1 {
			t.Errorf("%d events %s, want 1", n, reason)
		}
	}
	s.delete(d)
	s.gone(d)
	s.wantSame(before, s.snapshots(pods))
}

// A namespace that is deleted takes its disruptions along, and nothing stays.
func TestDeletedNamespace(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(2)
	d := s.injected(s.create("doomed", "{selector: {app: target}, count: 2, duration: 10m, cpuPressure: {count: 10%}}"))
	if err := s.kube.CoreV1().Namespaces().Delete(t.Context(), s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if namespace, err := s.kube.CoreV1().Namespaces().Get(t.Context(), s.name, metav1.GetOptions{}); err == nil {
			return fmt.Sprintf("namespace %s is still there: %v", s.name, namespace.Status.Conditions)
		}
		return ""
	})
	if pods := s.chaosPods(t, d); len(pods) > 0 {
		t.Errorf("%d chaos pods are left", len(pods))
	}
}

// chaosPodOf is the chaos pod of a target.
func (s *space) chaosPodOf(d *v1beta1.Disruption, target string) corev1.Pod {
	s.t.Helper()
	for _, pod := range s.chaosPods(s.t, d) {
		if pod.Labels[v1beta1.LabelTarget] == target {
			return pod
		}
	}
	s.t.Fatalf("no chaos pod of disruption %s disturbs %s", d.Name, target)
	return corev1.Pod{}
}

// killInjector ends an injector as a crash of its whole chaos pod would: what it did
// stays for a cleaner, as its guard is killed before it.
func (s *space) killInjector(pod corev1.Pod) {
	s.t.Helper()
	s.probe(s.t, nil, pod.Spec.NodeName, "kill", "--guard", "--name", "injector", "--container", containerID(pod))
}

// heldByFinalizer receives whether a pod, once deleted, was held by its
// finalizer before it went.
func (s *space) heldByFinalizer(pod corev1.Pod) <-chan bool {
	s.t.Helper()
	seen, err := s.kube.CoreV1().Pods(pod.Namespace).Watch(s.t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + pod.Name, ResourceVersion: pod.ResourceVersion})
	if err != nil {
		s.t.Fatal(err)
	}
	held := make(chan bool, 1)
	go func() {
		defer seen.Stop()
		ended := false
		for event := range seen.ResultChan() {
			now, ok := event.Object.(*corev1.Pod)
			if event.Type == watch.Deleted || !ok {
				break
			}
			// The kubelet is done with it, and still it is there.
			over := now.Status.Phase == corev1.PodSucceeded || now.Status.Phase == corev1.PodFailed
			ended = ended || now.DeletionTimestamp != nil && over && slices.Contains(now.Finalizers, v1beta1.ChaosPodFinalizer)
		}
		held <- ended
	}()
	return held
}

// mergeSnapshots returns the snapshots before, with fresh ones of some pods.
func (s *space) mergeSnapshots(before map[string]string, pods []corev1.Pod) map[string]string {
	s.t.Helper()
	merged := s.snapshots(pods)
	for key, value := range before {
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return strings.HasPrefix(key, p.Name+" ") }) {
			merged[key] = value
		}
	}
	return merged
}

// cleanNode takes away, by the injector's own command, what a killed injector
// left on a node, and expects that the audit then finds nothing of it.
func (s *space) cleanNode(d *v1beta1.Disruption, node string) {
	s.t.Helper()
	s.injector(node, "clean", "--disruption", string(d.UID))
	if output := s.injector(node, "audit"); strings.Contains(output, string(d.UID)) {
		s.t.Errorf("cleaned, %s still carries marks of %s: %s", node, d.UID, output)
	}
}

// injector runs a command of the injector on a node and returns its output.
func (s *space) injector(node string, args ...string) string {
	s.t.Helper()
	output, err := s.injectors().Run(s.t.Context(), node, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return output
}
