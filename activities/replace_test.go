package activities

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/replace"
	"github.com/squall-chaos/squall/activities/replacement"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/activities/verify"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/deploy"
	"github.com/squall-chaos/squall/test/apiserver"
)

// controller is the owner of a test's pods, as a controller of this kind would set it.
func controller(kind string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "web", UID: types.UID("uid-of-" + kind), Controller: &yes}}
}

// makeNode makes a node that has no pods of other tests.
func (c *testCluster) makeNode(change func(*corev1.Node)) string {
	c.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "replace-"}}
	if change != nil {
		change(node)
	}
	node, err := c.Kube.CoreV1().Nodes().Create(c.Context(), node, metav1.CreateOptions{})
	c.Must(err)
	c.Cleanup(func() { _ = c.Client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	return node.Name
}

func (c *testCluster) readNode(name string) *corev1.Node {
	c.Helper()
	node, err := c.Client.CoreV1().Nodes().Get(c.Context(), name, metav1.GetOptions{})
	c.Must(err)
	return node
}

// wantCordon wants a node to be cordoned or not, with this number of disruptions' marks.
func (c *testCluster) wantCordon(name string, cordoned bool, marks int) {
	c.Helper()
	node := c.readNode(name)
	if got := len(replacement.Marks(node)); node.Spec.Unschedulable != cordoned || got != marks {
		c.Errorf("node %s: cordoned = %t with %d marks, want %t with %d", name, node.Spec.Unschedulable, got, cordoned, marks)
	}
}

// makePod makes a running pod of a ReplicaSet on a node.
func (c *testCluster) makePod(node string, change func(*corev1.Pod)) *corev1.Pod {
	c.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Namespace: c.Shop, Labels: map[string]string{"app": "web"}, OwnerReferences: controller("ReplicaSet")},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "i"}}},
	}
	if change != nil {
		change(pod)
	}
	pod, err := c.Client.CoreV1().Pods(c.Shop).Create(c.Context(), pod, metav1.CreateOptions{})
	c.Must(err)
	pod.Status.Phase = corev1.PodRunning
	pod, err = c.Client.CoreV1().Pods(c.Shop).UpdateStatus(c.Context(), pod, metav1.UpdateOptions{})
	c.Must(err)
	return pod
}

func mounting(claim string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}}}
	}
}

