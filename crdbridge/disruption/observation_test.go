package disruption

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// scene is a disruption that holds one target of three candidates.
type scene struct {
	d     *v1beta1.Disruption
	chaos []corev1.Pod
	pods  []corev1.Pod
	nodes []corev1.Node
}

func (s *scene) snapshot() snapshot {
	l := snapshot{disruption: s.d, chaosPods: s.chaos, targets: podTargets(s.d.Spec, s.pods)}
	if s.d.Spec.Level == v1beta1.LevelNode {
		l.targets = nodeTargets(s.d.Spec, s.nodes)
	}
	return l
}

func holding() *scene {
	d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{
		Faults:   v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{}},
		Selector: map[string]string{"app": "shop"},
	}}
	d.Status.Phase = v1beta1.PhaseHolding
	d.Status.SpecHash = d.Spec.Hash()
	d.Status.TargetInjections = map[string]map[v1beta1.Kind]v1beta1.TargetInjection{
		"shop-a": {v1beta1.KindContainerFailure: {
			InjectorPodName: "chaos-a", InjectionStatus: v1beta1.Injected, TargetUID: "uid-shop-a",
		}},
	}
	return &scene{
		d:     d,
		chaos: []corev1.Pod{chaosPod("chaos-a", "uid-shop-a")},
		pods:  []corev1.Pod{shopPod("shop-a"), shopPod("shop-b"), shopPod("shop-c")},
		nodes: []corev1.Node{readyNode("node-a"), readyNode("node-b")},
	}
}

func TestObserveNoticesWhatAWorkflowMustActOn(t *testing.T) {
	now := metav1.Now()
	tests := []struct {
		name   string
		change func(*scene)
		// what the observation then counts
		ended, lost, candidates int
		specChanged             bool
	}{
		{"a chaos pod is being deleted", func(s *scene) { s.chaos[0].DeletionTimestamp = &now }, 1, 0, 3, false},
		{"a chaos pod succeeded", func(s *scene) { s.chaos[0].Status.Phase = corev1.PodSucceeded }, 1, 0, 3, false},
		{"a chaos pod failed", func(s *scene) { s.chaos[0].Status.Phase = corev1.PodFailed }, 1, 0, 3, false},
		{"its container ended before its phase says so", func(s *scene) {
			s.chaos[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: kube.InjectorContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		}, 1, 0, 3, false},
		{"a chaos pod that injected is gone", func(s *scene) { s.chaos = nil }, 1, 0, 3, false},
		{"a target is gone", func(s *scene) { s.pods = s.pods[1:] }, 0, 1, 2, false},
		{"a target is replaced by another of its name", func(s *scene) { s.pods[0].UID = "uid-other" }, 0, 1, 3, false},
		{"a target is ending", func(s *scene) { s.pods[0].DeletionTimestamp = &now }, 0, 1, 2, false},
		{"a target is no longer running", func(s *scene) { s.pods[0].Status.Phase = corev1.PodSucceeded }, 0, 1, 2, false},
		{"a target only its chaos pod names is gone", func(s *scene) { s.d.Status.TargetInjections, s.pods = nil, s.pods[1:] }, 0, 1, 2, false},
		{"a candidate more", func(s *scene) { s.pods = append(s.pods, shopPod("shop-d")) }, 0, 0, 4, false},
		{"a candidate less", func(s *scene) { s.pods = s.pods[:2] }, 0, 0, 2, false},
		{"a candidate runs no longer", func(s *scene) { s.pods[2].Status.Phase = corev1.PodPending }, 0, 0, 2, false},
		{"a candidate matches no longer", func(s *scene) { s.pods[2].Labels = nil }, 0, 0, 2, false},
		{"a candidate is replaced by another of its name", func(s *scene) { s.pods[2].UID = "uid-other" }, 0, 0, 3, false},
		{"the spec is changed", func(s *scene) { s.d.Spec.DryRun = true }, 0, 0, 3, true}, // rule 9
	}
	before := observe(holding().snapshot())
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := holding()
			test.change(s)
			got := observe(s.snapshot())
			if got.Hash == before.Hash {
				t.Errorf("the hash did not change: %+v", got)
			}
			if got.Ended != test.ended || got.TargetsLost != test.lost || got.Candidates != test.candidates || got.SpecChanged != test.specChanged {
				t.Errorf("observe = %+v, want ended %d, lost %d, candidates %d, spec changed %t",
					got, test.ended, test.lost, test.candidates, test.specChanged)
			}
		})
	}
}

