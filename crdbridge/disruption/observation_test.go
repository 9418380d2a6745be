package disruption

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/workflows/contract"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// scene is a disruption that holds one target of three candidates.
type scene struct {
	d     *v1beta1.Disruption
	chaos []corev1.Pod
	pods  []corev1.Pod
	nodes []corev1.Node
	// unready are the nodes that are not ready.
	unready map[string]bool
}

func (s *scene) snapshot() snapshot {
	l := snapshot{disruption: s.d, chaosPods: s.chaos, targets: podTargets(s.d, s.pods, s.unready)}
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

// The worker deletes the targets that it replaces, and they have no chaos pods. Their end
// is no change, also when status lists none of them.
func TestObserveLeavesReplacedPodsToTheWorker(t *testing.T) {
	s := holding()
	s.d.Spec.Faults = v1beta1.Faults{PodReplacement: &v1beta1.PodReplacement{}}
	s.d.Status.Kinds, s.d.Status.SpecHash = string(v1beta1.KindPodReplacement), s.d.Spec.Hash()
	s.d.Status.TargetInjections = map[string]map[v1beta1.Kind]v1beta1.TargetInjection{
		"shop-a": {v1beta1.KindPodReplacement: {InjectionStatus: v1beta1.Injected, TargetUID: "uid-shop-a"}},
	}
	s.chaos = nil
	s.pods[0].UID = "uid-successor"
	if got := observe(s.snapshot()); got.TargetsLost != 0 || got.Ended != 0 || got.Candidates != 3 {
		t.Errorf("observe() = %+v, want three candidates and nothing lost", got)
	}
	s.d.Status.TargetInjections, s.d.Status.SelectedTargetsCount, s.d.Status.InjectedTargetsCount = nil, 600, 600
	if missing := unlisted(s.d, nil); missing != 0 {
		t.Errorf("unlisted() = %d, want none: there are no chaos pods", missing)
	}
}

// N4: an observation names the shards of the ended pods and lost targets, if it knows all.
func TestObserveNamesShards(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(*scene)
		want   []int
	}{
		"nothing ended":                       {func(*scene) {}, nil},
		"a chaos pod ended":                   {func(s *scene) { s.chaos[0].DeletionTimestamp = &now }, []int{4}},
		"a target is gone":                    {func(s *scene) { s.pods = s.pods[1:] }, []int{4}},
		"a target and a chaos pod of another": {func(s *scene) { s.pods = s.pods[1:]; s.chaos[1].DeletionTimestamp = &now }, []int{1, 4}},
		"a chaos pod is missing":              {func(s *scene) { s.chaos = s.chaos[1:] }, nil},
		"a chaos pod does not say its shard":  {func(s *scene) { delete(s.chaos[0].Labels, v1beta1.LabelShard); s.pods = s.pods[1:] }, nil},
		"too many": {func(s *scene) {
			for i := range contract.MaxShards {
				pod := chaosPod(fmt.Sprint("chaos-", i), fmt.Sprint("gone-", i))
				pod.Labels[v1beta1.LabelShard] = fmt.Sprint(10 + i)
				s.chaos = append(s.chaos, pod)
			}
			s.pods = s.pods[1:]
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := holding()
			s.chaos = append(s.chaos, chaosPod("chaos-b", "uid-shop-b"))
			s.chaos[0].Labels[v1beta1.LabelShard], s.chaos[1].Labels[v1beta1.LabelShard] = "4", "1"
			c.change(s)
			if got := observe(s.snapshot()); !slices.Equal(got.Shards, c.want) {
				t.Errorf("observe = %+v, want shards %v", got, c.want)
			}
		})
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
		{"its container ended before its phase shows it", func(s *scene) {
			s.chaos[0].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: kube.InjectorContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		}, 1, 0, 3, false},
		{"a chaos pod that injected is gone", func(s *scene) { s.chaos = nil }, 1, 0, 3, false},
		{"a target is gone", func(s *scene) { s.pods = s.pods[1:] }, 0, 1, 2, false},
		{"a target is replaced by another of its name", func(s *scene) { s.pods[0].UID = "uid-other" }, 0, 1, 3, false},
		{"a target is ending", func(s *scene) { s.pods[0].DeletionTimestamp = &now }, 0, 1, 2, false},
		{"a target is no longer running", func(s *scene) { s.pods[0].Status.Phase = corev1.PodSucceeded }, 0, 1, 2, false},
		{"a target matches no longer", func(s *scene) { s.pods[0].Labels = nil }, 0, 1, 2, false},
		{"a target's node matches no longer", func(s *scene) {
			s.d.Spec.Level, s.nodes[0].Labels = v1beta1.LevelNode, nil
			s.d.Status.SpecHash = s.d.Spec.Hash()
			s.chaos[0].Labels[v1beta1.LabelTargetUID], s.d.Status.TargetInjections = string(s.nodes[0].UID), nil
		}, 0, 1, 1, false},
		// rule L11
		{"somebody operates on a target", func(s *scene) { s.pods[0].Labels = operated(s.pods[0].Labels) }, 0, 1, 3, false},
		{"a target is being evicted", func(s *scene) {
			s.pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		}, 0, 1, 3, false},
		{"somebody operates on a candidate", func(s *scene) { s.pods[2].Labels = operated(s.pods[2].Labels) }, 0, 0, 3, false},
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

// A percentage follows the number that match down as well as up.
func TestObserveCountsTargetsThatAreSurplus(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*scene)
		want   int
	}{
		"half of three is two":               {func(*scene) {}, 0},
		"half of two is one":                 {func(s *scene) { s.pods = s.pods[:2] }, 1},
		"a target that is lost counts once":  {func(s *scene) { s.pods = s.pods[1:] }, 1},
		"targeting is static":                {func(s *scene) { s.pods, s.d.Spec.StaticTargeting = s.pods[:2], true }, 0},
		"a number asks for as many as there": {func(s *scene) { two := intstr.FromInt32(2); s.pods, s.d.Spec.Count = s.pods[:2], &two }, 0},
		"it is being cleaned up":             {func(s *scene) { s.pods, s.d.Status.Phase = s.pods[:2], v1beta1.PhaseCleaning }, 0},
		"pods on a node that is not ready":   {func(s *scene) { s.unready = map[string]bool{"node-c": true}; s.pods[2].Spec.NodeName = "node-c" }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := holding()
			half := intstr.FromString("50%")
			s.d.Spec.Count = &half
			s.chaos = append(s.chaos, chaosPod("chaos-b", "uid-shop-b"))
			c.change(s)
			s.d.Status.SpecHash = s.d.Spec.Hash()
			if got := observe(s.snapshot()); got.TargetsLost != c.want {
				t.Errorf("observe = %+v, want %d lost", got, c.want)
			}
		})
	}
}

