package activities

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/kuperator"
)

// withDriver creates the webhook of a driver. The API server calls it for no pod.
func (c *testCluster) withDriver() {
	c.Helper()
	_, err := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(c.Context(), kuperator.Webhook(), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return // this webhook handles every write
	}
	c.Must(err)
	c.Cleanup(func() {
		if err := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(context.Background(), "kuperator", metav1.DeleteOptions{}); err != nil {
			c.Error(err)
		}
	})
}

// managed makes running pods that a driver manages, each in service.
func (c *testCluster) managed(n int, finalizers ...string) []*corev1.Pod {
	c.Helper()
	var made []*corev1.Pod
	for range n {
		pod, err := c.Client.CoreV1().Pods(c.Shop).Create(c.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Finalizers: finalizers, Labels: map[string]string{"app": "web", podops.LabelManaged: podops.ManagedValue}},
			Spec: corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "main", Image: "i"}},
				ReadinessGates: []corev1.PodReadinessGate{{ConditionType: podops.ReadinessGate}}},
		}, metav1.CreateOptions{})
		c.Must(err)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", ContainerID: "containerd://abc", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}}
		pod, err = c.Client.CoreV1().Pods(c.Shop).UpdateStatus(c.Context(), pod, metav1.UpdateOptions{})
		c.Must(err)
		made = append(made, pod)
	}
	c.settle(true)
	for _, pod := range made {
		if available, err := podops.Available(c.pod(pod.Name)); !available || err != nil {
			c.Fatalf("pod %s is not in service: %v %v", pod.Name, c.pod(pod.Name).Labels, err)
		}
	}
	return made
}

// settle runs the driver on every pod until nothing changes, and kubelets too, if kubelets
// is true.
func (c *testCluster) settle(kubelets bool) {
	c.Helper()
	c.Must(kuperator.Settle(c.Context(), c.Client, c.Shop, kubelets))
}

func (c *testCluster) pod(name string) *corev1.Pod {
	c.Helper()
	pod, err := c.Client.CoreV1().Pods(c.Shop).Get(c.Context(), name, metav1.GetOptions{})
	c.Must(err)
	return pod
}

// chosenFor prepares a disruption that participates in operations, and chooses its targets.
func (c *testCluster) chosenFor(name string, change func(*v1beta1.DisruptionSpec)) (v1beta1.DisruptionRef, operate.Input) {
	c.Helper()
	c.withDriver()
	ref := c.Disruption(name, func(spec *v1beta1.DisruptionSpec) {
		spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{Policy: v1beta1.OperationsJoined}
		if change != nil {
			change(spec)
		}
	})
	if plan := do[prepare.Plan](c, c.Prepare, ref); plan.Operations == nil || plan.Operations.OperatingTimeout != 5*time.Minute {
		c.Fatalf("plan = %+v, want operations with their defaults", plan)
	}
	return ref, operate.Input{Disruption: ref, Shards: do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}).Added}
}

func (c *testCluster) wantNoLabels(ref v1beta1.DisruptionRef, names ...string) {
	c.Helper()
	for _, name := range names {
		for key := range c.pod(name).Labels {
			if strings.Contains(key, podops.OfDisruption(ref.UID).ID) || strings.HasPrefix(key, podops.LabelPermission) {
				c.Errorf("pod %s has the label %s still", name, key)
			}
		}
	}
}

