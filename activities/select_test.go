package activities

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apicluster"
	"github.com/squall-chaos/squall/test/apiserver"
)

// chosen are the UIDs of a disruption's targets.
func (c *testCluster) chosen(ref v1beta1.DisruptionRef) []types.UID {
	c.Helper()
	shards, err := c.Targets.Shards(c.Context(), ref)
	c.Must(err)
	var uids []types.UID
	for _, s := range shards {
		for _, target := range s.Targets {
			if target.Active() {
				uids = append(uids, target.UID)
			}
		}
	}
	slices.Sort(uids)
	return uids
}

func (c *testCluster) selectFor(name string, change func(*v1beta1.DisruptionSpec)) (v1beta1.DisruptionRef, targets.Selection) {
	c.Helper()
	ref := c.Disruption(name, change)
	do[prepare.Plan](c, c.Prepare, ref)
	return ref, do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref})
}

func all(spec *v1beta1.DisruptionSpec) {
	every := intstr.FromString("100%")
	spec.Count = &every
}

func TestSelectTargets(t *testing.T) {
	t.Run("no pod of a node that is not ready", func(t *testing.T) {
		c := newCluster(t)
		n := c.WithNodes("select-gone")
		node, err := c.Client.CoreV1().Nodes().Get(t.Context(), "select-gone", metav1.GetOptions{})
		c.Must(err)
		pod, err := c.Client.CoreV1().Pods(c.Shop).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "main", Image: "i"}}},
		}, metav1.CreateOptions{})
		c.Must(err)
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ContainerID: "containerd://abc", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
		}
		_, err = c.Client.CoreV1().Pods(c.Shop).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		c.Must(err)
		n.SetReady(node, corev1.ConditionUnknown)
		ref, got := c.selectFor("calm", all)
		if got.Matching != 0 || got.Selected != 0 {
			t.Errorf("selection = %+v while the node is not ready, want nothing", got)
		}
		n.SetReady(node, corev1.ConditionTrue) // the pod's readiness follows later
		if got := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}); got.Selected != 1 {
			t.Errorf("selection = %+v once the node is ready", got)
		}
	})
	t.Run("two of five different pods of the namespace that match", func(t *testing.T) {
		c := newCluster(t)
		pods := c.MakeTargets(5, nil)
		c.MakeTargets(2, map[string]string{"app": "other"})
		ref, selection := c.selectFor("calm", nil)
		got := c.chosen(ref)
		// rule 13
		if len(got) != 2 || got[0] == got[1] || selection.Selected != 2 || selection.Matching != 5 {
			t.Errorf("chose %v of %d, want two different of 5", got, selection.Matching)
		}
		for _, uid := range got {
			if !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid }) { // rule 11
				t.Errorf("chose %s, which does not match", uid)
			}
		}
		status := c.Get(ref).Status
		// rule 20
		if len(status.TargetInjections) != 2 || status.SelectedTargetsCount != 2 || status.DesiredTargetsCount != 2 || status.IgnoredTargetsCount != 3 {
			t.Errorf("status = %+v, want the two targets listed", status)
		}
	})
	t.Run("pods of another namespace, not running or ending are no targets", func(t *testing.T) {
		c := newCluster(t)
		pods := c.MakeTargets(3, nil)
		pods[0].Status.Phase = corev1.PodSucceeded
		_, err := c.Kube.CoreV1().Pods(c.Shop).UpdateStatus(t.Context(), pods[0], metav1.UpdateOptions{})
		c.Must(err)
		c.Must(c.Kube.CoreV1().Pods(c.Shop).Delete(t.Context(), pods[1].Name, metav1.DeleteOptions{}))
		elsewhere := newCluster(t)
		elsewhere.MakeTargets(2, nil)
		ref, _ := c.selectFor("calm", all)
		if got := c.chosen(ref); !cmp.Equal(got, []types.UID{pods[2].UID}) { // rule 11
			t.Errorf("chose %v, want only %s", got, pods[2].UID)
		}
	})
	t.Run("a pod none of whose containers runs is no target, until one does", func(t *testing.T) {
		c := newCluster(t)
		crashes := c.MakeTargets(1, nil)[0]
		becomes := func(state corev1.ContainerState) {
			crashes.Status.ContainerStatuses[0].State = state
			var err error
			crashes, err = c.Kube.CoreV1().Pods(c.Shop).UpdateStatus(t.Context(), crashes, metav1.UpdateOptions{})
			c.Must(err)
		}
		becomes(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
		for name, containers := range map[string][]string{"any": nil, "named": {"main"}} {
			ref, selection := c.selectFor(name, func(spec *v1beta1.DisruptionSpec) { spec.Containers = containers })
			if selection.Matching != 0 || selection.Selected != 0 || selection.Invalid != "" {
				t.Errorf("%s container: %+v, want no candidate", name, selection)
			}
			becomes(injectorRuns)
			if selection = do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}); selection.Selected != 1 {
				t.Errorf("%s container: %+v, want it chosen once it runs", name, selection)
			}
			c.Must(c.Targets.DeleteRecords(t.Context(), ref))
			becomes(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
		}
	})
	t.Run("level node: ready nodes that match", func(t *testing.T) {
		c := newCluster(t)
		label := map[string]string{"pool": c.Shop}
		var ready *corev1.Node
		for name, status := range map[string]corev1.ConditionStatus{"ready": corev1.ConditionTrue, "down": corev1.ConditionFalse} {
			node, err := c.Kube.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: name, Labels: label}}, metav1.CreateOptions{})
			c.Must(err)
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
			node, err = c.Kube.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
			c.Must(err)
			if status == corev1.ConditionTrue {
				ready = node
			}
		}
		ref, _ := c.selectFor("calm", func(spec *v1beta1.DisruptionSpec) { spec.Level, spec.Selector = v1beta1.LevelNode, label })
		if got := c.chosen(ref); !cmp.Equal(got, []types.UID{ready.UID}) { // rule 12
			t.Errorf("chose %v, want node %s", got, ready.Name)
		}
	})
	t.Run("count above the matching: all of them", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(3, nil)
		ref, _ := c.selectFor("calm", func(spec *v1beta1.DisruptionSpec) { many := intstr.FromInt32(9); spec.Count = &many })
		if got := c.chosen(ref); len(got) != 3 { // rule 17
			t.Errorf("chose %d, want all 3", len(got))
		}
	})
	t.Run("asked again, it tops up and answers with every new shard", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref, first := c.selectFor("calm", nil)
		c.MakeTargets(1, nil)
		second := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1, Run: 1})
		again := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1, Run: 1})
		if !cmp.Equal(first.Added, []int{0}) || !cmp.Equal(second.Added, []int{1}) || !cmp.Equal(again.Added, []int{1}) || again.Selected != 2 {
			t.Errorf("added %v, %v, then %v; want 0, 1 and, for a lost answer, 1 again", first.Added, second.Added, again.Added)
		}
	})
	t.Run("a container that no pod has: said so, nothing chosen", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(2, nil)
		ref, selection := c.selectFor("calm", func(spec *v1beta1.DisruptionSpec) { spec.Containers = []string{"sidecar"} })
		if selection.Selected != 0 || !strings.Contains(selection.Invalid, `container "sidecar"`) {
			t.Errorf("selection = %+v, want none with the container named", selection)
		}
		c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, `container "sidecar"`)
		if len(c.EventsOf("InvalidSpec")) != 1 {
			t.Error("want one InvalidSpec event")
		}
	})
	t.Run("nothing matches: condition and event say so", func(t *testing.T) {
		c := newCluster(t)
		ref, _ := c.selectFor("calm", nil)
		c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "no healthy pod")
		if len(c.EventsOf("NoTargetsFound")) != 1 {
			t.Error("want one NoTargetsFound event")
		}
	})
	t.Run("a list that fails is an error, never an empty choice", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(2, nil)
		ref, _ := c.selectFor("calm", nil)
		c.Targets.Kube = brokenPodLists(c)
		if _, err := c.env.ExecuteActivity(c.SelectTargets, choose.Input{Disruption: ref}); err == nil || !strings.Contains(err.Error(), "list pods") {
			t.Errorf("error = %v, want the failed list", err)
		}
		if got := c.chosen(ref); len(got) != 2 {
			t.Errorf("%d targets are held, want the 2 there were", len(got))
		}
	})
}