func (c *testCluster) makeClaim(name string) {
	c.Helper()
	_, err := c.Client.CoreV1().PersistentVolumeClaims(c.Shop).Create(c.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	c.Must(err)
}

// claimStays is true if a claim exists and is not being deleted.
func (c *testCluster) claimStays(name string) bool {
	c.Helper()
	claim, err := c.Client.CoreV1().PersistentVolumeClaims(c.Shop).Get(c.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false
	}
	c.Must(err)
	return claim.DeletionTimestamp == nil
}

// plays ends pods that are being deleted, as their kubelet does. It then calls ended, which
// may act as their controller.
func (c *testCluster) plays(ended func(pod *corev1.Pod)) {
	ctx, stop := context.WithCancel(c.Context())
	over := make(chan struct{})
	c.Cleanup(func() { stop(); <-over })
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			pods, err := c.Client.CoreV1().Pods(c.Shop).List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for i := range pods.Items {
				pod, now := &pods.Items[i], int64(0)
				if pod.DeletionTimestamp == nil || len(pod.Finalizers) > 0 {
					continue
				}
				options := metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
				if c.Client.CoreV1().Pods(c.Shop).Delete(ctx, pod.Name, options) == nil && ended != nil {
					ended(pod)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
}

// replaces is a spec that replaces all pods that match.
func replaces(change func(*v1beta1.PodReplacement)) func(*v1beta1.DisruptionSpec) {
	return func(spec *v1beta1.DisruptionSpec) {
		every, yes := intstr.FromString("100%"), true
		spec.Count = &every
		spec.Faults = v1beta1.Faults{PodReplacement: &v1beta1.PodReplacement{DeleteStorage: &yes}}
		if change != nil {
			change(spec.PodReplacement)
		}
	}
}

func quickly(c *testCluster) *testCluster {
	c.GonePatience, c.SuccessorPatience = time.Nanosecond, time.Nanosecond
	return c
}

func TestReplacePods(t *testing.T) {
	c := newCluster(t)
	busy, spare := c.makeNode(nil), c.makeNode(nil)
	old := []*corev1.Pod{c.makePod(busy, nil), c.makePod(busy, nil)}
	var during []corev1.Node
	c.plays(func(pod *corev1.Pod) {
		during = append(during, *c.readNode(busy)) // what the scheduler sees now
		c.makePod(spare, nil)
	})
	ref, selection := c.selectFor("moving", replaces(nil))
	if selection.Selected != 2 {
		t.Fatalf("selection = %+v, want both pods", selection)
	}
	if got := do[replace.Result](c, c.ReplacePods, ref); got != (replace.Result{Replaced: 2, Total: 2}) {
		t.Errorf("ReplacePods() = %+v, want 2 of 2 replaced", got)
	}
	if len(during) != 2 {
		t.Fatalf("%d pods ended, want 2", len(during))
	}
	for _, node := range during {
		if marks := replacement.Marks(&node); !node.Spec.Unschedulable || len(marks) != 1 || marks[0] != ref {
			t.Errorf("as a pod ended its node was cordoned = %t with the marks %v, want it cordoned by %v", node.Spec.Unschedulable, marks, ref)
		}
	}
	c.wantCordon(busy, false, 0)
	shown := c.Get(ref).Status
	// rule 30
	if shown.InjectionStatus != v1beta1.Injected || shown.Targets != "2/2" || shown.Phase != v1beta1.PhaseHolding {
		t.Errorf("status = %s %s in phase %s, want Injected 2/2 in Holding", shown.InjectionStatus, shown.Targets, shown.Phase)
	}
	for _, pod := range old {
		injection := shown.TargetInjections[pod.Name][v1beta1.KindPodReplacement]
		if injection.InjectionStatus != v1beta1.Injected || injection.TargetUID != pod.UID || injection.Since == nil || injection.InjectorPodName != "" {
			t.Errorf("target %s: %+v, want it replaced, by no chaos pod", pod.Name, injection)
		}
		if injection.Effect == nil || injection.Effect.State != v1beta1.EffectProven { // rule E1
			t.Errorf("target %s: effect %+v, want it proven", pod.Name, injection.Effect)
		}
	}
	c.WantCondition(ref, v1beta1.ConditionEffectVerified, metav1.ConditionTrue, "2 of 2")
	if events := c.EventsOf("Replaced"); len(events) != 3 { // rule 21: each target, and the disruption
		t.Errorf("%d events Replaced, want one on each pod and one on the disruption: %v", len(events), events)
	}
	if pods := c.ChaosPodsOf(ref); len(pods) != 0 {
		t.Errorf("%d chaos pods, want none", len(pods))
	}

	// rule 18
	t.Run("called again, and asked for more targets: the new pods stay", func(t *testing.T) {
		selection := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1, Run: 1})
		if len(selection.Added) != 0 || selection.Selected != 2 {
			t.Errorf("selection = %+v, want nothing added", selection)
		}
		do[replace.Result](c, c.ReplacePods, ref)
		do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true})
		if len(during) != 2 || len(c.chosen(ref)) != 2 {
			t.Errorf("%d pods ended and %d are targets, want 2 of each for good", len(during), len(c.chosen(ref)))
		}
	})
	t.Run("it ends", func(t *testing.T) {
		if cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}}); cleaned.Remaining != 0 || len(cleaned.UnverifiedNodes) != 0 {
			t.Errorf("cleaned = %+v, want nothing left", cleaned)
		}
		if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref, Ending: v1beta1.EndingExpired}); left != 0 {
			t.Errorf("%d left", left)
		}
		if d := c.Get(ref); d.Status.CleanedVerified == nil || !*d.Status.CleanedVerified || len(d.Finalizers) != 0 {
			t.Errorf("status = %+v with the finalizers %v, want it finished", d.Status, d.Finalizers)
		}
	})
}

// Nodes are cordoned one after the other, unless the worker's setting allows more. A node
// that an earlier attempt left cordoned comes first.
func TestNodesAreCordonedOneAfterTheOther(t *testing.T) {
	for _, limit := range []int{0, 2} {
		c := quickly(newCluster(t))
		c.GonePatience, c.CordonsAtOnce = time.Minute, limit
		var nodes []string
		for range 4 {
			nodes = append(nodes, c.makeNode(nil))
			c.makePod(nodes[len(nodes)-1], nil)
		}
		ref, _ := c.selectFor("moving", replaces(nil))
		left := nodes[3]
		c.Must(replacement.Cordons{Kube: c.Kube}.Cordon(t.Context(), left, ref))
		most := 0
		c.plays(func(pod *corev1.Pod) {
			cordoned, err := replacement.Cordons{Kube: c.Kube}.Of(t.Context(), ref.UID)
			if err != nil || len(cordoned) > max(limit, 1) || limit == 0 && most == 0 && pod.Spec.NodeName != left {
				t.Errorf("%v are cordoned as the pod of %s ends (%v), want %d at most, and %s first", cordoned, pod.Spec.NodeName, err, max(limit, 1), left)
			}
			most = max(most, len(cordoned))
		})
		if got := do[replace.Result](c, c.ReplacePods, ref); got.Replaced != 4 {
			t.Errorf("ReplacePods() = %+v, want 4 replaced", got)
		}
		for _, node := range nodes {
			c.wantCordon(node, false, 0)
		}
	}
}