// rules L3, L4, L8, L9: an operation from its start to its end.
func TestAnOperationOnATarget(t *testing.T) {
	c := newCluster(t)
	pod := c.managed(1)[0]
	ref, in := c.chosenFor("calm", nil)
	operation := podops.OfDisruption(ref.UID)
	before := c.pod(pod.Name)

	create := inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Operated: true}
	if done := do[operate.Result](c, c.OperateTargets, in); len(done.Waiting) != 1 || len(done.Given) != 0 {
		t.Fatalf("first look = %+v, want the target waited for", done)
	}
	after := c.pod(pod.Name)
	added := map[string]bool{}
	for key := range after.Labels {
		if _, was := before.Labels[key]; !was {
			added[key] = true
		}
	}
	if len(added) != 2 || !added[podops.LabelOperating+"/"+operation.ID] || after.Labels[podops.LabelOperationType+"/"+operation.ID] != "chaos" {
		t.Errorf("Begin wrote %v, want the two labels of an operation", added)
	}
	c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, pod.Name)

	// The pod is granted, and its kubelet still reports it as ready.
	c.settle(false)
	if !operation.Holds(c.pod(pod.Name)) {
		t.Fatalf("labels = %v, want it given: this proves nothing", c.pod(pod.Name).Labels)
	}
	if done := do[operate.Result](c, c.OperateTargets, in); len(done.Given) != 0 || len(done.Waiting) != 1 {
		t.Errorf("given and still ready = %+v, want it waited for", done)
	}
	c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, "still ready")
	if created := do[inject.CreateResult](c, c.CreateChaosPods, create); created.Pods != 0 {
		t.Errorf("created = %+v for a target that is in service", created)
	}

	c.settle(true)
	done := do[operate.Result](c, c.OperateTargets, in)
	if len(done.Given) != 1 || len(done.Waiting) != 0 {
		t.Fatalf("out of service = %+v, want it given", done)
	}
	c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionTrue, "1 of 1")
	if created := do[inject.CreateResult](c, c.CreateChaosPods, create); created.Pods != 1 {
		t.Fatalf("created = %+v, want one chaos pod", created)
	}
	if done := do[operate.Result](c, c.OperateTargets, in); len(done.Given) != 1 {
		t.Errorf("asked again, as the answer was lost = %+v, want created what may be missing", done)
	}

	// The operation does not end while the target has a chaos pod.
	if ended := do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Over: true}); !operation.Holds(c.pod(pod.Name)) {
		t.Errorf("ended = %+v beside a chaos pod; labels %v", ended, c.pod(pod.Name).Labels)
	}
	c.kubelet(ref, map[string]int32{"node-0": 0})
	if cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: 30 * time.Second}); cleaned.Remaining != 0 {
		t.Fatalf("cleaned = %+v", cleaned)
	}
	if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref, Operated: true}); left != 1 {
		t.Errorf("Finish found %d left while the pod is operated on, want 1", left)
	}
	if ended := do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref}); ended.Left != 1 {
		t.Errorf("asked for its end = %+v, want it told that the driver is at it", ended)
	}
	c.settle(false)
	if ended := do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref}); ended.Left != 0 || ended.Unavailable != 1 {
		t.Errorf("ended = %+v, want it not in service yet", ended)
	}
	c.settle(true)
	if ended := do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref}); ended.Left+ended.Unavailable != 0 {
		t.Errorf("in service = %+v, want nothing left", ended)
	}
	c.wantNoLabels(ref, pod.Name)
	if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref, Operated: true}); left != 0 {
		t.Errorf("Finish found %d left", left)
	}
}

// rule L5
func TestTrafficDelaysTheInjection(t *testing.T) {
	c := newCluster(t)
	traffic := podops.FinalizerPrefix + "traffic"
	pod := c.managed(1, traffic)[0]
	ref, in := c.chosenFor("calm", nil)
	do[operate.Result](c, c.OperateTargets, in)
	c.settle(true)
	if done := do[operate.Result](c, c.OperateTargets, in); len(done.Waiting) != 1 || len(done.Given) != 0 {
		t.Errorf("while it is served = %+v, want it waited for", done)
	}
	c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, traffic)
	_, err := c.Client.CoreV1().Pods(c.Shop).Patch(t.Context(), pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	c.Must(err)
	c.settle(true)
	if done := do[operate.Result](c, c.OperateTargets, in); len(done.Given) != 1 {
		t.Errorf("when nobody serves it = %+v, want it given", done)
	}
}