func TestSelectionIsRandom(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(5, nil)
	seen := map[types.UID]bool{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		ref, _ := c.selectFor("calm-"+name, func(spec *v1beta1.DisruptionSpec) { one := intstr.FromInt32(1); spec.Count = &one })
		for _, uid := range c.chosen(ref) {
			seen[uid] = true
		}
		c.Must(c.Targets.DeleteRecords(t.Context(), ref))
	}
	if len(seen) < 2 { // rule 16; twelve equal choices of five: once in 5^11
		t.Errorf("twelve runs chose %v", slices.Collect(maps.Keys(seen)))
	}
}

func TestTargetsAreNeverShared(t *testing.T) {
	t.Run("ten disruptions that start together", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(20, nil)
		refs := make([]v1beta1.DisruptionRef, 10)
		for i := range refs {
			refs[i] = c.Disruption("calm-"+string(rune('a'+i)), func(spec *v1beta1.DisruptionSpec) { three := intstr.FromInt32(3); spec.Count = &three })
			do[prepare.Plan](c, c.Prepare, refs[i])
		}
		var all sync.WaitGroup
		for _, ref := range refs {
			all.Go(func() {
				if _, err := c.NewWorker(c.Activities).ExecuteActivity(c.SelectTargets, choose.Input{Disruption: ref}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		holder := map[types.UID]string{}
		for _, ref := range refs {
			for _, uid := range c.chosen(ref) {
				if other := holder[uid]; other != "" { // rule 19
					t.Errorf("target %s is held by %s and %s", uid, other, ref.Name)
				}
				holder[uid] = ref.Name
			}
		}
		if len(holder) != 20 {
			t.Errorf("%d targets are held, want all 20", len(holder))
		}
	})
	t.Run("allowDisruptedTargets shares with other kinds only", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(2, nil)
		c.selectFor("first", nil)
		same, refused := c.selectFor("same", func(spec *v1beta1.DisruptionSpec) { spec.AllowDisruptedTargets = true })
		other, _ := c.selectFor("other", func(spec *v1beta1.DisruptionSpec) {
			spec.AllowDisruptedTargets = true
			spec.Faults = v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 10}}
		})
		if len(c.chosen(same)) != 0 || len(c.chosen(other)) != 2 {
			t.Errorf("same kind took %d, another kind %d; want 0 and 2", len(c.chosen(same)), len(c.chosen(other)))
		}
		if want := "/first (" + string(v1beta1.KindCPUPressure) + "): the same kind is never on a target twice"; !strings.Contains(refused.Held, want) {
			t.Errorf("told %q, want %q", refused.Held, want)
		}
	})
	t.Run("a released target is not chosen again by the same, but by another", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		pod := c.ChaosPodsOf(ref)[0]
		c.Becomes(pod, corev1.PodSucceeded, apicluster.Exited(0, "Completed", ""), corev1.ConditionFalse)
		do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: 5 * time.Second})
		// rule 18
		if again := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); len(again.Added) != 0 || again.Selected != 0 {
			t.Errorf("chosen again: %+v", again)
		}
		if other, _ := c.selectFor("other", nil); len(c.chosen(other)) != 1 {
			t.Error("another disruption could not take it")
		}
	})
}

