//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// quick is a fault without an effect: all traffic to an unused address.
const quick = "network: {drop: 100, hosts: [{host: 192.0.2.1}]}"

func TestCounts(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(5, func(pod *corev1.Pod) {
		if pod.Name != "target-4" {
			pod.Labels["four"] = "yes"
		}
		if pod.Name < "target-3" {
			pod.Labels["three"] = "yes"
		}
	})
	for i, c := range []struct {
		count, selector string
		want            int
	}{
		{"2", "app: target", 2},      // rule 13
		{"25%", "app: target", 2},    // rule 14
		{"25%", "four: 'yes'", 1},    // rule 15
		{"1%", "three: 'yes'", 1},    // rule 15
		{"'100%'", "app: target", 5}, // rule 15
		{"9", "app: target", 5},      // rule 17
	} {
		t.Run(fmt.Sprintf("%s of %s is %d", c.count, c.selector, c.want), func(t *testing.T) {
			s := &space{s.world, t, s.name}
			d := s.injected(s.create(fmt.Sprintf("count-%d", i), fmt.Sprintf("{selector: {%s}, count: %s, duration: 5m, %s}", c.selector, c.count, quick)))
			if got := names(d); len(got) != c.want || d.Status.SelectedTargetsCount != c.want {
				t.Errorf("targets = %v, selected %d, want %d", got, d.Status.SelectedTargetsCount, c.want)
			}
			if pods := s.chaosPods(t, d); len(pods) != c.want {
				t.Errorf("%d chaos pods, want %d", len(pods), c.want)
			}
			s.delete(d)
			s.gone(d)
		})
	}
}

// rule 16: five times 2 of 6 pods; the same pair each time has a chance
// of 1 in 50,625.
func TestSelectionIsRandom(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(6)
	chosen := map[string]bool{}
	for i := range 5 {
		d := s.create(fmt.Sprintf("random-%d", i), "{selector: {app: target}, count: 2, duration: 5m, dryRun: true, "+quick+"}")
		d = s.await(d, "two targets chosen", func(d *v1beta1.Disruption) bool { return len(names(d)) == 2 })
		chosen[strings.Join(names(d), " ")] = true
		s.delete(d)
		s.gone(d)
		if len(chosen) > 1 {
			return
		}
	}
	t.Errorf("five selections all chose %v", chosen)
}

// rules 19, 35: three disruptions that start at the same moment share no
// target, and the end of one does not touch the chaos pods of another.
func TestDisruptionsNeverShareATarget(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(4)
	var all []*v1beta1.Disruption
	for i := range 3 {
		all = append(all, s.create(fmt.Sprintf("rival-%d", i), "{selector: {app: target}, count: 2, duration: 5m, "+quick+"}"))
	}
	holders := map[string]string{}
	eventually(t, func() string {
		injected := 0
		for _, d := range all {
			for name := range s.read(d).Status.TargetInjections {
				if other := holders[name]; other != "" && other != d.Name {
					t.Fatalf("target %s belongs to %s and to %s", name, other, d.Name)
				}
				holders[name] = d.Name
			}
			injected += s.read(d).Status.InjectedTargetsCount
		}
		if injected < 4 {
			return fmt.Sprintf("%d of 4 targets are injected", injected)
		}
		return ""
	})
	// The disruption that got targets first ends; the others keep their chaos pods.
	first := slices.IndexFunc(all, func(d *v1beta1.Disruption) bool { return len(names(s.read(d))) > 0 })
	kept := map[string][]corev1.Pod{}
	for _, d := range slices.Delete(slices.Clone(all), first, first+1) {
		kept[d.Name] = s.chaosPods(t, d)
	}
	s.delete(all[first])
	s.gone(all[first])
	for _, d := range all {
		now := uids(s.chaosPods(t, d))
		for _, uid := range uids(kept[d.Name]) {
			if !slices.Contains(now, uid) {
				t.Errorf("the end of %s took a chaos pod of %s", all[first].Name, d.Name)
			}
		}
	}
}

func TestManyTargets(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(8)
	d := s.injected(s.create("many", "{selector: {app: target}, count: 100%, duration: 5m, "+quick+"}"))
	if d.Status.Targets != "8/8" {
		t.Errorf("targets %q, want 8/8", d.Status.Targets)
	}
	s.delete(d)
	s.gone(d)
	s.record("eight-targets", d)
}

