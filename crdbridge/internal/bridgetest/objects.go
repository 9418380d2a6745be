package bridgetest

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/objects"
	"github.com/squall-chaos/squall/workflows/contract"
)

// MergePatch is the type of patch the tests write.
const MergePatch = types.MergePatchType

// Disrupt creates a Disruption of the pods labelled app=shop, whose workflow
// found none of them to disrupt.
func (b *Bridge) Disrupt(name string, change ...func(*v1beta1.Disruption)) *v1beta1.Disruption {
	b.T.Helper()
	d := b.Create(name, change...)
	b.Chose(d, 0, 0)
	return d
}

// Create is Disrupt before the workflow has looked for targets.
func (b *Bridge) Create(name string, change ...func(*v1beta1.Disruption)) *v1beta1.Disruption {
	b.T.Helper()
	d := objects.Disruption(b.Namespace, name, intstr.FromInt32(1))
	d.Spec.Selector["app"] = "shop"
	d.Spec.Faults = v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{}}
	d.Spec.Duration.Duration = time.Minute
	for _, c := range change {
		c(d)
	}
	b.Must(b.Kube.Create(b.T.Context(), d))
	return d
}

// Chose writes the counts of selected and ignored targets into status, as the workflow
// does.
func (b *Bridge) Chose(d *v1beta1.Disruption, selected, ignored int) {
	b.T.Helper()
	patch := fmt.Sprintf(`{"status":{"desiredTargetsCount":%d,"selectedTargetsCount":%d,"ignoredTargetsCount":%d,
		"conditions":[{"type":"TargetsSelected","status":"True","reason":"Selected","message":"","lastTransitionTime":"2026-11-20T12:00:00Z"}]}}`, selected, selected, ignored)
	b.Must(b.Kube.Status().Patch(b.T.Context(), d.DeepCopy(), client.RawPatch(MergePatch, []byte(patch))))
}

// Pod creates a pod in namespace and makes it run, as a kubelet would.
func (b *Bridge) Pod(namespace, name string, labels map[string]string) *corev1.Pod {
	b.T.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
	b.Must(b.Kube.Create(b.T.Context(), p))
	b.SetPhase(p, corev1.PodRunning)
	return p
}

// ChaosPod is a running chaos pod of d, with the finalizer every one has.
func (b *Bridge) ChaosPod(d *v1beta1.Disruption, name string, target *corev1.Pod) *corev1.Pod {
	b.T.Helper()
	p := b.Pod(b.ChaosNamespace, name, map[string]string{
		v1beta1.LabelDisruptionUID: string(d.UID), v1beta1.LabelTargetUID: string(target.UID),
		v1beta1.LabelDisruptionNamespace: d.Namespace, v1beta1.LabelDisruptionName: d.Name,
	})
	b.Must(b.Kube.Patch(b.T.Context(), p, client.RawPatch(MergePatch, []byte(`{"metadata":{"finalizers":["`+v1beta1.ChaosPodFinalizer+`"]}}`))))
	b.T.Cleanup(func() {
		_ = b.Kube.Patch(context.Background(), p, client.RawPatch(MergePatch, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	return p
}

// SetPhase writes the phase of a pod, as a kubelet would.
func (b *Bridge) SetPhase(p *corev1.Pod, phase corev1.PodPhase) {
	b.T.Helper()
	p.Status.Phase = phase
	b.Must(b.Kube.Status().Update(b.T.Context(), p))
}

// Get reads d from the API server.
func (b *Bridge) Get(d *v1beta1.Disruption) *v1beta1.Disruption {
	b.T.Helper()
	got := &v1beta1.Disruption{}
	b.Must(b.Kube.Get(b.T.Context(), client.ObjectKeyFromObject(d), got))
	return got
}

// Informed waits until the workflow of d was started and has every signal.
func (b *Bridge) Informed(d *v1beta1.Disruption) {
	b.T.Helper()
	Eventually(b.T, Soon, "the workflow is started and signalled", func() bool {
		return b.Temporal.Starts(d) > 0 && len(b.Temporal.Signals(d, contract.SignalObserved)) > 0
	})
}

// SetStatus writes a status, as the worker would.
func (b *Bridge) SetStatus(d *v1beta1.Disruption, change func(*v1beta1.DisruptionStatus)) {
	b.T.Helper()
	Eventually(b.T, Soon, "the status is written", func() bool {
		got := b.Get(d)
		change(&got.Status)
		err := b.Kube.Status().Update(b.T.Context(), got)
		if err != nil && !apierrors.IsConflict(err) {
			b.T.Fatal(err)
		}
		return err == nil
	})
}

// settled is the least time without a call after which everything counts as sent.
const settled = 500 * time.Millisecond

// settledLooks is how often the caches must match the API server meanwhile: on a busy
// machine a comparison takes longer, as a bridge does.
const settledLooks = 25

// Quiet waits until the bridge has sent everything the cluster shows now: the caches have
// it, and for a while it sends nothing.
func (b *Bridge) Quiet() {
	b.T.Helper()
	last, looks, since := -1, 0, time.Now()
	Eventually(b.T, Soon, "Temporal gets no more signals", func() bool {
		if n := b.Temporal.Total(); n != last || !b.level() {
			last, looks, since = n, 0, time.Now()
		}
		looks++
		return looks > settledLooks && time.Since(since) > settled
	})
}

// level is true while the bridge's caches hold the Disruptions and pods of the test as the
// API server has them.
func (b *Bridge) level() bool {
	b.T.Helper()
	versions := func(from client.Reader) map[types.UID]string {
		found := map[types.UID]string{}
		var disruptions v1beta1.DisruptionList
		b.Must(from.List(b.T.Context(), &disruptions, client.InNamespace(b.Namespace)))
		for i := range disruptions.Items {
			found[disruptions.Items[i].UID] = disruptions.Items[i].ResourceVersion
		}
		for _, namespace := range []string{b.Namespace, b.ChaosNamespace} {
			var pods corev1.PodList
			b.Must(from.List(b.T.Context(), &pods, client.InNamespace(namespace)))
			for i := range pods.Items {
				found[pods.Items[i].UID] = pods.Items[i].ResourceVersion
			}
		}
		return found
	}
	return maps.Equal(versions(b.Kube), versions(b.Manager.GetClient()))
}

// Seen waits until the bridge's cache has this version of the pod.
func (b *Bridge) Seen(p *corev1.Pod) {
	b.T.Helper()
	Eventually(b.T, Soon, "the cache is up to date", func() bool {
		var got corev1.Pod
		err := b.Manager.GetClient().Get(b.T.Context(), client.ObjectKeyFromObject(p), &got)
		return err == nil && got.ResourceVersion == p.ResourceVersion
	})
}

// Condition is Orchestrated of d; zero if there is none.
func Condition(d *v1beta1.Disruption) metav1.Condition {
	if c := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionOrchestrated); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// StopAll makes an EmergencyStop that is deleted at the end of the test.
func (b *Bridge) StopAll(name string) *v1beta1.EmergencyStop {
	b.T.Helper()
	stop := &v1beta1.EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta1.EmergencyStopSpec{Reason: "payment is down"}}
	b.Must(b.Kube.Create(b.T.Context(), stop))
	b.T.Cleanup(func() { _ = b.Kube.Delete(context.Background(), stop) })
	return stop
}