// rule P8: targets that are gone before the injection are replaced by others and no longer
// belong to the disruption.
func TestTargetsThatWaitAreReplaced(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(4, nil)
	two := func(spec *v1beta1.DisruptionSpec) {
		count := intstr.FromInt32(2)
		spec.Count, spec.SteadyState = &count, &v1beta1.SteadyState{Probes: []v1beta1.Probe{{
			Name: "ready", ProbeHandler: v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{Selector: map[string]string{"app": "web"}}},
		}}}
	}
	ref, first := c.selectFor("calm", two)
	if phase := c.Get(ref).Status.Phase; first.Selected != 2 || phase != v1beta1.PhaseSelecting {
		t.Fatalf("selected %+v, phase %s; want 2 that wait", first, phase)
	}
	before := c.chosen(ref)
	shard, err := c.Targets.Shard(t.Context(), ref, 0)
	c.Must(err)
	gone := shard.Targets[0]
	none := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	c.Must(c.Kube.CoreV1().Pods(c.Shop).Delete(t.Context(), gone.Name, none))
	again := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1, Waiting: true})
	if again.Selected != 2 || !slices.Equal(again.Added, []int{1}) {
		t.Errorf("selected %+v, want one more in a shard of its own", again)
	}
	now := c.chosen(ref)
	stayed := slices.ContainsFunc(now, func(uid types.UID) bool { return slices.Contains(before, uid) })
	if len(now) != 2 || slices.Contains(now, gone.UID) || !stayed {
		t.Errorf("targets %v, were %v, and %s is gone", now, before, gone.UID)
	}
	c.wantEvent("TargetLost", gone.Name)
	same := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 2, Waiting: true})
	if status := c.Get(ref).Status; same.Selected != 2 || len(same.Added) != 0 || status.RunCount != 1 {
		t.Errorf("selected %+v, run %d; want all to stay, and the first run", same, status.RunCount)
	}
	if plain := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 2, Run: 1}); plain.Selected != 2 {
		t.Errorf("selected %+v, want what is there", plain)
	}
}