func operated(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	labels[podops.LabelOperating+"/scale"] = "1"
	return labels
}

// rule L11: these disruptions keep a target although it is operated on.
func TestObserveKeepsTargetsInUse(t *testing.T) {
	for name, spec := range map[string]v1beta1.PodOpsLifecycle{
		"operations are ignored": {Policy: v1beta1.OperationsIgnored},
		"targets are kept":       {OnConcurrentOperation: v1beta1.KeepTarget},
	} {
		t.Run(name, func(t *testing.T) {
			s := holding()
			s.d.Spec.PodOpsLifecycle = &spec
			s.d.Status.SpecHash = s.d.Spec.Hash()
			s.pods[0].Labels = operated(s.pods[0].Labels)
			if got := observe(s.snapshot()); got.TargetsLost != 0 || got.Candidates != 3 {
				t.Errorf("observe = %+v, want nothing lost", got)
			}
		})
	}
}

// rule L2: the bridge informs a static disruption that keeps places when a pod becomes
// free.
func TestObserveReportsAFreePodToWaitingDisruptions(t *testing.T) {
	for waits, want := range map[v1beta1.WhenBusy]bool{v1beta1.WaitForBusy: true, v1beta1.SkipBusy: false} {
		s := holding()
		s.d.Spec.StaticTargeting = true
		s.d.Spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{WhenBusy: waits}
		s.d.Status.SpecHash = s.d.Spec.Hash()
		free := observe(s.snapshot())
		s.pods[2].Labels = operated(s.pods[2].Labels)
		if busy := observe(s.snapshot()); (busy.Hash != free.Hash) != want {
			t.Errorf("whenBusy %s: it is informed %t, want %t", waits, busy.Hash != free.Hash, want)
		}
	}
}

