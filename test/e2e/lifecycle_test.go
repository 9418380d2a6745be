//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// One disruption of two kinds on two targets, from creation to the end, looked
// at from all sides.
func TestLifeOfADisruption(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(3)
	first := s.firstChaosPod()

	d := s.create("life", "{selector: {app: target}, count: 2, duration: 10m, cpuPressure: {count: 1%}, network: {drop: 10, hosts: [{host: 192.0.2.1}]}}")
	// rule 4: when the first chaos pod is seen, the finalizer is there.
	if finalizers := <-first; !slices.Contains(finalizers, v1beta1.DisruptionFinalizer) {
		t.Errorf("when the first chaos pod existed the disruption had the finalizers %v", finalizers)
	}
	d = s.injected(d) // rules 1, 30: no other call was needed
	s.wantHash(d)
	s.wantTargets(d)
	s.wantChaosPods(d)
	s.wantSmallImage()
	// Until then the proof of the effect is still to come, which is a change.
	d = s.await(d, "proven to burn processor time", func(d *v1beta1.Disruption) bool {
		for _, injections := range d.Status.TargetInjections {
			if effect := injections[v1beta1.KindCPUPressure].Effect; effect == nil || effect.State != v1beta1.EffectProven {
				return false
			}
		}
		return len(d.Status.TargetInjections) == 2
	})
	s.wantQuiet(d)
	s.wantSpecKept(d)

	// rules 2, 5, 6: deleted, it stays until the chaos pods are gone.
	s.delete(d)
	live := s.read(d)
	if live != nil && live.DeletionTimestamp == nil {
		t.Error("the disruption was deleted and has no deletion timestamp")
	}
	if live == nil && len(s.chaosPods(t, d)) > 0 {
		t.Error("the disruption went before its chaos pods")
	}
	s.gone(d)
	s.record("healthy", d)
}

// firstChaosPod receives the finalizers that the disruption has when the first
// chaos pod of this space is seen.
func (s *space) firstChaosPod() <-chan []string {
	s.t.Helper()
	watch, err := s.kube.CoreV1().Pods(chaosNamespace).Watch(s.t.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionNamespace + "=" + s.name})
	if err != nil {
		s.t.Fatal(err)
	}
	seen := make(chan []string, 1)
	go func() {
		defer watch.Stop()
		defer close(seen)
		timeout := time.After(patience)
		select {
		case <-timeout:
		case event := <-watch.ResultChan():
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				return
			}
			raw, err := s.kube.Discovery().RESTClient().Get().AbsPath(s.path(pod.Labels[v1beta1.LabelDisruptionName])).DoRaw(context.Background())
			d := v1beta1.Disruption{}
			if err == nil && json.Unmarshal(raw, &d) == nil {
				seen <- d.Finalizers
			}
		}
	}()
	return seen
}

// rule 7
func (s *space) wantHash(d *v1beta1.Disruption) {
	s.t.Helper()
	if len(d.Status.SpecHash) != 64 || d.Status.SpecHash != d.Spec.Hash() {
		s.t.Errorf("specHash = %q, want the hash of the spec, %s", d.Status.SpecHash, d.Spec.Hash())
	}
}