// The control group is chosen once, together with the targets, and is never a target.
func TestTheControlGroupIsNeverChosen(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(5, nil)
	control := func(n int) func(*v1beta1.DisruptionSpec) {
		return func(spec *v1beta1.DisruptionSpec) {
			two, group := intstr.FromInt32(2), intstr.FromInt(n)
			spec.Count = &two
			spec.SteadyState = &v1beta1.SteadyState{ControlGroup: &group, Probes: []v1beta1.Probe{{
				Name: "web", Scope: v1beta1.ProbePerTarget, ProbeHandler: v1beta1.ProbeHandler{TCPSocket: &v1beta1.TCPSocketProbe{Port: intstr.FromInt32(80)}},
			}}}
		}
	}
	ref, selection := c.selectFor("compared", control(2))
	if selection.Selected != 2 || selection.Control == nil || *selection.Control != (targets.ControlCount{Wanted: 2, Chosen: 2}) {
		t.Fatalf("selected %+v, want two targets and two beside them", selection)
	}
	group, err := c.Targets.LoadControl(t.Context(), ref)
	c.Must(err)
	// A former target cannot be chosen again, so only the control group is left in the end.
	for shard := range 3 {
		_, err := c.Targets.End(t.Context(), ref, shard, fmt.Sprint(shard), func(targets.Target) targets.Ending { return targets.Ending{Why: "over"} })
		if shard < 2 {
			c.Must(err)
		}
		selection = do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: shard + 1, Run: shard + 1})
		for _, uid := range c.chosen(ref) {
			for _, pod := range group.Pods {
				if pod.UID == uid {
					t.Errorf("%s is in the control group and was chosen", pod.Name)
				}
			}
		}
	}
	if selection.Selected != 0 || selection.Control.Chosen != 2 {
		t.Errorf("selected %+v, want no target more and the same control group", selection)
	}
	again, err := c.Targets.LoadControl(t.Context(), ref)
	c.Must(err)
	if diff := cmp.Diff(group, again); diff != "" {
		t.Errorf("the control group changed (-was +is):\n%s", diff)
	}
	c.Must(c.Targets.DeleteRecords(t.Context(), ref))
	if gone, err := c.Targets.LoadControl(t.Context(), ref); err != nil || gone != nil {
		t.Errorf("after its records were deleted: %v, %v", gone, err)
	}
}