// rules L6, L7, and other reasons to give up a target that is not granted yet.
func TestAWaitingTargetIsGivenUp(t *testing.T) {
	traffic := podops.FinalizerPrefix + "traffic"
	for _, test := range []struct {
		name   string
		happen func(*testCluster, *corev1.Pod, podops.Operation)
		over   bool
		event  string
	}{
		{"it is not given in time", func(*testCluster, *corev1.Pod, podops.Operation) {}, true, "TargetNotGiven"},
		{"nobody answers in time", nil, true, "TargetNotGiven"},
		{"it is being deleted", func(c *testCluster, pod *corev1.Pod, _ podops.Operation) {
			c.Must(c.Client.CoreV1().Pods(c.Shop).Delete(c.Context(), pod.Name, metav1.DeleteOptions{}))
		}, false, "TargetLost"},
		{"another operation begins on it", func(c *testCluster, pod *corev1.Pod, _ podops.Operation) { c.label(pod, scaling, "1") }, false, "TargetReleased"},
		{"our label is removed", func(c *testCluster, pod *corev1.Pod, o podops.Operation) { c.label(pod, o.Selector(), "null") }, false, "TargetReleased"},
		{"its driver loses it", func(c *testCluster, pod *corev1.Pod, o podops.Operation) {
			c.label(pod, o.Selector(), "null")
			c.label(pod, podops.LabelManaged, "null")
		}, false, "TargetReleased"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			pod := c.managed(1, traffic)[0]
			ref, in := c.chosenFor("calm", nil)
			do[operate.Result](c, c.OperateTargets, in)
			if test.happen != nil {
				c.settle(true)
				test.happen(c, pod, podops.OfDisruption(ref.UID))
			}
			if test.over {
				in.Over = in.Shards
			}
			done := do[operate.Result](c, c.OperateTargets, in)
			if done.Lost != 1 || len(done.Waiting)+len(done.Given) != 0 || len(c.chosen(ref)) != 0 {
				t.Errorf("%+v, want the target let go", done)
			}
			c.wantEvent(test.event, pod.Name)
			c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, "no target may be disrupted any more")
			if created := do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Operated: true}); created.Pods != 0 {
				t.Errorf("created = %+v for a target that was let go", created)
			}
			if c.pod(pod.Name).DeletionTimestamp != nil {
				c.wantNoLabels(ref, pod.Name) // an evicted pod may exist for a long time
				return
			}
			c.label(pod, scaling, "null")
			do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref})
			c.settle(true)
			do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Over: true})
			c.wantNoLabels(ref, pod.Name)
		})
	}
}

// rule L12
func TestAPodThatNoDriverMoves(t *testing.T) {
	t.Run("it is disrupted as it is", func(t *testing.T) {
		c := newCluster(t)
		// The pod has no readiness gate, so no driver manages it.
		pod := c.MakeTargets(1, map[string]string{podops.LabelManaged: podops.ManagedValue})[0]
		ref, in := c.chosenFor("calm", nil)
		if done := do[operate.Result](c, c.OperateTargets, in); len(done.Given) != 1 {
			t.Errorf("%+v, want it disrupted at once", done)
		}
		c.wantNoLabels(ref, pod.Name)
		if created := do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Operated: true}); created.Pods != 1 {
			t.Errorf("created = %+v, want a chaos pod", created)
		}
	})
	t.Run("it is not chosen, if the spec says so", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref, in := c.chosenFor("calm", func(spec *v1beta1.DisruptionSpec) { spec.PodOpsLifecycle.UnmanagedPods = v1beta1.SkipUnmanaged })
		if len(in.Shards) != 0 {
			t.Errorf("shards %v were chosen, want none", in.Shards)
		}
		c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "unmanagedPods Skip")
	})
}

// The component pod-ops-driver counts as a driver.
func TestTheBuiltInDriver(t *testing.T) {
	c := newCluster(t)
	webhooks := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := webhooks.Create(c.Context(), &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: podops.BuiltInDriver}}, metav1.CreateOptions{})
	c.Must(err)
	t.Cleanup(func() { c.Must(webhooks.Delete(context.Background(), podops.BuiltInDriver, metav1.DeleteOptions{})) })
	ref := c.Disruption("served", func(spec *v1beta1.DisruptionSpec) {
		spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{Policy: v1beta1.OperationsJoined}
	})
	if plan := do[prepare.Plan](c, c.Prepare, ref); plan.Operations == nil {
		t.Errorf("plan = %+v, want operations, as the bridge is a driver", plan)
	}
	if len(c.EventsOf("DriverStandsDown")) > 0 {
		t.Error("the only driver is said to stand down")
	}
	c.chosenFor("of-two", nil) // in addition to Kuperator
	c.wantEvent("DriverStandsDown", podops.KuperatorWebhook)
}