// rule E4
func TestObserveNoticesThatAnEffectTurned(t *testing.T) {
	unready := func(s *scene, since int64) {
		s.chaos[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Unix(since, 0)}}
	}
	s := holding()
	s.d.Status.InjectionStatus = v1beta1.Injected
	before := observe(s.snapshot())
	unready(s, 1)
	first := observe(s.snapshot())
	if first.Unready != 1 || first.Hash == before.Hash {
		t.Errorf("observe = %+v, before %+v, want one that is not ready", first, before)
	}
	unready(s, 2)
	if second := observe(s.snapshot()); second.Hash == first.Hash {
		t.Error("that it was ready in between is not seen")
	}
	// A bridge that was down while the pod was not ready still notices it.
	ready := func(after time.Duration) contract.Observation {
		s := holding()
		s.d.Status.InjectionStatus = v1beta1.Injected
		measured := metav1.Unix(100, 0)
		injection := s.d.Status.TargetInjections["shop-a"][v1beta1.KindContainerFailure]
		injection.Effect = &v1beta1.Effect{State: v1beta1.EffectProven, Since: measured}
		s.d.Status.TargetInjections["shop-a"][v1beta1.KindContainerFailure] = injection
		s.chaos[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(measured.Add(after))}}
		return observe(s.snapshot())
	}
	if atFirst, again := ready(4*time.Second), ready(10*time.Second); atFirst.Unready != 0 || again.Unready != 1 || atFirst.Hash == again.Hash {
		t.Errorf("observe = %+v of one that became ready after its effect was measured, and %+v of one that did again", atFirst, again)
	}
	for name, change := range map[string]func(){
		"not all was injected yet":      func() { s.d.Status.InjectionStatus = v1beta1.PartiallyInjected },
		"this one was never injected":   func() { s.d.Status.TargetInjections = nil },
		"the disruption is being ended": func() { s.d.Status.Phase = v1beta1.PhaseCleaning },
	} {
		s = holding()
		s.d.Status.InjectionStatus = v1beta1.Injected
		unready(s, 1)
		change()
		if got := observe(s.snapshot()); got.Unready != 0 {
			t.Errorf("%s: observe = %+v, want nothing of readiness", name, got)
		}
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
		// rule 10
		{"labels and annotations of the disruption", nil, func(s *scene) { s.d.Labels = map[string]string{"a": "b"}; s.d.Annotations = s.d.Labels }},
		{"times and counts in status", nil, func(s *scene) { s.d.Status.InjectedTime = &now; s.d.Status.InjectedTargetsCount = 1 }},
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
			if after := observe(s.snapshot()); !reflect.DeepEqual(after, before) {
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
		// rule 39
		{"the chosen one not ready: it stays", func(s *scene) { s.nodes[0].Status.Conditions[0].Status = corev1.ConditionUnknown }, 0, 1},
		{"the chosen one being deleted", func(s *scene) { s.nodes[0].DeletionTimestamp = &metav1.Time{} }, 1, 1},
		{"the other of another system", func(s *scene) { s.nodes[1].Labels["kubernetes.io/os"] = "windows" }, 0, 1},
		{"the chosen one gone", func(s *scene) { s.nodes = s.nodes[1:] }, 1, 1},
		{"the other without its label", func(s *scene) { s.nodes[1].Labels = nil }, 0, 1},
		{"the chosen one without its annotation", func(s *scene) {
			s.d.Spec.Filter = &v1beta1.DisruptionFilter{Annotations: map[string]string{"yes": "true"}}
		}, 1, 0},
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
	for name, change := range map[string]func(*corev1.Pod){
		"failed":              func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"without its label":   func(p *corev1.Pod) { p.Labels = nil },
		"with another UID":    func(p *corev1.Pod) { p.UID = "uid-other" },
		"about to be deleted": func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
	} {
		s := holding()
		s.d.Spec.StaticTargeting = true
		before := observe(s.snapshot())
		change(&s.pods[0])
		if after := observe(s.snapshot()); after.Hash == before.Hash || after.TargetsLost != 1 {
			t.Errorf("%s: observe = %+v, before %+v", name, after, before)
		}
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

// For a disruption with onInit a pod is a change when it begins to wait. That it was
// chosen, released and started is none.
func TestObservePodsThatWait(t *testing.T) {
	state := func(p *corev1.Pod, phase corev1.PodPhase, init corev1.ContainerState) {
		p.Status.Phase = phase
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: v1beta1.OnInitContainer, State: init}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	s := holding()
	s.d.Spec.OnInit = true
	s.d.Status.SpecHash = s.d.Spec.Hash()
	for i := range s.pods {
		state(&s.pods[i], corev1.PodPending, corev1.ContainerState{})
	}
	state(&s.pods[0], corev1.PodPending, runs) // the chosen one
	chosen := observe(s.snapshot())
	if chosen.Candidates != 1 || chosen.TargetsLost != 0 {
		t.Fatalf("observe = %+v, want one candidate and nothing lost", chosen)
	}
	for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning} {
		state(&s.pods[0], phase, ended)
		if got := observe(s.snapshot()); !reflect.DeepEqual(got, chosen) {
			t.Errorf("let go and %s: observe = %+v, before %+v", phase, got, chosen)
		}
	}
	state(&s.pods[1], corev1.PodPending, runs)
	if got := observe(s.snapshot()); got.Candidates != 2 || got.Hash == chosen.Hash {
		t.Errorf("another one waits: observe = %+v", got)
	}
	state(&s.pods[1], corev1.PodRunning, ended)
	if got := observe(s.snapshot()); got.Candidates != 1 {
		t.Errorf("it started without being chosen: observe = %+v", got)
	}
	s.pods[0].DeletionTimestamp = &metav1.Time{}
	if got := observe(s.snapshot()); got.TargetsLost != 1 {
		t.Errorf("the chosen one is deleted: observe = %+v", got)
	}
}

// Ten times as many targets take some ten times as long, and not a hundred.
func TestTimeToObserveGrowsWithTheTargets(t *testing.T) {
	took := func(targets int) time.Duration {
		s := holding()
		for i := range targets {
			s.pods = append(s.pods, shopPod(string(rune('a'+i%26))+time.Duration(i).String()))
		}
		shortest := time.Hour
		for range 3 {
			began := time.Now()
			observe(s.snapshot())
			shortest = min(shortest, time.Since(began))
		}
		return shortest
	}
	few, many := took(1_000), took(10_000)
	if many > 40*few {
		t.Errorf("1,000 targets took %s, 10,000 took %s", few, many)
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

// Status counts the targets of a disruption that is too large for a list. This one has 600
// targets of two kinds; status lists the one that cannot be injected.
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
	t.Run("it is reported", func(t *testing.T) {
		before := large().snapshot()
		after := large().snapshot()
		after.missing = 2
		if a, b := observe(before), observe(after); a.Hash == b.Hash || b.Ended != a.Ended+2 {
			t.Errorf("observations = %+v and %+v, want two more ended", a, b)
		}
	})
}

// participating is a scene whose disruption is an operation on its target.
func participating() *scene {
	s := holding()
	s.d.UID = "u1"
	s.d.Spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{Policy: v1beta1.OperationsJoined}
	s.d.Status.SpecHash = s.d.Spec.Hash()
	for i := range s.pods {
		p := &s.pods[i]
		p.Labels = maps.Clone(p.Labels)
		p.Labels[podops.LabelManaged] = podops.ManagedValue
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: podops.ReadinessGate}}
		p.Status.Conditions = []corev1.PodCondition{{Type: podops.ReadinessGate, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return s
}

// The bridge observes each step of an operation, and that the operation loses the pod.
func TestObserveFollowsOperations(t *testing.T) {
	s := participating()
	id, target := podops.OfDisruption("u1").ID, &s.pods[0]
	seen := map[string]string{}
	change := func(step string) contract.Observation {
		t.Helper()
		got := observe(s.snapshot())
		if other, again := seen[got.Hash]; again {
			t.Errorf("%s looks like %s", step, other)
		}
		seen[got.Hash] = step
		return got
	}
	chaos := s.chaos
	s.chaos = nil
	s.d.Status.TargetInjections = nil
	if got := change("nothing is begun"); got.Operations != 0 || got.TargetsLost != 0 {
		t.Errorf("observe = %+v, want no operation", got)
	}
	target.Labels[podops.LabelOperating+"/"+id], target.Labels[podops.LabelOperationType+"/"+id] = "1", "chaos"
	if got := change("begun"); got.Operations != 1 || alreadyInStatus(s.d, got) {
		t.Errorf("observe = %+v, want it reported", got)
	}
	target.Labels[podops.LabelPreparing+"/"+id] = "1"
	change("preparing")
	delete(target.Labels, podops.LabelPreparing+"/"+id)
	target.Labels[podops.LabelOperate+"/"+id] = "1"
	change("given, and still ready")
	target.Status.Conditions[1].Status = corev1.ConditionFalse
	given := change("given")
	s.chaos = chaos
	if got := observe(s.snapshot()); got.TargetsLost != 0 || got.Hash != given.Hash {
		t.Errorf("observe = %+v beside its chaos pod, want nothing lost and nothing new", got)
	}
	delete(target.Labels, podops.LabelOperationType+"/"+id)
	if got := change("taken by its type"); got.TargetsLost != 1 {
		t.Errorf("observe = %+v without the label of the type, want the target lost", got)
	}
	delete(target.Labels, podops.LabelOperating+"/"+id)
	if got := change("taken"); got.TargetsLost != 1 {
		t.Errorf("observe = %+v, want the target lost", got)
	}
	s.d.Status.Phase = v1beta1.PhaseCleaning
	if !wantsObservations(s.d) {
		t.Error("it is informed of nothing while it is cleaned up")
	}
	if got := change("cleaned"); got.TargetsLost != 0 || got.Candidates != 0 || got.Operations != 1 {
		t.Errorf("observe = %+v while it is cleaned, want its operation, and nothing else", got)
	}
	target.Labels, target.Status.Conditions[1].Status = map[string]string{"app": "shop", podops.LabelManaged: podops.ManagedValue}, corev1.ConditionTrue
	change("given back")
	target.Labels[podops.LabelAvailable] = "1"
	change("in service")
}
