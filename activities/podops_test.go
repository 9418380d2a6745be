package activities

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// label sets a label of a pod, or removes it if the value is "null".
func (c *testCluster) label(pod *corev1.Pod, key, value string) {
	c.Helper()
	if value != "null" {
		value = `"` + value + `"`
	}
	_, err := c.Client.CoreV1().Pods(c.Shop).Patch(c.Context(), pod.Name, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+key+`":`+value+`}}}`), metav1.PatchOptions{})
	c.Must(err)
}

const scaling = podops.LabelOperating + "/scale"

// rule L1
func TestPodsInUseAreNotChosen(t *testing.T) {
	c := newCluster(t)
	keys := []string{scaling, podops.LabelOperate + "/scale", podops.LabelOperated + "/scale", podops.LabelToDelete}
	pods := c.MakeTargets(len(keys)+2, nil)
	for i, key := range keys {
		c.label(pods[i], key, "1700000000000000000")
	}
	evicted := pods[len(keys)]
	evicted.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
	_, err := c.Client.CoreV1().Pods(c.Shop).UpdateStatus(t.Context(), evicted, metav1.UpdateOptions{})
	c.Must(err)
	free := pods[len(keys)+1]

	ref, selection := c.selectFor("calm", all)
	if got := c.chosen(ref); !slices.Equal(got, []types.UID{free.UID}) || selection.Matching != len(pods) || selection.Desired != len(pods) {
		t.Errorf("chose %v of %+v, want only %s", got, selection, free.UID)
	}
	c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionTrue, "5 are operated on by others: ")
	c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionTrue, " and 2 more")

	ignores := func(spec *v1beta1.DisruptionSpec) {
		all(spec)
		spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{Policy: v1beta1.OperationsIgnored}
		spec.AllowDisruptedTargets = true
		spec.Faults = v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 1}}
	}
	if _, selection := c.selectFor("reckless", ignores); selection.Selected != len(pods) || selection.Operated != "" {
		t.Errorf("policy Ignore chose %+v, want all", selection)
	}
}

// rule L1: without another candidate the condition shows the operation.
func TestOnlyPodsInUseMatch(t *testing.T) {
	c := newCluster(t)
	pod := c.MakeTargets(1, nil)[0]
	c.label(pod, scaling, "1")
	ref, selection := c.selectFor("calm", nil)
	if selection.Selected != 0 || selection.Kept != 0 {
		t.Errorf("chose %+v, want none, and no place kept", selection)
	}
	c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "1 are operated on by others: "+pod.Name+" (label "+scaling+")")
}

// rule L2
func TestAPlaceIsKeptForAPodInUse(t *testing.T) {
	waits := func(seconds int) func(*v1beta1.DisruptionSpec) {
		return func(spec *v1beta1.DisruptionSpec) {
			spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{WhenBusy: v1beta1.WaitForBusy, BusyTimeoutSeconds: &seconds}
		}
	}
	t.Run("it is taken once it is free", func(t *testing.T) {
		c := newCluster(t)
		pods := c.MakeTargets(3, nil)
		c.label(pods[0], scaling, "1")
		c.label(pods[1], scaling, "1")
		ref, selection := c.selectFor("calm", waits(86400)) // count is 2
		if selection.Selected != 1 || selection.Kept != 1 || slices.Contains(c.chosen(ref), pods[0].UID) {
			t.Errorf("chose %+v, want one, and a place kept", selection)
		}
		c.label(pods[0], scaling, "null")
		selection = do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1})
		if selection.Selected != 2 || selection.Kept != 0 {
			t.Errorf("chose %+v when it was free, want two", selection)
		}
	})
	t.Run("no place is kept that a free one takes", func(t *testing.T) {
		c := newCluster(t)
		pods := c.MakeTargets(3, nil)
		c.label(pods[0], scaling, "1")
		if ref, selection := c.selectFor("calm", waits(86400)); selection.Selected != 2 || selection.Kept != 0 || slices.Contains(c.chosen(ref), pods[0].UID) {
			t.Errorf("chose %+v, want the two that are free", selection)
		}
	})
	t.Run("another one is taken when the time is over", func(t *testing.T) {
		c := newCluster(t)
		pods := c.MakeTargets(2, nil)
		c.label(pods[0], scaling, "1")
		ref := c.Disruption("calm", waits(1))
		plan := do[prepare.Plan](c, c.Prepare, ref)
		if want := c.Get(ref).CreationTimestamp.Add(time.Second); plan.BusyUntil == nil || !plan.BusyUntil.Equal(want) {
			t.Fatalf("places are kept until %v, want %v", plan.BusyUntil, want)
		}
		c.Eventually("the free one is taken", func() bool {
			selection := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref})
			return selection.Selected == 1 && selection.Kept == 0
		})
	})
}