// Disruptions cordon in turn, too. The status of a waiting disruption names the cordoned
// node and the disruption that cordoned it.
func TestDisruptionsCordonInTurn(t *testing.T) {
	c := newCluster(t)
	c.SuccessorPatience = time.Nanosecond
	var refs []v1beta1.DisruptionRef
	for i, app := range []string{"one", "two"} {
		c.makePod(c.makeNode(nil), func(pod *corev1.Pod) { pod.Labels["app"] = app })
		ref, chosen := c.selectFor(app, func(spec *v1beta1.DisruptionSpec) {
			replaces(nil)(spec)
			spec.Selector = map[string]string{"app": app}
		})
		if refs = append(refs, ref); chosen.Selected != 1 {
			t.Fatalf("disruption %d has %d targets, want 1", i, chosen.Selected)
		}
	}
	var replacing sync.WaitGroup
	for _, ref := range refs {
		worker := &testCluster{c.Cluster, c.Activities, c.NewWorker(c.Activities)}
		replacing.Go(func() {
			if got := do[replace.Result](worker, c.ReplacePods, ref); got.Replaced != 1 {
				t.Errorf("ReplacePods(%s) = %+v, want 1 replaced", ref.Name, got)
			}
		})
	}
	waits := func(ref v1beta1.DisruptionRef) string {
		for _, injection := range c.Get(ref).Status.TargetInjections {
			return injection[v1beta1.KindPodReplacement].Reason
		}
		return ""
	}
	marked := func(ref v1beta1.DisruptionRef) string {
		nodes, err := replacement.Cordons{Kube: c.Kube}.Of(t.Context(), ref.UID)
		c.Must(err)
		return strings.Join(nodes, " ")
	}
	// No pod ends yet, so one of the two keeps its node cordoned once both have looked.
	first, second := refs[0], refs[1]
	c.Eventually("one of the two cordons its node, and the other waits for that and names it", func() bool {
		first, second = second, first
		node := marked(first)
		return node != "" && marked(second) == "" && strings.Contains(waits(second), fmt.Sprintf("(%s by %s/%s)", node, first.Namespace, first.Name))
	})
	condition := meta.FindStatusCondition(c.Get(second).Status.Conditions, v1beta1.ConditionInjected)
	if condition == nil || condition.Reason != v1beta1.ReasonWaitingForCordon || !strings.Contains(condition.Message, "waits since ") {
		t.Errorf("%s has the condition %+v, want that it waits for the cordon, and since when", second.Name, condition)
	}
	c.plays(nil)
	replacing.Wait()
	for _, ref := range refs {
		if why := waits(ref); why != "" {
			t.Errorf("%s is replaced, and says %q", ref.Name, why)
		}
	}
}

// A second attempt keeps the time since which the targets wait for a cordon. It removes
// the reason as soon as it has cordoned their node.
func TestAWaitForACordonOutlivesItsAttempt(t *testing.T) {
	c := quickly(newCluster(t))
	c.GonePatience = time.Minute
	other, holder := c.makeNode(nil), v1beta1.DisruptionRef{Namespace: c.Shop, Name: "holder", UID: "holder"}
	c.Must(replacement.Cordons{Kube: c.Kube}.Cordon(t.Context(), other, holder))
	target := c.makePod(c.makeNode(nil), nil)
	ref, _ := c.selectFor("moving", replaces(nil))
	shards, err := c.Targets.Shards(t.Context(), ref)
	c.Must(err)
	began := metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
	shards[0].Targets[0].Replacement = &targets.Replacement{State: targets.Replacing, Since: began, Why: "waits for a node that is free now", WaitsSince: &began}
	c.Must(c.Targets.Write(t.Context(), &shards[0]))

	var replacing sync.WaitGroup
	replacing.Go(func() {
		if got := do[replace.Result](c, c.ReplacePods, ref); got.Replaced != 1 {
			t.Errorf("ReplacePods() = %+v, want 1 replaced", got)
		}
	})
	reason := func() string {
		return c.Get(ref).Status.TargetInjections[target.Name][v1beta1.KindPodReplacement].Reason
	}
	want := fmt.Sprintf("waits since 2026-11-30T12:00:00Z to cordon node %s: disruptions keep 1 of at most 1 nodes cordoned (%s by %s/holder)", target.Spec.NodeName, other, c.Shop)
	c.Eventually("the target waits since noon, for the node that is cordoned now", func() bool { return strings.HasPrefix(reason(), want) })
	c.Must(replacement.Cordons{Kube: c.Kube}.Uncordon(t.Context(), other, holder.UID))
	c.Eventually("the target no longer waits, before it is replaced", func() bool { return reason() == "" })
	if got := c.Get(ref).Status; got.InjectionStatus != v1beta1.NotInjected {
		t.Errorf("status = %+v, want the target not replaced yet", got)
	}
	c.plays(nil)
	replacing.Wait()
}