func TestObserveIgnoresTheRest(t *testing.T) {
	now := metav1.Now()
	static := func(s *scene) { s.d.Spec.StaticTargeting = true; s.d.Status.SpecHash = s.d.Spec.Hash() }
	nodes := func(s *scene) {
		s.d.Spec.Level = v1beta1.LevelNode
		s.d.Status.SpecHash, s.d.Status.TargetInjections, s.chaos = s.d.Spec.Hash(), nil, nil
	}
	tests := []struct {
		name   string
		given  func(*scene)
		change func(*scene)
	}{
		{"the order of the caches", nil, func(s *scene) {
			rand.Shuffle(len(s.pods), func(i, j int) { s.pods[i], s.pods[j] = s.pods[j], s.pods[i] })
		}},
		{"resource versions", nil, func(s *scene) { s.pods[0].ResourceVersion, s.chaos[0].ResourceVersion = "9", "9" }},
		{"readiness of a chaos pod", nil, func(s *scene) {
			s.chaos[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}},
		{"readiness of a target", nil, func(s *scene) {
			s.pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		}},
		{"the start of a chaos pod", nil, func(s *scene) { s.chaos = append(s.chaos, chaosPod("chaos-b", "uid-shop-b")) }},
		{"a pod that does not match", nil, func(s *scene) {
			p := shopPod("other")
			p.Labels = map[string]string{"app": "other"}
			s.pods = append(s.pods, p)
		}},
		{"labels and annotations of the disruption", nil, func(s *scene) { s.d.Labels = map[string]string{"a": "b"}; s.d.Annotations = s.d.Labels }}, // rule 10
		{"times and counts in status", nil, func(s *scene) { s.d.Status.InjectedTime = &now; s.d.Status.InjectedTargetsCount = 1 }},
		{"a label taken off a chosen target", static, func(s *scene) { s.pods[0].Labels = nil }},
		{"candidates of a static disruption", static, func(s *scene) { s.pods = append(s.pods, shopPod("shop-d")) }},
		{"candidates of a disruption that ends", func(s *scene) { s.d.DeletionTimestamp = &now }, func(s *scene) { s.pods = append(s.pods, shopPod("shop-d")) }},
		{"candidates of one that is cleaned", func(s *scene) { s.d.Status.Phase = v1beta1.PhaseCleaning }, func(s *scene) { s.pods = append(s.pods, shopPod("shop-d")) }},
		{"an empty status before the workflow wrote any", func(s *scene) { s.d.Status = v1beta1.DisruptionStatus{}; s.chaos = nil },
			func(s *scene) { s.d.Status.Phase = v1beta1.PhaseSelecting }},
		{"pods, at the level of nodes", nodes, func(s *scene) { s.pods = nil }},
		{"a heartbeat of a node", nodes, func(s *scene) { s.nodes[0].Status.Conditions[0].LastHeartbeatTime = now }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := holding()
			if test.given != nil {
				test.given(s)
			}
			before := observe(s.snapshot())
			test.change(s)
			if after := observe(s.snapshot()); after != before {
				t.Errorf("observe = %+v, before %+v", after, before)
			}
		})
	}
}

func TestObserveNodes(t *testing.T) {
	given := func() *scene {
		s := holding()
		s.d.Spec.Level = v1beta1.LevelNode
		s.d.Status.SpecHash = s.d.Spec.Hash()
		s.d.Status.TargetInjections = nil
		s.chaos = []corev1.Pod{chaosPod("chaos-a", "uid-node-a")}
		return s
	}
	tests := []struct {
		name             string
		change           func(*scene)
		lost, candidates int
	}{
		{"both ready", func(*scene) {}, 0, 2},
		{"the chosen one not ready: it stays", func(s *scene) { s.nodes[0].Status.Conditions[0].Status = corev1.ConditionUnknown }, 0, 1}, // rule 39
		{"the chosen one being deleted", func(s *scene) { s.nodes[0].DeletionTimestamp = &metav1.Time{} }, 1, 1},
		{"the other of another system", func(s *scene) { s.nodes[1].Labels["kubernetes.io/os"] = "windows" }, 0, 1},
		{"the chosen one gone", func(s *scene) { s.nodes = s.nodes[1:] }, 1, 1},
		{"the other without its label", func(s *scene) { s.nodes[1].Labels = nil }, 0, 1},
		{"the chosen one without its annotation", func(s *scene) {
			s.d.Spec.Filter = &v1beta1.DisruptionFilter{Annotations: map[string]string{"yes": "true"}}
		}, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := given()
			test.change(s)
			if got := observe(s.snapshot()); got.TargetsLost != test.lost || got.Candidates != test.candidates {
				t.Errorf("observe = %+v, want lost %d, candidates %d", got, test.lost, test.candidates)
			}
		})
	}
}