// rules 11, 13, 20, 21: two different pods of this namespace that match,
// listed in status, each with an event.
func (s *space) wantTargets(d *v1beta1.Disruption) {
	s.t.Helper()
	if d.Status.SelectedTargetsCount != 2 || d.Status.DesiredTargetsCount != 2 || d.Status.Targets != "2/2" {
		s.t.Errorf("selected %d of %d, targets %q, want 2 of 2", d.Status.SelectedTargetsCount, d.Status.DesiredTargetsCount, d.Status.Targets)
	}
	if got := names(d); len(got) != 2 {
		s.t.Fatalf("targets in status = %v, want two", got)
	}
	for name, kinds := range d.Status.TargetInjections {
		pod, err := s.kube.CoreV1().Pods(s.name).Get(s.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		if pod.Labels["app"] != "target" || len(kinds) != 2 {
			s.t.Errorf("target %s has labels %v and kinds %v", name, pod.Labels, kinds)
		}
		for kind, injection := range kinds {
			if injection.TargetUID != pod.UID || injection.InjectionStatus != v1beta1.Injected {
				s.t.Errorf("status of %s on %s is %+v, want Injected with UID %s", kind, name, injection, pod.UID)
			}
		}
		eventually(s.t, func() string {
			if len(s.events(name, "Disrupted")) == 0 {
				return "no event Disrupted on target " + name
			}
			return ""
		})
	}
}

// rules 22-26, 32: one chaos pod for each target and kind, as it should be.
func (s *space) wantChaosPods(d *v1beta1.Disruption) {
	s.t.Helper()
	pods := s.chaosPods(s.t, d)
	if len(pods) != 4 {
		s.t.Errorf("%d chaos pods, want one for each of 2 targets and 2 kinds", len(pods))
	}
	for _, pod := range pods {
		target, err := s.kube.CoreV1().Pods(s.name).Get(s.t.Context(), pod.Labels[v1beta1.LabelTarget], metav1.GetOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		container := pod.Spec.Containers[0]
		injection := v1beta1.Injection{}
		decode(s.t, container.Env[0].Value, &injection)
		switch {
		case pod.Spec.NodeName != target.Spec.NodeName:
			s.t.Errorf("chaos pod %s is on %s, its target on %s", pod.Name, pod.Spec.NodeName, target.Spec.NodeName)
		case pod.Namespace == s.name:
			s.t.Errorf("chaos pod %s is in its target's namespace", pod.Name)
		case !slices.Contains(pod.Finalizers, v1beta1.ChaosPodFinalizer):
			s.t.Errorf("chaos pod %s has the finalizers %v", pod.Name, pod.Finalizers)
		case container.Image != s.image || injection.Target.UID != target.UID || len(injection.Params) < 3:
			s.t.Errorf("chaos pod %s runs %s with %+v", pod.Name, container.Image, injection)
		case pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken:
			s.t.Errorf("chaos pod %s has credentials", pod.Name)
		}
		for name, probe := range map[string]*corev1.Probe{"startup": container.StartupProbe, "readiness": container.ReadinessProbe} {
			if probe == nil || probe.Exec == nil || probe.Exec.Command[0] != "/injector" {
				s.t.Errorf("chaos pod %s has the %s probe %v", pod.Name, name, probe)
			}
		}
	}
}

// The image that every node with a target has to fetch is less than 40 MB.
func (s *space) wantSmallImage() {
	s.t.Helper()
	nodes, err := s.kube.CoreV1().Nodes().List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	seen := 0
	for _, node := range nodes.Items {
		for _, image := range node.Status.Images {
			if !slices.Contains(image.Names, s.image) {
				continue
			}
			seen++
			if image.SizeBytes >= 40_000_000 {
				s.t.Errorf("%s has %d bytes on %s", s.image, image.SizeBytes, node.Name)
			}
		}
	}
	if seen == 0 {
		s.t.Errorf("no node says that it has the image %s", s.image)
	}
}

// rules 3, 27: while nothing changes nothing is written and no chaos pod
// is made, ends or starts again.
func (s *space) wantQuiet(d *v1beta1.Disruption) {
	s.t.Helper()
	before := s.versions(d)
	// There is nothing to wait for: the time without writes is what is tested.
	deadline := time.Now().Add(4 * time.Second)
	for time.Now().Before(deadline) {
		if after := s.versions(d); after != before {
			s.t.Fatalf("something was written while the disruption only holds:\nbefore %s\nafter  %s", before, after)
		}
		if err := pause(s.t.Context()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// versions are the resource versions of all that belongs to a disruption, and
// the states of its injectors.
func (s *space) versions(d *v1beta1.Disruption) string {
	s.t.Helper()
	all := []string{s.read(d).ResourceVersion}
	for _, pod := range s.chaosPods(s.t, d) {
		state := pod.Status.ContainerStatuses[0]
		all = append(all, fmt.Sprintf("%s:%s:%t:%d", pod.Name, pod.ResourceVersion, state.State.Running != nil, state.RestartCount))
	}
	records, err := s.kube.CoreV1().ConfigMaps(chaosNamespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(d.UID)})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, record := range records.Items {
		all = append(all, record.Name+":"+record.ResourceVersion)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// rules 8-10: an edited spec is warned of and changes nothing; other edits
// are not even warned of.
func (s *space) wantSpecKept(d *v1beta1.Disruption) {
	s.t.Helper()
	pods := uids(s.chaosPods(s.t, d))
	s.patch(d, `{"metadata":{"labels":{"team":"a"},"annotations":{"note":"b"}}}`)
	s.patch(d, `{"spec":{"count":3,"duration":"11m"}}`)
	eventually(s.t, func() string {
		if len(s.events(d.Name, "SpecChanged")) == 0 {
			return "no event SpecChanged after the spec was edited"
		}
		return ""
	})
	events := s.events(d.Name, "SpecChanged")
	if len(events) != 1 || events[0].Type != corev1.EventTypeWarning {
		s.t.Errorf("events SpecChanged = %v, want one warning, and none for labels and annotations", events)
	}
	live := s.read(d)
	if got := uids(s.chaosPods(s.t, d)); !slices.Equal(got, pods) || !slices.Equal(names(live), names(d)) || live.Status.SpecHash != d.Status.SpecHash {
		s.t.Errorf("after the edit: chaos pods %v targets %v hash %s, want as before: %v %v %s",
			got, names(live), live.Status.SpecHash, pods, names(d), d.Status.SpecHash)
	}
}

func uids(pods []corev1.Pod) (all []types.UID) {
	for _, pod := range pods {
		all = append(all, pod.UID)
	}
	slices.Sort(all)
	return all
}

// A disruption whose duration is over ends by itself and stays to be read.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	before := s.snapshots(s.targets(1))
	d := s.injected(s.create("short", "{selector: {app: target}, count: 1, duration: 90s, network: {drop: 100, hosts: [{host: 192.0.2.1}]}}"))
	d = s.await(d, "finished", func(d *v1beta1.Disruption) bool { return d.Status.Phase == v1beta1.PhaseFinished })
	if d.Status.InjectionStatus != v1beta1.PreviouslyInjected || condition(d, v1beta1.ConditionCleaned).Status != metav1.ConditionTrue {
		t.Errorf("a finished disruption says %s, %s", d.Status.InjectionStatus, conditions(d))
	}
	if d.Status.ExpiryTime == nil || d.Status.CleanedAt == nil || d.Status.CleanedAt.Sub(d.Status.ExpiryTime.Time) > 30*time.Second {
		t.Errorf("expiry %v, cleaned at %v: want the one soon after the other", d.Status.ExpiryTime, d.Status.CleanedAt)
	}
	if pods := s.chaosPods(t, d); len(pods) > 0 {
		t.Errorf("finished with %d chaos pods", len(pods))
	}
	s.wantSame(before, s.snapshots([]corev1.Pod{s.running("target-0")}))
	s.record("expired", d)
}

// TestOneOfTwoCannotBeInjected (rules 28, 29, 31, 33, 57, 58): the status shows
// the target that cannot be injected and never counts it. Its chaos pod is cleaned
// up with the other one.
func TestOneOfTwoCannotBeInjected(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2, func(pod *corev1.Pod) {
		if pod.Name == "target-1" { // no disk is below its /data
			pod.Spec.Volumes[0].EmptyDir.Medium = corev1.StorageMediumMemory
		}
	})
	before := s.snapshots(pods)
	d := s.create("half", "{selector: {app: target}, count: 2, duration: 5m, diskPressure: {path: /data, throttling: {writeBytesPerSec: 1048576}}}")
	d = s.await(d, "half injected, with a reason for the other", func(d *v1beta1.Disruption) bool {
		return d.Status.InjectionStatus == v1beta1.PartiallyInjected && d.Status.TargetInjections["target-1"][v1beta1.KindDiskPressure].Reason != ""
	})
	if reason := d.Status.TargetInjections["target-1"][v1beta1.KindDiskPressure].Reason; !strings.Contains(reason, "/data") {
		t.Errorf("the reason is %q, want it to name the path", reason)
	}
	if message := condition(d, v1beta1.ConditionInjected).Message; !strings.Contains(message, "/data") {
		t.Errorf("condition Injected says %q, want the reason in it", message)
	}
	if d.Status.InjectedTargetsCount != 1 || d.Status.Targets != "1/2" {
		t.Errorf("targets %q, injected %d, want 1 of 2", d.Status.Targets, d.Status.InjectedTargetsCount)
	}
	s.delete(d)
	s.gone(d)
	s.wantSame(before, s.snapshots(pods))
	s.record("deleted-while-injecting", d)
}