// status shows a pod that does not end as not replaced, next to pods that are replaced.
func TestAPodThatDoesNotEndIsReportedAndBlocksNothing(t *testing.T) {
	c := newCluster(t)
	c.GonePatience, c.SuccessorPatience = time.Second, time.Nanosecond
	held := c.makePod(c.makeNode(nil), func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/held"} })
	node := held.Spec.NodeName
	c.makePod(c.makeNode(nil), nil)
	c.plays(nil)
	no := int64(0)
	ref, _ := c.selectFor("moving", replaces(func(p *v1beta1.PodReplacement) { p.GracePeriodSeconds = &no }))
	if got := do[replace.Result](c, c.ReplacePods, ref); got.Replaced != 1 || got.Total != 2 {
		t.Errorf("ReplacePods() = %+v, want 1 of 2", got)
	}
	c.wantCordon(node, false, 0)
	status := c.Get(ref).Status
	// rules 29, 33
	if why := status.TargetInjections[held.Name][v1beta1.KindPodReplacement].Reason; status.InjectionStatus != v1beta1.PartiallyInjected || !strings.Contains(why, "finalizer") {
		t.Errorf("status is %s with %q, want PartiallyInjected and the finalizer named", status.InjectionStatus, why)
	}
	c.wantEvent("NotReplaced", held.Name, "finalizer")
	_, err := c.Client.CoreV1().Pods(c.Shop).Patch(t.Context(), held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	c.Must(err)
}

func TestGracePeriodOfAReplacedPod(t *testing.T) {
	five := int64(5)
	for _, test := range []struct {
		name   string
		change func(*v1beta1.PodReplacement)
		want   int64
	}{
		{"the pod's own", nil, 30},
		{"another one", func(p *v1beta1.PodReplacement) { p.GracePeriodSeconds = &five }, 5},
		{"forced: none, whatever else is asked for", func(p *v1beta1.PodReplacement) { p.GracePeriodSeconds, p.ForceDelete = &five, true }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := quickly(newCluster(t))
			var asked metav1.DeleteOptions
			pod := c.makePod(c.makeNode(nil), nil)
			ref, _ := c.selectFor("moving", replaces(test.change))
			c.through(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pods/"+pod.Name) {
					body, err := io.ReadAll(r.Body)
					c.Must(err)
					decoded, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &asked)
					c.Must(err)
					asked = *decoded.(*metav1.DeleteOptions)
					r.Body = io.NopCloser(bytes.NewReader(body))
				}
				return nil, nil
			})
			c.plays(nil)
			do[replace.Result](c, c.ReplacePods, ref)
			if asked.GracePeriodSeconds == nil || *asked.GracePeriodSeconds != test.want {
				t.Errorf("the grace period is %v s, want %d s", asked.GracePeriodSeconds, test.want)
			}
			if p := asked.Preconditions; p == nil || p.UID == nil || *p.UID != pod.UID || p.ResourceVersion == nil || *p.ResourceVersion != pod.ResourceVersion {
				t.Errorf("preconditions = %v, want exactly the pod that was read", asked.Preconditions)
			}
		})
	}
}

func TestStorageOfReplacedPods(t *testing.T) {
	for _, test := range []struct {
		name          string
		deleteStorage bool
		ownStays      bool
	}{
		{"deleteStorage: its own claim goes", true, false},
		{"no deleteStorage: every claim stays", false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := quickly(newCluster(t))
			for _, claim := range []string{"own", "shared", "others"} {
				c.makeClaim(claim)
			}
			pod := c.makePod(c.makeNode(nil), func(pod *corev1.Pod) {
				mounting("own")(pod)
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shared"}}})
			})
			c.makePod(c.makeNode(nil), func(pod *corev1.Pod) { mounting("shared")(pod); pod.Labels["app"] = "other" })
			c.plays(nil)
			ref, _ := c.selectFor("moving", replaces(func(p *v1beta1.PodReplacement) { p.DeleteStorage = &test.deleteStorage }))
			if got := do[replace.Result](c, c.ReplacePods, ref); got.Replaced != 1 {
				t.Errorf("ReplacePods() = %+v, want it replaced", got)
			}
			if stays := c.claimStays("own"); stays != test.ownStays {
				t.Errorf("the pod's own claim stays: %t, want %t", stays, test.ownStays)
			}
			if !c.claimStays("shared") || !c.claimStays("others") {
				t.Error("a claim that another pod mounts, or none, was deleted")
			}
			events := c.EventsOf("Replaced")
			i := slices.IndexFunc(events, func(e corev1.Event) bool { return e.InvolvedObject.UID == pod.UID })
			if i < 0 || strings.Contains(events[i].Message, "own") == test.ownStays {
				t.Errorf("the pod's event does not name its storage: %v", events)
			}
		})
	}
}