// rule 18: a target is used up only by an injection.
func TestATargetThatWasNeverInjectedIsChosenAgain(t *testing.T) {
	const refused = `{"cleaned":true,"error":"container abc is gone"}`
	c := newCluster(t)
	pods := c.MakeTargets(1, nil)
	ref := c.started("calm", nil)
	c.kubelet(ref, map[string]int32{"node-0": 0})
	for try := 1; try <= 3; try++ {
		pod := c.ChaosPodsOf(ref)[0]
		var injection v1beta1.Injection
		c.Must(json.Unmarshal([]byte(pod.Spec.Containers[0].Env[0].Value), &injection))
		if want := fmt.Sprint("abc", strings.Repeat("c", try-1)); injection.Target.Containers[0].ID != want {
			t.Errorf("try %d is for container %s, want %s, which runs now", try, injection.Target.Containers[0].ID, want)
		}
		c.Becomes(pod, corev1.PodFailed, apicluster.Exited(2, "Error", refused), corev1.ConditionFalse)
		live, err := c.Kube.CoreV1().Pods(c.Shop).Get(t.Context(), pods[0].Name, metav1.GetOptions{})
		c.Must(err)
		live.Status.ContainerStatuses[0].ContainerID += "c"
		_, err = c.Kube.CoreV1().Pods(c.Shop).UpdateStatus(t.Context(), live, metav1.UpdateOptions{})
		c.Must(err)
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: try - 1}, OnlyEnded: true, Patience: 5 * time.Second})
		if cleaned.Lost != 1 || cleaned.Remaining != 0 {
			t.Fatalf("try %d: cleaned = %+v, want the target let go", try, cleaned)
		}
		selected := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: try, Run: try})
		if again := len(selected.Added) == 1 && selected.Selected == 1; again != (try < 3) {
			t.Fatalf("after try %d: %+v, want it chosen three times at once and not more", try, selected)
		}
		if pause := selected.RetryAt != nil; pause != (try == 3) || pause && !strings.Contains(selected.String(), pods[0].Name) {
			t.Errorf("after try %d: %+v, want the time of the next attempt after the third", try, selected)
		}
		if try < 3 {
			do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: try}})
		}
	}
	shard, err := c.Targets.Shard(t.Context(), ref, 2)
	c.Must(err)
	last := &shard.Targets[0]
	if !last.Again || last.EndedAt == nil || !strings.Contains(last.Ended, "container abc is gone") {
		t.Fatalf("the record says %+v, want why and when it ended", *last)
	}
	early := metav1.NewTime(last.EndedAt.Add(-time.Minute))
	last.EndedAt = &early
	c.Must(c.Targets.Write(t.Context(), &shard))
	if selected := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 3, Run: 3}); len(selected.Added) != 1 || selected.RetryAt != nil {
		t.Errorf("after the pause: %+v, want it chosen once more", selected)
	}
	if events := c.EventsOf("TargetNotInjected"); len(events) != 3 {
		t.Errorf("%d events, want one for each try", len(events))
	}
}

// A kubelet rejects chaos pods while its node is full: the target is chosen again, after
// the third time with a pause, and status has the kubelet's words.
func TestAChaosPodThatItsKubeletRejectsIsTriedAgain(t *testing.T) {
	for reason, message := range map[string]string{
		"OutOfcpu":    "Pod was rejected: Node didn't have enough resource: cpu, requested: 50, used: 3990, capacity: 4000",
		"OutOfmemory": "Pod was rejected: Node didn't have enough resource: memory, requested: 1, used: 2, capacity: 2",
		"OutOfpods":   "Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
	} {
		t.Run(reason, func(t *testing.T) {
			c := newCluster(t)
			pods := c.MakeTargets(1, nil)
			ref := c.started("calm", nil)
			var selected targets.Selection
			for try := range 3 {
				pod := c.ChaosPodsOf(ref)[0]
				pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: message}
				_, err := c.Kube.CoreV1().Pods(c.Chaos).UpdateStatus(t.Context(), &pod, metav1.UpdateOptions{})
				c.Must(err)
				cleans := clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Runs: try + 1, Patience: 5 * time.Second}
				if cleaned := do[clean.Result](c, c.CleanChaosPods, cleans); cleaned.Lost != 1 || cleaned.Remaining != 0 {
					t.Fatalf("try %d: cleaned = %+v, want the target ended and nothing left", try, cleaned)
				}
				selected = do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1, Run: try + 1, Fill: true})
				if chosen := len(selected.Added) == 1; chosen != (try < 2) {
					t.Fatalf("after try %d: %+v, want the target chosen again at once twice", try, selected)
				}
				if try < 2 {
					do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Run: selected.Run})
				}
			}
			if pause := time.Until(*selected.RetryAt); pause <= 0 || pause > 15*time.Second {
				t.Errorf("the next attempt is in %s, want at most 15s", pause)
			}
			text := reason + ": " + strings.TrimPrefix(message, "Pod was rejected: ")
			c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, text)
			c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "rejected pod")
			if events := c.EventsOf("TargetNotInjected"); len(events) != 3 || !strings.Contains(events[0].Message, pods[0].Name) {
				t.Errorf("events %+v, want one for each of three tries", events)
			}
		})
	}
}