func TestALostTargetIsNoticedWhereCandidatesDoNotCount(t *testing.T) {
	s := holding()
	s.d.Spec.StaticTargeting = true
	before := observe(s.snapshot())
	s.pods[0].Status.Phase = corev1.PodFailed
	if after := observe(s.snapshot()); after.Hash == before.Hash || after.TargetsLost != 1 {
		t.Errorf("observe = %+v, before %+v", after, before)
	}
}

func TestASecondChangeOfTheSpecIsNoticedToo(t *testing.T) {
	s := holding()
	s.d.Spec.DryRun = true
	first := observe(s.snapshot())
	s.d.Spec.StaticTargeting = false
	s.d.Spec.Selector = map[string]string{"app": "shop", "more": "x"}
	if second := observe(s.snapshot()); second.Hash == first.Hash {
		t.Errorf("the hash is %s after both changes", second.Hash)
	}
}

func TestAnUnparsableSelectorMatchesNothing(t *testing.T) {
	s := holding()
	s.d.Spec.AdvancedSelector = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
	if got := observe(s.snapshot()); got.Candidates != 0 {
		t.Errorf("candidates = %d, want 0", got.Candidates)
	}
}

func TestTenThousandTargetsAreObservedQuickly(t *testing.T) {
	s := holding()
	for i := range 10_000 {
		s.pods = append(s.pods, shopPod(string(rune('a'+i%26))+time.Duration(i).String()))
	}
	began := time.Now()
	observe(s.snapshot())
	if took := time.Since(began); took > time.Second {
		t.Errorf("observe took %s", took)
	} else {
		t.Logf("observe took %s", took)
	}
}

func chaosPod(name, targetUID string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{v1beta1.LabelTargetUID: targetUID}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func shopPod(name string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "shop"}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func readyNode(name string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "shop"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
}

// Of a disruption too large for a list in status, by counts: 600 targets of two
// kinds, of which status lists the one that cannot be injected.
func TestChaosPodsThatStatusDoesNotListAreMissed(t *testing.T) {
	large := func() *scene {
		s := holding()
		s.d.Status.Kinds = "cpu-pressure,network-disruption"
		s.d.Status.SelectedTargetsCount, s.d.Status.InjectedTargetsCount = 600, 599
		s.d.Status.TargetInjections = map[string]map[v1beta1.Kind]v1beta1.TargetInjection{
			"shop-0": {v1beta1.KindNetwork: {InjectionStatus: v1beta1.NotInjected, TargetUID: "uid-0", Reason: "no such host"}},
		}
		s.chaos = nil
		for i := range 1200 {
			s.chaos = append(s.chaos, chaosPod(fmt.Sprint("chaos-", i), fmt.Sprint("uid-", i/2)))
		}
		return s
	}
	for _, test := range []struct {
		name   string
		change func(*scene)
		want   int
	}{
		{"all are there", func(*scene) {}, 0},
		{"one that injects is gone", func(s *scene) { s.chaos = s.chaos[:1199] }, 1},
		{"the ones of two targets are gone", func(s *scene) { s.chaos = s.chaos[:1196] }, 4},
		{"the one that cannot inject is gone", func(s *scene) { s.chaos = s.chaos[1:] }, 0},
		{"more are made than are counted yet", func(s *scene) { s.d.Status.InjectedTargetsCount = 10 }, 0},
		{"it is taken off", func(s *scene) { s.chaos, s.d.Status.Phase = nil, v1beta1.PhaseCleaning }, 0},
		{"status lists all of a small one", func(s *scene) { s.chaos, s.d.Status.SelectedTargetsCount = nil, 1 }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := large()
			test.change(s)
			if got := unlisted(s.d, s.chaos); got != test.want {
				t.Errorf("unlisted = %d, want %d", got, test.want)
			}
		})
	}
	t.Run("it is told", func(t *testing.T) {
		before := large().snapshot()
		after := large().snapshot()
		after.missing = 2
		if a, b := observe(before), observe(after); a.Hash == b.Hash || b.Ended != a.Ended+2 {
			t.Errorf("observations = %+v and %+v, want two more ended", a, b)
		}
	})
}