func TestPodsWithoutAReplacementAreNoTargets(t *testing.T) {
	for _, test := range []struct {
		name, message string
		change        func(*corev1.Pod)
	}{
		{"without a controller", "no controller", func(pod *corev1.Pod) { pod.OwnerReferences = nil }},
		{"of a DaemonSet", "DaemonSet web", func(pod *corev1.Pod) { pod.OwnerReferences = controller("DaemonSet") }},
		{"static", "static pod", func(pod *corev1.Pod) { pod.OwnerReferences = controller("Node") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			node := c.makeNode(nil)
			c.makePod(node, test.change)
			ref, selection := c.selectFor("moving", replaces(nil))
			if selection.Selected != 0 || !strings.Contains(selection.Invalid, test.message) {
				t.Errorf("selection = %+v, want none, and %q", selection, test.message)
			}
			c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, test.message)
			want := 1 // other fault types may have it
			if test.name == "static" {
				want = 0 // TestStaticPodsAreRefusedWithTheReason has the reason
			}
			if other, selection := c.selectFor("other", all); selection.Selected != want {
				t.Errorf("%s chose %d, want %d", other.Name, selection.Selected, want)
			}
		})
	}
	t.Run("beside one that somebody would: only that is chosen", func(t *testing.T) {
		c := newCluster(t)
		node := c.makeNode(nil)
		c.makePod(node, func(pod *corev1.Pod) { pod.OwnerReferences = nil })
		good := c.makePod(node, nil)
		ref, _ := c.selectFor("moving", replaces(nil))
		if got := c.chosen(ref); len(got) != 1 || got[0] != good.UID {
			t.Errorf("chose %v, want only %s", got, good.UID)
		}
	})
}

func TestACordonOfAnotherUserStays(t *testing.T) {
	c := quickly(newCluster(t))
	node := c.makeNode(func(n *corev1.Node) { n.Spec.Unschedulable = true })
	c.makePod(node, nil)
	c.plays(func(*corev1.Pod) { c.wantCordon(node, true, 0) })
	ref, _ := c.selectFor("moving", replaces(nil))
	do[replace.Result](c, c.ReplacePods, ref)
	do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}})
	c.wantCordon(node, true, 0)
}

// The last of two disruptions on a node uncordons it.
func TestTwoDisruptionsCordonANode(t *testing.T) {
	c := quickly(newCluster(t))
	node := c.makeNode(nil)
	first, _ := c.selectFor("first", replaces(nil))
	second, _ := c.selectFor("second", replaces(nil))
	for _, ref := range []v1beta1.DisruptionRef{first, second} {
		c.Must(replacement.Cordons{Kube: c.Kube}.Cordon(t.Context(), node, ref))
	}
	c.wantCordon(node, true, 2)
	do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: first, Number: 0}})
	c.wantCordon(node, true, 1)
	do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: second, Number: chaospod.AllShards}})
	c.wantCordon(node, false, 0)
}

// A worker may die at any call. Another one continues, each pod is deleted once, and no
// cordon is left.
func TestAWorkerDiesWhileItReplaces(t *testing.T) {
	for calls := 1; ; calls++ {
		c := quickly(newCluster(t))
		c.GonePatience = time.Minute
		node := c.makeNode(nil)
		c.makeClaim("own")
		c.makePod(node, mounting("own"))
		ended := 0
		c.plays(func(*corev1.Pod) { ended++ })
		ref, _ := c.selectFor("moving", replaces(nil))
		var writes atomic.Int64 // several writes are under way at once
		lives := c.Kube
		c.through(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/events") {
				if writes.Add(1) >= int64(calls) {
					return nil, fmt.Errorf("the worker died")
				}
			}
			return nil, nil
		})
		c.Targets.Kube = c.Kube
		_, err := c.env.ExecuteActivity(c.ReplacePods, ref)
		c.Kube, c.Targets.Kube = lives, lives
		if err == nil {
			if writes.Load() < 4 {
				t.Errorf("only %d writes: where are cordon, claim, pod and uncordon?", writes.Load())
			}
			return
		}
		t.Run(fmt.Sprintf("before write %d", calls), func(t *testing.T) {
			if got := do[replace.Result](c, c.ReplacePods, ref); got.Replaced != 1 || got.Lost != 0 {
				t.Errorf("the next attempt: %+v, want it replaced", got)
			}
			if ended != 1 || c.claimStays("own") {
				t.Errorf("%d pods ended, claim stays = %t; want one, and its claim gone", ended, c.claimStays("own"))
			}
			c.wantCordon(node, false, 0)
			c.wantEventsOfStorage(1, "own")
		})
	}
}