// TestTargetsThatComeLater: a disruption without a target reports it and waits for
// one.
func TestTargetsThatComeLater(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	d := s.create("early", "{selector: {app: target}, count: 1, duration: 5m, "+quick+"}")
	d = s.await(d, "told that no target is there", func(d *v1beta1.Disruption) bool {
		return condition(d, v1beta1.ConditionTargetsSelected).Status == metav1.ConditionFalse
	})
	if c := condition(d, v1beta1.ConditionTargetsSelected); c.Reason != "NoTargetsFound" || d.Status.InjectionStatus != v1beta1.NotInjected { // rule 28
		t.Errorf("condition %+v, status %s; want NoTargetsFound, NotInjected", c, d.Status.InjectionStatus)
	}
	s.targets(1)
	s.injected(d)
}

// TestTargetReplacedUnderTheSameName (rules 36-38, 40) replaces the target's pod
// by another of the same name. The old pod's chaos pod ends without a person, and
// the new pod is disrupted in its place.
func TestTargetReplacedUnderTheSameName(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	old := s.targets(1)[0]
	d := s.injected(s.create("replaced", "{selector: {app: target}, count: 1, duration: 5m, "+quick+"}"))
	before := s.chaosPods(t, d)
	if err := s.kube.CoreV1().Pods(s.name).Delete(t.Context(), old.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.away(old)
	s.awaitGone(before[0])
	fresh := s.targets(1)[0]
	d = s.await(d, "the new target injected", func(d *v1beta1.Disruption) bool {
		i := d.Status.TargetInjections[fresh.Name][v1beta1.KindNetwork]
		return i.TargetUID == fresh.UID && i.InjectionStatus == v1beta1.Injected
	})
	if d.Status.IsStuckOnRemoval {
		t.Error("a target that is gone made the disruption stuck")
	}
	s.delete(d)
	s.gone(d)
}

// away waits until a target is gone.
func (s *space) away(pod corev1.Pod) {
	s.t.Helper()
	eventually(s.t, func() string {
		found, err := s.kube.CoreV1().Pods(s.name).Get(s.t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && found.UID == pod.UID {
			return "pod " + pod.Name + " is still there"
		}
		return ""
	})
}

// awaitGone waits until a chaos pod is gone.
func (s *space) awaitGone(pod corev1.Pod) {
	s.t.Helper()
	eventually(s.t, func() string {
		found, err := s.kube.CoreV1().Pods(chaosNamespace).Get(s.t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && found.UID == pod.UID {
			return fmt.Sprintf("chaos pod %s is still there: phase %s, finalizers %v", pod.Name, found.Status.Phase, found.Finalizers)
		}
		return ""
	})
}

// A target whose label is taken off is cleaned up and another takes its place. A
// disruption that waits for targets is injected when the one that has them ends.
func TestTargetsFollowTheSelectorAndClaims(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(3)
	before := s.snapshots(pods)
	d := s.injected(s.create("holder", "{selector: {app: target}, count: 2, duration: 10m, "+quick+"}"))
	var rescued corev1.Pod
	for _, pod := range pods {
		if _, chosen := d.Status.TargetInjections[pod.Name]; chosen {
			rescued = pod
		}
	}
	s.label(rescued, "rescued")
	d = s.await(d, "holding two others than "+rescued.Name, func(d *v1beta1.Disruption) bool {
		_, still := d.Status.TargetInjections[rescued.Name]
		return !still && len(d.Status.TargetInjections) == 2 && d.Status.InjectedTargetsCount == 2
	})
	clean := maps.Clone(before)
	maps.DeleteFunc(clean, func(key, _ string) bool { return !strings.HasPrefix(key, rescued.Name+" ") })
	s.wantSame(clean, s.snapshots([]corev1.Pod{rescued}))
	waiter := s.create("waiter", "{selector: {app: target}, count: 2, duration: 10m, "+quick+"}")
	waiter = s.await(waiter, "waiting for holder", func(d *v1beta1.Disruption) bool {
		return strings.Contains(condition(d, v1beta1.ConditionTargetsSelected).Message, s.name+"/holder")
	})
	s.delete(d)
	s.gone(d)
	waiter = s.injected(waiter)
	s.delete(waiter)
	s.gone(waiter)
	s.wantSame(before, s.snapshots(pods))
}