func TestWithoutADriver(t *testing.T) {
	participates := func(when v1beta1.WhenUnavailable) func(*v1beta1.DisruptionSpec) {
		return func(spec *v1beta1.DisruptionSpec) {
			spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{Policy: v1beta1.OperationsJoined, WhenUnavailable: when}
		}
	}
	c := newCluster(t)
	ref := c.Disruption("strict", participates(""))
	if plan := do[prepare.Plan](c, c.Prepare, ref); !strings.Contains(plan.Rejected, "Install Kuperator") {
		t.Errorf("plan = %+v, want it rejected, with the way out", plan)
	}
	c.WantCondition(ref, v1beta1.ConditionAccepted, metav1.ConditionFalse, "whenUnavailable")
	c.wantEvent("NoDriver", "whenUnavailable")
	if plan := do[prepare.Plan](c, c.Prepare, c.Disruption("lenient", participates(v1beta1.ProceedWithoutDriver))); plan.Rejected != "" || plan.Operations != nil {
		t.Errorf("plan = %+v, want it carried out without operations", plan)
	}
}

// The driver disappears: Squall removes the labels that are left on the pod, and reports
// it.
func TestADriverThatDisappears(t *testing.T) {
	for name, answered := range map[string]bool{"before it answered": false, "after it gave the pod": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			pod := c.managed(1)[0]
			ref, in := c.chosenFor("calm", nil)
			do[operate.Result](c, c.OperateTargets, in)
			if answered {
				c.settle(true)
			}
			ended := do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref})
			if ended.Left != 1 || len(ended.Pods) != 1 || !strings.Contains(ended.Pods[0], pod.Name) {
				t.Fatalf("ended = %+v, want the pod left", ended)
			}
			last := do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Over: true})
			c.wantNoLabels(ref, pod.Name)
			if last.Left != 0 || answered && (last.Unavailable != 1 || !strings.Contains(last.Pods[0], "no driver answered")) {
				t.Errorf("when its time is over = %+v", last)
			}
			if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref, Operated: true, NotInService: last.Pods}); left != 0 {
				t.Errorf("Finish found %d left", left)
			}
			if answered {
				c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, pod.Name)
				c.wantEvent("NotInService", pod.Name)
			}
		})
	}
}

// rules L6, L7, L9: another user removes the label of the operation's type, without which
// Kuperator refuses the end of the operation. Squall first restores the label, and the pod
// returns into service.
func TestAnOperationWithoutItsType(t *testing.T) {
	traffic := podops.FinalizerPrefix + "traffic"
	for _, test := range []struct {
		name       string
		finalizers []string
		settled    bool
	}{{"as soon as it was asked for", nil, false}, {"while it is prepared", []string{traffic}, true}, {"when it was given", nil, true}} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			kuperator.Serve(t, c.Client, c.Shop)
			pod := c.managed(1, test.finalizers...)[0]
			ref, in := c.chosenFor("untyped", nil)
			operation := podops.OfDisruption(ref.UID)
			do[operate.Result](c, c.OperateTargets, in)
			if test.settled {
				c.settle(true)
			}
			c.label(pod, podops.LabelOperationType+"/"+operation.ID, "null")
			if done := do[operate.Result](c, c.OperateTargets, in); done.Lost != 1 {
				t.Errorf("%+v, want the target let go, as it was taken back", done)
			}
			c.wantEvent("TargetReleased", pod.Name)
			for range 2 {
				c.settle(true)
				do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Counts: true})
			}
			c.wantNoLabels(ref, pod.Name)
			if available, _ := podops.Available(c.pod(pod.Name)); !available {
				t.Errorf("labels = %v, want it in service", c.pod(pod.Name).Labels)
			}
		})
	}
}