// wantEventsOfStorage wants n events on replaced pods, each of which names the claim that was
// deleted with the pod.
func (c *testCluster) wantEventsOfStorage(n int, claim string) {
	c.Helper()
	found := 0
	for _, event := range c.EventsOf("Replaced") {
		if event.InvolvedObject.Kind != "Pod" {
			continue
		}
		found++
		if want := "deleted with it: PersistentVolumeClaims " + claim; !strings.Contains(event.Message, want) {
			c.Errorf("event Replaced %q, want %q in it", event.Message, want)
		}
	}
	if found != n {
		c.Errorf("%d events Replaced on pods, want %d", found, n)
	}
}

// A worker that dies after the deletion and before the event: the pod is gone when the next
// attempt records the event.
func TestTheEventOfAGonePodNamesItsStorage(t *testing.T) {
	c := quickly(newCluster(t))
	c.makeClaim("own")
	c.makePod(c.makeNode(nil), mounting("own"))
	c.plays(nil)
	ref, _ := c.selectFor("moving", replaces(nil))
	lives := c.Kube
	var deleted atomic.Bool
	c.through(func(r *http.Request) (*http.Response, error) {
		if deleted.Load() {
			return nil, fmt.Errorf("the worker died")
		}
		deleted.Store(r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/pods/"))
		return nil, nil
	})
	c.Targets.Kube = c.Kube
	if _, err := c.env.ExecuteActivity(c.ReplacePods, ref); err == nil {
		t.Fatal("the attempt ended well, want that its worker dies")
	}
	c.Kube, c.Targets.Kube = lives, lives
	c.Eventually("the pod is gone", func() bool {
		pods, err := c.Client.CoreV1().Pods(c.Shop).List(c.Context(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0
	})
	do[replace.Result](c, c.ReplacePods, ref)
	c.wantEventsOfStorage(1, "own")
}

// If the API server is unreachable when the node is to be uncordoned, all else is reported
// by then, and the next attempt uncordons.
func TestAnotherAttemptUncordons(t *testing.T) {
	c := quickly(newCluster(t))
	node := c.makeNode(nil)
	c.makePod(node, nil)
	c.plays(nil)
	ref, _ := c.selectFor("moving", replaces(nil))
	var patches atomic.Int64
	lives := c.Kube
	c.through(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch {
			if patches.Add(1) == 2 {
				return nil, fmt.Errorf("the API server is away")
			}
		}
		return nil, nil
	})
	if _, err := c.env.ExecuteActivity(c.ReplacePods, ref); err == nil || patches.Load() != 2 {
		t.Fatalf("after %d patches: %v, want the second to fail", patches.Load(), err)
	}
	c.Kube = lives
	c.wantCordon(node, true, 1)
	if got := do[replace.Result](c, c.ReplacePods, ref); got.Replaced != 1 {
		t.Errorf("ReplacePods() = %+v, want the pod replaced", got)
	}
	c.wantCordon(node, false, 0)
}

// A disruption that ends meanwhile leaves its cordons to the cleaning. The cleaning must
// remove them.
func TestCleaningRemovesCordons(t *testing.T) {
	cordoned := func(t *testing.T, name string) (*testCluster, v1beta1.DisruptionRef, string) {
		c := quickly(newCluster(t))
		node := c.makeNode(nil)
		c.makePod(node, nil)
		ref, _ := c.selectFor(name, replaces(nil))
		c.Must(replacement.Cordons{Kube: c.Kube}.Cordon(t.Context(), node, ref))
		return c, ref, node
	}
	t.Run("it cannot finish before", func(t *testing.T) {
		c, ref, node := cordoned(t, "moving")
		if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref}); left != 1 {
			t.Errorf("Finish() = %d left, want the cordon", left)
		}
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: chaospod.AllShards}, ResultLost: true})
		if len(cleaned.UnverifiedNodes) > 0 {
			t.Errorf("nodes %v are to be searched, want none: no injector ran there", cleaned.UnverifiedNodes)
		}
		c.wantCordon(node, false, 0)
		if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref}); left != 0 {
			t.Errorf("Finish() = %d left", left)
		}
	})
	t.Run("its records are gone", func(t *testing.T) {
		c, ref, node := cordoned(t, "moving")
		c.Must(c.Targets.DeleteRecords(t.Context(), ref))
		c.Targets = targets.NewStore(c.Kube, c.Chaos, c.Targets.Watch, 8) // another worker
		if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref}); left != 1 {
			t.Errorf("Finish() = %d left, want the cordon", left)
		}
		do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: chaospod.AllShards}})
		c.wantCordon(node, false, 0)
	})
	t.Run("the right to uncordon was taken away: it is left, until a person releases it", func(t *testing.T) {
		c, ref, node := cordoned(t, "moving")
		lives := c.Kube
		user := "worker-of-" + c.Shop
		c.allow(user, rule{"", "nodes", "list"}, rule{"", "nodes", "get"}, rule{c.Chaos, "pods", "list"})
		c.Kube = c.as(user)
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}})
		if cleaned.Remaining != 1 || cleaned.Left[0].Node != node || cleaned.Left[0].Outcome != chaospod.Failed || !strings.Contains(cleaned.Left[0].Why, "forbidden") {
			t.Fatalf("cleaned = %+v, want the cordon left, and why", cleaned)
		}
		cleaned = do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Release: []string{cleaned.Left[0].ID()}})
		if cleaned.Remaining != 0 || len(cleaned.UnverifiedNodes) != 1 {
			t.Errorf("released: %+v, want its node to be looked at", cleaned)
		}
		c.Kube = lives
		verified := do[verify.Result](c, c.VerifyNodes, verify.Input{Disruption: ref, Nodes: cleaned.UnverifiedNodes, Released: true})
		if len(verified.Left) == 0 || !strings.Contains(verified.Left[0], "cordoned") {
			t.Errorf("verified = %+v, want it to say that the node is cordoned", verified)
		}
		if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref, ReleasedPods: 1, NotVerified: verified.Left}); left != 0 {
			t.Errorf("Finish() = %d left, want it let go", left)
		}
		c.wantCordon(node, true, 1)
	})
	t.Run("the node is searched: it is taken off", func(t *testing.T) {
		c, ref, node := cordoned(t, "moving")
		do[verify.Result](c, c.VerifyNodes, verify.Input{Disruption: ref, Nodes: []string{node}})
		c.wantCordon(node, false, 0)
	})
}

