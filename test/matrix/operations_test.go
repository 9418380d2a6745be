package matrix

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/world"
)

// traffic is the finalizer of a controller that serves the target of an operation. The
// controller never removes it, so the operation never gets its target.
const traffic = podops.FinalizerPrefix + "traffic"

// makeDriver makes the object by which workers detect that the bridges move pods.
func makeDriver(w *world.World) {
	_, err := w.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(w.Context(),
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: podops.BuiltInDriver}}, metav1.CreateOptions{})
	w.Must(err)
}

// optIn makes a pod one that the bridge's driver moves.
func (r *run) optIn(pod *corev1.Pod) {
	pod.Labels[podops.LabelManaged] = podops.ManagedValue
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: podops.ReadinessGate}}
	if r.served {
		pod.Finalizers = []string{traffic}
	}
}

// inService waits until the driver has brought all targets into service, for the first
// time or again: who gave them back does not wait for that.
func (r *run) inService() error {
	return r.until("the targets are in service", func() bool {
		pods, err := r.world.Kube.CoreV1().Pods(r.shop).List(r.ctx, metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
			available, err := podops.Available(&pod)
			return !available || err != nil
		})
	})
}

// prepared is a disruption that has asked for its target, which is being taken out of
// service, and no more than that.
func (r *run) prepared() error {
	if err := r.create(); err != nil {
		return err
	}
	return r.until("it waits for who serves the target", func() bool {
		if !r.see() {
			return false
		}
		c := meta.FindStatusCondition(r.d.Status.Conditions, v1beta1.ConditionOperating)
		return c != nil && strings.Contains(c.Message, traffic)
	})
}

// removeTraffic removes the finalizer by which the target is served, so that the target can
// be deleted.
func (r *run) removeTraffic(name string) error {
	_, err := r.world.Kube.CoreV1().Pods(r.shop).Patch(r.ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return err
}

// traces is all that an operation may leave on a target, in a form that is the same in
// every run.
func traces(pod *corev1.Pod) string {
	conditions := map[corev1.PodConditionType]corev1.ConditionStatus{}
	for _, c := range pod.Status.Conditions {
		conditions[c.Type] = c.Status
	}
	return fmt.Sprintf("target %s with labels %v, annotations %v, finalizers %v, conditions %v",
		pod.Name, slices.Sorted(maps.Keys(pod.Labels)), pod.Annotations, pod.Finalizers, conditions)
}

// phaseOf names what of an operation is on a pod: "operating preparing"; empty for a pod
// that no driver moves.
func phaseOf(pod *corev1.Pod) string {
	if pod.Labels[podops.LabelManaged] == "" {
		return ""
	}
	var parts []string
	for key := range pod.Labels {
		if strings.Contains(key, podops.Domain) || strings.HasPrefix(key, podops.LabelProtected) {
			parts = append(parts, stepOf(key))
		}
	}
	slices.Sort(parts)
	if !podops.Ready(pod) {
		parts = append(parts, "not ready")
	}
	return strings.Join(parts, " ")
}

// stepOf is the step that a label of a lifecycle names, without the operation's ID.
func stepOf(label string) string {
	kind, name, _ := strings.Cut(label, "/")
	if kind == podops.Domain {
		return name
	}
	step, _, _ := strings.Cut(kind, ".")
	return step
}

// patchOf names what a patch of a pod changes: "+operating +operation-type"; empty for
// one that is a list.
func patchOf(body []byte) string {
	var patch struct {
		Metadata map[string]json.RawMessage
		Status   struct{ Conditions []corev1.PodCondition }
	}
	if json.Unmarshal(body, &patch) != nil {
		return ""
	}
	var parts []string
	var labels map[string]*string
	_ = json.Unmarshal(patch.Metadata["labels"], &labels)
	for key, value := range labels {
		sign := "+"
		if value == nil {
			sign = "-"
		}
		parts = append(parts, sign+stepOf(key))
	}
	for key, sign := range map[string]string{"finalizers": "+", "$deleteFromPrimitiveList/finalizers": "-"} {
		if patch.Metadata[key] != nil {
			parts = append(parts, sign+"finalizer")
		}
	}
	for _, c := range patch.Status.Conditions {
		parts = append(parts, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}