// Squall retries the end of an operation that Kuperator refuses, until its time is over.
// Then Squall removes the labels.
func TestARefusedEnd(t *testing.T) {
	c := newCluster(t)
	pod := c.managed(1)[0]
	ref, in := c.chosenFor("refused", nil)
	do[operate.Result](c, c.OperateTargets, in)
	c.settle(true)
	finish := string(podops.OfDisruption(ref.UID).End(c.pod(pod.Name)))
	c.through(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPatch || r.URL.Path != "/api/v1/namespaces/"+c.Shop+"/pods/"+pod.Name {
			return nil, nil
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err != nil || string(body) != finish {
			return nil, err
		}
		return refusal(r, http.StatusForbidden), nil
	})
	c.label(pod, scaling, "1") // a driver that answers waits for this operation
	ended := do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Counts: true})
	if ended.Left != 1 || !ended.Again || !strings.Contains(ended.Pods[0], "refused by the test") {
		t.Errorf("%+v, want it counted, and tried again", ended)
	}
	c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, "refused by the test")
	ended = do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Counts: true, Over: true, SkipRecovery: true})
	c.wantNoLabels(ref, pod.Name)
	if ended.Left != 0 || ended.Again || len(ended.Pods) != 1 || !strings.Contains(ended.Pods[0], "refused the end") {
		t.Errorf("when its time is over = %+v, want the labels taken off, and told", ended)
	}
}

// rule L6: another user removes the label operating before the pod is granted. Kuperator
// leaves the other labels on it, and ignores Undo. Squall removes these labels though
// another operation uses the pod, and does not wait for that operation.
func TestLabelsThatAreLeftBehind(t *testing.T) {
	traffic := podops.FinalizerPrefix + "traffic"
	for _, test := range []struct {
		name    string
		settled bool
	}{{"as soon as it was asked for", false}, {"while it is prepared", true}} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			kuperator.Serve(t, c.Client, c.Shop)
			pod := c.managed(1, traffic)[0]
			ref, in := c.chosenFor("untyped", func(spec *v1beta1.DisruptionSpec) { spec.PodOpsLifecycle.OnConcurrentOperation = v1beta1.KeepTarget })
			operation := podops.OfDisruption(ref.UID)
			do[operate.Result](c, c.OperateTargets, in)
			if test.settled {
				c.settle(true)
			}
			c.label(pod, operation.Selector(), "null")
			c.label(pod, podops.LabelOperationType+"/scale", "scale")
			c.label(pod, scaling, "1")
			if !operation.On(c.pod(pod.Name)) {
				t.Fatal("the driver leaves no label behind: this proves nothing")
			}
			do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Counts: true})
			c.wantNoLabels(ref, pod.Name)
			c.label(pod, podops.LabelUndo+"/scale", "scale")
			c.settle(true)
			if available, _ := podops.Available(c.pod(pod.Name)); !available {
				t.Errorf("labels = %v, want it in service", c.pod(pod.Name).Labels)
			}
		})
	}
}

// rule L10: if Squall's operation ends first, it waits for the other one, and the driver
// removes its labels.
func TestAnotherOperationGoesOn(t *testing.T) {
	c := newCluster(t)
	pod := c.managed(1)[0]
	ref, in := c.chosenFor("calm", func(spec *v1beta1.DisruptionSpec) { spec.PodOpsLifecycle.OnConcurrentOperation = v1beta1.KeepTarget })
	do[operate.Result](c, c.OperateTargets, in)
	c.settle(true)
	c.label(pod, podops.LabelOperationType+"/scale", "scale")
	c.label(pod, scaling, "1")
	c.settle(true)
	for _, over := range []bool{false, true} {
		ended := do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Over: over})
		if ended.Left != 1 || !strings.Contains(ended.Pods[0], "another one goes on: label operat") {
			t.Errorf("ended = %+v, want it told who operates", ended)
		}
		c.settle(true)
	}
	c.label(pod, scaling, "null")
	c.settle(true)
	c.wantNoLabels(ref, pod.Name)
	if available, _ := podops.Available(c.pod(pod.Name)); !available {
		t.Errorf("labels = %v, want it in service", c.pod(pod.Name).Labels)
	}
}