// as is a client of a user who has only the granted rights.
func (c *testCluster) as(user string) kubernetes.Interface {
	c.Helper()
	config := apiserver.Start(c.T)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	c.Must(err)
	return client
}

// rule is one right, cluster-wide if it has no namespace.
type rule struct{ namespace, resource, verb string }

// allow grants rights to a user, and waits until the API server applies them.
func (c *testCluster) allow(user string, rules ...rule) {
	c.Helper()
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}
	for i, r := range rules {
		name := fmt.Sprintf("%s-%d", user, i)
		policy := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{r.resource}, Verbs: []string{r.verb}}}
		meta := metav1.ObjectMeta{Name: name, Namespace: r.namespace}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}
		var err error
		if r.namespace == "" {
			ref.Kind = "ClusterRole"
			_, err = c.Client.RbacV1().ClusterRoles().Create(c.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: policy}, metav1.CreateOptions{})
			c.Must(err)
			_, err = c.Client.RbacV1().ClusterRoleBindings().Create(c.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
		} else {
			_, err = c.Client.RbacV1().Roles(r.namespace).Create(c.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: policy}, metav1.CreateOptions{})
			c.Must(err)
			_, err = c.Client.RbacV1().RoleBindings(r.namespace).Create(c.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
		}
		c.Must(err)
		worker := c.as(user)
		c.Eventually("the right counts", func() bool {
			allowed, err := prepare.Allowed(c.Context(), worker, deploy.Right{Verb: r.verb, Resource: r.resource, Namespace: r.namespace})
			c.Must(err)
			return allowed
		})
	}
}