// rule L11
func TestATargetInUseIsReleased(t *testing.T) {
	keep := func(spec *v1beta1.DisruptionSpec) {
		spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{OnConcurrentOperation: v1beta1.KeepTarget}
	}
	// The operation begins on a target that still matches, or no longer matches.
	for name, relabel := range map[string]bool{"a target that matches": false, "a target that matches no longer": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			pods := c.MakeTargets(2, nil)
			ref := c.started("calm", nil)
			c.kubelet(ref, map[string]int32{pods[0].Spec.NodeName: 0, pods[1].Spec.NodeName: 0})
			in := clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: 30 * time.Second}
			if cleaned := do[clean.Result](c, c.CleanChaosPods, in); cleaned.Lost != 0 {
				t.Fatalf("cleaned = %+v before anybody does anything", cleaned)
			}
			c.label(pods[0], scaling, "1")
			if relabel {
				c.label(pods[0], "app", "other")
			}
			cleaned := do[clean.Result](c, c.CleanChaosPods, in)
			if got := c.chosen(ref); cleaned.Lost != 1 || cleaned.Remaining != 0 || !slices.Equal(got, []types.UID{pods[1].UID}) {
				t.Errorf("cleaned = %+v, targets left %v; want %s let go", cleaned, got, pods[0].Name)
			}
			if left := c.ChaosPodsOf(ref); len(left) != 1 || left[0].Spec.NodeName != pods[1].Spec.NodeName {
				t.Errorf("%d chaos pods are left, want that of the other target", len(left))
			}
			c.wantEvent("TargetReleased", pods[0].Name)
		})
	}
	t.Run("Keep keeps it", func(t *testing.T) {
		c := newCluster(t)
		pods := c.MakeTargets(2, nil)
		ref := c.started("calm", keep)
		c.label(pods[0], scaling, "1")
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true})
		if left := c.ChaosPodsOf(ref); cleaned.Lost != 0 || slices.ContainsFunc(left, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }) {
			t.Errorf("cleaned = %+v, want everything left as it was", cleaned)
		}
	})
	t.Run("one that is being deleted loses its chaos pods whatever the policy is", func(t *testing.T) {
		c := newCluster(t)
		pods := c.MakeTargets(2, nil)
		ref := c.started("calm", func(spec *v1beta1.DisruptionSpec) {
			spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{Policy: v1beta1.OperationsIgnored, OnConcurrentOperation: v1beta1.KeepTarget}
		})
		c.kubelet(ref, map[string]int32{pods[0].Spec.NodeName: 0})
		c.Must(c.Client.CoreV1().Pods(c.Shop).Delete(t.Context(), pods[0].Name, metav1.DeleteOptions{}))
		if pod, err := c.Client.CoreV1().Pods(c.Shop).Get(t.Context(), pods[0].Name, metav1.GetOptions{}); err != nil || pod.DeletionTimestamp == nil {
			t.Fatalf("the target is gone already (%v): this proves nothing", err)
		}
		cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: 30 * time.Second})
		if left := c.ChaosPodsOf(ref); cleaned.Lost != 1 || len(left) != 1 || left[0].Spec.NodeName != pods[1].Spec.NodeName {
			t.Errorf("cleaned = %+v and left %d chaos pods, want that of the other target", cleaned, len(left))
		}
		c.wantEvent("TargetLost", pods[0].Name)
	})
}

// The selection names no operations if there are none.
func TestSelectionNamesNoOperationsWithoutAny(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	if _, selection := c.selectFor("calm", nil); selection.Operated != "" || strings.Contains(selection.String(), "operated") {
		t.Errorf("selection = %+v", selection)
	}
}