// If a label of the operation is removed from a disrupted target, its disruption ends.
func TestATargetThatIsTakenBackIsReleased(t *testing.T) {
	c := newCluster(t)
	pods := c.managed(2)
	ref, in := c.chosenFor("calm", nil)
	do[operate.Result](c, c.OperateTargets, in)
	c.settle(true)
	do[operate.Result](c, c.OperateTargets, in)
	do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Operated: true})
	c.kubelet(ref, map[string]int32{"node-0": 0})
	cleans := clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: 30 * time.Second}
	if cleaned := do[clean.Result](c, c.CleanChaosPods, cleans); cleaned.Lost != 0 {
		t.Fatalf("cleaned = %+v before anybody did anything", cleaned)
	}
	c.label(pods[0], podops.OfDisruption(ref.UID).Selector(), "null")
	cleaned := do[clean.Result](c, c.CleanChaosPods, cleans)
	if got := c.chosen(ref); cleaned.Lost != 1 || !slices.Equal(got, []types.UID{pods[1].UID}) || len(c.ChaosPodsOf(ref)) != 1 {
		t.Errorf("cleaned = %+v, targets %v, want %s let go", cleaned, got, pods[0].Name)
	}
	c.wantEvent("TargetReleased", pods[0].Name)
	do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, OnlyEnded: true})
	if !podops.OfDisruption(ref.UID).Holds(c.pod(pods[1].Name)) {
		t.Errorf("the other target was given back, too: %v", c.pod(pods[1].Name).Labels)
	}
	c.settle(true)
	c.wantNoLabels(ref, pods[0].Name)
}

// Every write fails with 500 while a driver's webhook is unavailable. Squall retries the
// request for the pod, which uses up no target, and the end of its operation, until the
// time for that is over.
func TestAWebhookThatIsAway(t *testing.T) {
	c := newCluster(t)
	server := kuperator.Serve(t, c.Client, c.Shop)
	pod := c.managed(1)[0]
	ref, in := c.chosenFor("calm", nil)
	server.Away.Store(true)
	for range 2 {
		if done := do[operate.Result](c, c.OperateTargets, in); !strings.Contains(done.Again, "failed calling webhook") || len(done.Waiting) != 1 {
			t.Errorf("%+v, want it to be asked for again", done)
		}
		if cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Operated: true}); cleaned.Lost != 0 {
			t.Fatalf("cleaned = %+v, want the target waited for, which has no chaos pod yet", cleaned)
		}
	}
	c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, "failed calling webhook")
	server.Away.Store(false)
	if done := do[operate.Result](c, c.OperateTargets, in); done.Again != "" || len(done.Waiting) != 1 {
		t.Errorf("%+v when the webhook is back, want it waited for", done)
	}
	c.settle(true)
	if done := do[operate.Result](c, c.OperateTargets, in); len(done.Given) != 1 {
		t.Errorf("%+v when the webhook is back, want it given", done)
	}
	server.Away.Store(true)
	if _, err := c.env.ExecuteActivity(c.EndOperations, operate.EndInput{Disruption: ref}); err == nil {
		t.Error("the operation ended though nobody could be asked")
	}
	c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, "it is tried again")
	for _, over := range []bool{false, true} {
		ended := do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Counts: true, Over: over})
		if ended.Left != 1 || !ended.Again || !strings.Contains(ended.Pods[0], "failed calling webhook") {
			t.Errorf("%+v, over %t, want it counted", ended, over)
		}
	}
	c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, "waiting for "+pod.Name)
	if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref, Operated: true, NotEnded: true, NotInService: []string{pod.Name + ": away"}}); left != 0 {
		t.Errorf("Finish found %d left, want them left to the bridge", left)
	}
	c.wantEvent("NotInService", pod.Name)
	server.Away.Store(false)
	do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref})
	c.settle(true)
	c.wantNoLabels(ref, pod.Name)
}