func TestWithoutItsRightsAReplacementIsRejected(t *testing.T) {
	for _, test := range []struct {
		name          string
		deleteStorage bool
		rules         func(namespace string) []rule
		missing       []string // nil if the disruption is carried out
	}{
		{"nothing is granted", true, func(string) []rule { return nil }, []string{"patch nodes everywhere", "delete pods in", "delete persistentvolumeclaims in"}},
		{"all is granted", true, func(n string) []rule {
			return []rule{{"", "nodes", "patch"}, {n, "pods", "delete"}, {n, "persistentvolumeclaims", "get"}, {n, "persistentvolumeclaims", "delete"}}
		}, nil},
		{"all but storage, which is asked for", true, func(n string) []rule { return []rule{{"", "nodes", "patch"}, {n, "pods", "delete"}} }, []string{"get persistentvolumeclaims in"}},
		{"all but storage, which is not asked for", false, func(n string) []rule { return []rule{{"", "nodes", "patch"}, {n, "pods", "delete"}} }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			user := "worker-of-" + c.Shop
			c.allow(user, test.rules(c.Shop)...)
			c.Kube = c.as(user)
			ref := c.Disruption("moving", replaces(func(p *v1beta1.PodReplacement) { p.DeleteStorage = &test.deleteStorage }))
			plan := do[prepare.Plan](c, c.Prepare, ref)
			if (plan.Rejected != "") != (test.missing != nil) {
				t.Fatalf("rejected = %q, want the rights %q to be missing", plan.Rejected, test.missing)
			}
			for _, right := range append(test.missing, "deploy/components/pod-replacement")[:len(test.missing)+min(1, len(test.missing))] {
				if !strings.Contains(plan.Rejected, right) {
					t.Errorf("rejected = %q, want it to name %q", plan.Rejected, right)
				}
			}
			if test.missing != nil {
				c.WantCondition(ref, v1beta1.ConditionAccepted, metav1.ConditionFalse, test.missing[0])
			}
		})
	}
}

func TestADryRunReplacesNothing(t *testing.T) {
	c := newCluster(t)
	node := c.makeNode(nil)
	pod := c.makePod(node, nil)
	ref, _ := c.selectFor("moving", func(spec *v1beta1.DisruptionSpec) { replaces(nil)(spec); spec.DryRun = true })
	if got := do[replace.Result](c, c.ReplacePods, ref); got.Replaced != 1 {
		t.Errorf("ReplacePods() = %+v, want it to say that all is well", got)
	}
	live, err := c.Client.CoreV1().Pods(c.Shop).Get(t.Context(), pod.Name, metav1.GetOptions{})
	c.Must(err)
	if before := c.readNode(node); live.DeletionTimestamp != nil || before.Spec.Unschedulable || live.ResourceVersion != pod.ResourceVersion {
		t.Error("the pod or its node was changed")
	}
}

func TestATargetThatAnotherUserDeletedIsLost(t *testing.T) {
	c := newCluster(t)
	node := c.makeNode(nil)
	pod, now := c.makePod(node, nil), int64(0)
	ref, _ := c.selectFor("moving", replaces(nil))
	c.Must(c.Client.CoreV1().Pods(c.Shop).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	if got := do[replace.Result](c, c.ReplacePods, ref); got != (replace.Result{Lost: 1}) {
		t.Errorf("ReplacePods() = %+v, want the target lost", got)
	}
	if got := c.chosen(ref); len(got) != 0 {
		t.Errorf("%d targets are held, want none", len(got))
	}
	shard, err := c.Targets.Shard(t.Context(), ref, 0)
	c.Must(err)
	if target := shard.Targets[0]; !target.Lost {
		t.Errorf("target %+v does not count for maxLostTargets", target)
	}
	c.wantCordon(node, false, 0)
	c.wantEvent("TargetLost", pod.Name)
}

// N4: pods that are chosen later fill places of earlier ones, and each is replaced once.
func TestPodsToReplaceFillPlaces(t *testing.T) {
	c := newCluster(t)
	node := c.makeNode(nil)
	c.makePod(node, nil)
	ref, _ := c.selectFor("moving", func(spec *v1beta1.DisruptionSpec) { replaces(nil)(spec); spec.DryRun = true })
	if got := do[replace.Result](c, c.ReplacePods, ref); got.Replaced != 1 {
		t.Fatalf("ReplacePods() = %+v, want one replaced", got)
	}
	c.makePod(node, nil)
	selected := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1, Run: 1, Fill: true})
	if !slices.Equal(selected.Added, []int{0}) || selected.Shards != 1 {
		t.Fatalf("selection = %+v, want a place of shard 0 filled", selected)
	}
	if got := do[replace.Result](c, c.ReplacePods, ref); got.Replaced != 2 || got.Total != 2 {
		t.Errorf("ReplacePods() = %+v, want both replaced", got)
	}
}

func TestAnEmergencyStopKeepsPodsFromBeingReplaced(t *testing.T) {
	c := newCluster(t)
	node := c.makeNode(nil)
	c.makePod(node, nil)
	ref, _ := c.selectFor("moving", replaces(nil))
	c.mark(ref)
	if got := do[replace.Result](c, c.ReplacePods, ref); got.Stopped != fire || got.Replaced != 0 {
		t.Errorf("ReplacePods() = %+v, want it stopped by %q", got, fire)
	}
	c.wantCordon(node, false, 0)
}