// brokenPodLists is a client whose lists of pods fail with an error of the API server.
func brokenPodLists(c *testCluster) kubernetes.Interface {
	config := apiserver.Start(c.T)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/namespaces/"+c.Shop+"/pods") {
				return nil, http.ErrServerClosed
			}
			return next.RoundTrip(r)
		})
	})
	return kubernetes.NewForConfigOrDie(rest.CopyConfig(config))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// rule S11: a fault that kills its targets does not spread to a whole workload, one pod
// after the other.
func TestNoMoreLostTargetsAreReplacedThanAskedFor(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(6, nil)
	ref := c.started("deadly", func(spec *v1beta1.DisruptionSpec) { two := intstr.FromInt32(2); spec.Count = &two })
	now := int64(0)
	for range 6 {
		for _, pod := range c.ChaosPodsOf(ref) {
			c.removes(&pod) // its injector cleaned, as the target went
		}
		shards, err := c.Targets.Shards(t.Context(), ref)
		c.Must(err)
		for _, target := range targets.Active(shards) {
			c.Must(c.Kube.CoreV1().Pods(c.Shop).Delete(t.Context(), target.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		}
		for number := range shards {
			do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: number}, OnlyEnded: true, Patience: time.Minute})
		}
		for _, number := range do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: len(shards)}).Added {
			do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: number}})
		}
	}
	left, err := c.Kube.CoreV1().Pods(c.Shop).List(t.Context(), metav1.ListOptions{})
	c.Must(err)
	if len(left.Items) != 2 {
		t.Errorf("%d of 6 pods are left, want the 2 beside two targets and their two successors", len(left.Items))
	}
	c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "not replaced (maxLostTargets)")
	c.wantEvent("TooManyTargetsLost", "4 targets were lost")
}

// N4: targets that are chosen later fill the places of earlier ones, and only they get
// chaos pods. A late attempt of an earlier cleaning does not end them.
func TestTargetsChosenLaterFillPlaces(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	ref := c.started("churn", func(spec *v1beta1.DisruptionSpec) {
		two, many := intstr.FromInt32(2), 1000
		spec.Count, spec.MaxLostTargets = &two, &many
	})
	pod := c.ChaosPodsOf(ref)[0]
	c.removes(&pod) // its injector cleaned, as the target went
	now := int64(0)
	c.Must(c.Kube.CoreV1().Pods(c.Shop).Delete(t.Context(), chaospod.TargetName(&pod), metav1.DeleteOptions{GracePeriodSeconds: &now}))
	cleans := clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Runs: 1, Patience: time.Minute}
	if cleaned := do[clean.Result](c, c.CleanChaosPods, cleans); cleaned.Lost != 1 {
		t.Fatalf("cleaned = %+v, want one target lost", cleaned)
	}
	c.MakeTargets(1, nil)
	selected := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1, Run: 1, Fill: true})
	if !cmp.Equal(selected.Added, []int{0}) || selected.Shards != 1 || selected.Selected != 2 {
		t.Fatalf("selection = %+v, want a place of shard 0 filled", selected)
	}
	if cleaned := do[clean.Result](c, c.CleanChaosPods, cleans); cleaned.Lost != 0 || len(c.chosen(ref)) != 2 {
		t.Errorf("a cleaning of before ended %d targets, want none of those that were chosen since", cleaned.Lost)
	}
	created := do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Run: selected.Run, Version: selected.VersionOf(0)})
	if created.Pods != 1 || len(c.ChaosPodsOf(ref)) != 2 {
		t.Errorf("%d chaos pods were created, and there are %d; want one for the target that was chosen now, and two", created.Pods, len(c.ChaosPodsOf(ref)))
	}
}