// A target may be chosen again if no request for it succeeded before its time was over.
func TestATargetThatWasNeverAskedForIsChosenAgain(t *testing.T) {
	c := newCluster(t)
	server := kuperator.Serve(t, c.Client, c.Shop)
	pod := c.managed(1)[0]
	ref, in := c.chosenFor("calm", nil)
	server.Away.Store(true)
	do[operate.Result](c, c.OperateTargets, in)
	in.Over = in.Shards
	if done := do[operate.Result](c, c.OperateTargets, in); done.Lost != 1 {
		t.Fatalf("%+v, want the target let go", done)
	}
	c.wantEvent("TargetNotGiven", pod.Name+": it could not be asked for")
	server.Away.Store(false)
	if chosen := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); chosen.Selected != 1 {
		t.Errorf("%+v, want it chosen again", chosen)
	}
}

// EndOperations reports the targets that are not in service. A target that is about to be
// in service is not reported if the disruption does not wait for recovery.
func TestEndOperationsReportsTargetsNotInService(t *testing.T) {
	traffic := podops.FinalizerPrefix + "traffic"
	given := func(t *testing.T, name string) (*testCluster, *corev1.Pod, v1beta1.DisruptionRef) {
		c := newCluster(t)
		pod := c.managed(1)[0]
		ref, in := c.chosenFor(name, nil)
		do[operate.Result](c, c.OperateTargets, in)
		c.settle(true)
		do[operate.Result](c, c.OperateTargets, in)
		return c, pod, ref
	}
	end := func(c *testCluster, ref v1beta1.DisruptionRef, skipRecovery bool) operate.EndResult {
		return do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Counts: true, SkipRecovery: skipRecovery})
	}
	t.Run("it comes back in a moment", func(t *testing.T) {
		c, pod, ref := given(t, "calm")
		end(c, ref, true)
		c.settle(false)
		if ended := end(c, ref, true); ended.Left != 0 || ended.Unavailable != 1 || len(ended.Pods) > 0 {
			t.Errorf("%+v of a deleted disruption, want nothing said", ended)
		}
		if ended := end(c, ref, false); len(ended.Pods) != 1 || !strings.Contains(ended.Pods[0], podops.LabelAvailable) {
			t.Errorf("%+v, want it waited for", ended)
		}
		c.WantCondition(ref, v1beta1.ConditionOperating, metav1.ConditionFalse, "waiting for "+pod.Name)
	})
	t.Run("who brings its traffic is late", func(t *testing.T) {
		c, pod, ref := given(t, "late")
		_, err := c.Client.CoreV1().Pods(c.Shop).Patch(t.Context(), pod.Name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+podops.AnnotationAvailable+`":"{\"expectedFinalizers\":{\"Service/shop/web\":\"`+traffic+`\"}}"}}}`), metav1.PatchOptions{})
		c.Must(err)
		end(c, ref, false)
		c.settle(true)
		ended := end(c, ref, false)
		if ended.Left != 1 || !strings.Contains(ended.Pods[0], "finalizer "+traffic) || strings.Contains(ended.Pods[0], "the driver") {
			t.Errorf("%+v, want the finalizer named, and the driver not blamed", ended)
		}
	})
	t.Run("its driver knows it no longer", func(t *testing.T) {
		c, pod, ref := given(t, "unmanaged")
		c.label(pod, podops.LabelManaged, "null")
		for range 2 {
			if ended := end(c, ref, true); len(ended.Pods) != 1 || !strings.Contains(ended.Pods[0], "no driver manages it any more") {
				t.Errorf("%+v, want it told", ended)
			}
		}
		c.wantNoLabels(ref, pod.Name)
	})
}

// The duration also counts while the disruption waits for a target. At its end an event
// names the targets that were never granted.
func TestTheEndNamesTargetsThatWereNotGiven(t *testing.T) {
	c := newCluster(t)
	pod := c.managed(1, podops.FinalizerPrefix+"traffic")[0]
	ref, in := c.chosenFor("short", nil)
	do[operate.Result](c, c.OperateTargets, in)
	do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Counts: true, SkipRecovery: true})
	if events := c.EventsOf("TargetNotGiven"); len(events) > 0 {
		t.Errorf("%v of a deleted disruption", events)
	}
	do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, Counts: true})
	c.wantEvent("TargetNotGiven", pod.Name)
}

// patchPod patches a target pod.
func (c *testCluster) patchPod(name string, patch []byte) error {
	_, err := c.Kube.CoreV1().Pods(c.Shop).Patch(c.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

func TestAnotherPodOfTheName(t *testing.T) {
	c := newCluster(t)
	pod := c.managed(1)[0]
	err := c.patchPod(pod.Name, podops.OfDisruption("u").Begin("another", time.Now()))
	if !operate.AnotherPod(err) {
		t.Errorf("%v is not taken for another pod of the name", err)
	}
	err = c.patchPod(pod.Name, []byte(`{"metadata":{"labels":{"a b":"c"}}}`))
	if err == nil || operate.AnotherPod(err) {
		t.Errorf("%v is taken for another pod of the name", err)
	}
}

// rule L16, with a worker: other operations wait for a protected target until it is clean,
// and no longer.
func TestAProtectedTarget(t *testing.T) {
	c := newCluster(t)
	pod := c.managed(1)[0]
	ref, in := c.chosenFor("calm", func(spec *v1beta1.DisruptionSpec) { spec.PodOpsLifecycle.ProtectTargets = true })
	ours, scale := podops.OfDisruption(ref.UID), podops.Operation{ID: "scale", Type: "scale"}
	do[operate.Result](c, c.OperateTargets, in)
	c.settle(true)
	if ours.Protects(c.pod(pod.Name)) {
		t.Error("it is protected before it is given: it would wait for itself")
	}
	var written atomic.Bool
	c.through(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/pods/") && written.CompareAndSwap(false, true) {
			c.label(pod, "written-by", "another") // between the read and the patch, which is refused
		}
		return nil, nil
	})
	if done := do[operate.Result](c, c.OperateTargets, in); len(done.Given) != 1 || done.Again != "" || !written.Load() || !ours.Protects(c.pod(pod.Name)) {
		t.Fatalf("%+v, finalizers %v, want it given and protected", done, c.pod(pod.Name).Finalizers)
	}
	do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Operated: true})
	c.kubelet(ref, map[string]int32{"node-0": 0})
	c.label(pod, podops.LabelOperationType+"/scale", "scale")
	c.label(pod, scaling, "1")
	c.settle(true)
	if scale.Holds(c.pod(pod.Name)) {
		t.Errorf("labels = %v: another operation has the pod while it is disrupted", c.pod(pod.Name).Labels)
	}
	if cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, OnlyEnded: true, Patience: 30 * time.Second}); cleaned.Lost != 1 {
		t.Errorf("cleaned = %+v, want the target let go", cleaned)
	}
	do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref, OnlyEnded: true})
	if got := c.pod(pod.Name).Finalizers; len(got) > 0 {
		t.Errorf("finalizers %v are left on a pod that is clean", got)
	}
	c.settle(true)
	if !scale.Holds(c.pod(pod.Name)) {
		t.Errorf("labels = %v, want it given to who waited", c.pod(pod.Name).Labels)
	}
	c.label(pod, scaling, "null")
	c.settle(true)
	c.wantNoLabels(ref, pod.Name)
}

// A protection also ends at its time if a chaos pod cannot be cleaned up.
func TestAProtectionThatIsOverdue(t *testing.T) {
	c := newCluster(t)
	pod := c.managed(1)[0]
	ref, in := c.chosenFor("calm", func(spec *v1beta1.DisruptionSpec) { spec.PodOpsLifecycle.ProtectTargets = true })
	ours := podops.OfDisruption(ref.UID)
	do[operate.Result](c, c.OperateTargets, in)
	c.settle(true)
	do[operate.Result](c, c.OperateTargets, in)
	do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Operated: true})
	do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref})
	if !ours.Protects(c.pod(pod.Name)) {
		t.Error("it is protected no longer, though it is disrupted and its time is not over")
	}
	c.label(pod, podops.LabelProtected+"/"+ours.ID, "1")
	do[operate.EndResult](c, c.EndOperations, operate.EndInput{Disruption: ref})
	if got := c.pod(pod.Name); ours.Protects(got) || !ours.Holds(got) {
		t.Errorf("finalizers %v, labels %v, want others to have it, and it not given back", got.Finalizers, got.Labels)
	}
}
