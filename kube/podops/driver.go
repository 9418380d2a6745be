package podops

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// Signs that a cluster has a driver: the name of the webhook by which Kuperator moves
// pods, and the name of a webhook configuration without webhooks that is installed with
// the controller's driver.
const (
	KuperatorWebhook = "mutating-pod.apps.kusionstack.io"
	BuiltInDriver    = "squall-pod-ops-driver"
)

// OfKuperator is true for the webhook configuration of Kuperator.
func OfKuperator(c *admissionv1.MutatingWebhookConfiguration) bool {
	return slices.ContainsFunc(c.Webhooks, func(w admissionv1.MutatingWebhook) bool { return w.Name == KuperatorWebhook })
}

// LabelStayOffline is set by a person on a pod that must not be reported in service.
const LabelStayOffline = Domain + "/stay-offline"

// stepLabels are the labels that have an id behind the slash.
var stepLabels = []string{
	LabelOperationType, LabelUndo, LabelOperating, LabelOperate, LabelOperated, LabelPreCheck, LabelPreChecked,
	LabelPreparing, LabelDoneType, LabelPostCheck, LabelPostChecked, LabelCompleting,
}

// Move is the driver's next write on a pod. The zero Move writes nothing.
type Move struct {
	// Labels to set, and to remove where the value is nil.
	Labels map[string]any
	// Serving is the status that the condition of the readiness gate must get; empty if it
	// has that, and while there are Labels to write first.
	Serving corev1.ConditionStatus
}

// Drivable is true for a pod that opted in, by its label and its readiness gate.
func Drivable(pod *corev1.Pod) bool {
	return pod.Labels[LabelManaged] == ManagedValue && gated(pod)
}

// Asks is true for a pod with an operation that has no permission yet.
func Asks(pod *corev1.Pod) bool {
	d := driver{labels: pod.Labels}
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(d.ids(), d.asks)
}

// Taken is true for a pod that is out of service for an operation, or about to be.
func Taken(pod *corev1.Pod) bool {
	d := driver{labels: pod.Labels}
	return slices.ContainsFunc(d.ids(), func(id string) bool { return d.has(LabelPreChecked, id) || d.has(LabelOperate, id) })
}

// Drive returns the driver's next write on a pod. permitted is the decision on an
// operation that asks. Drive depends only on the pod, so it resumes wherever an earlier
// driver stopped. The error names an annotation that cannot be read; such a pod does
// not return to service.
//
// If an operation is no longer wanted and was never given the pod, Drive removes all
// labels of its id in any phase.
func Drive(pod *corev1.Pod, permitted bool, now time.Time) (Move, error) {
	if !Drivable(pod) {
		return Move{}, nil
	}
	d := driver{pod: pod, labels: maps.Clone(pod.Labels), now: fmt.Sprint(now.UnixNano())}
	var back bool
	back, d.problem = expected(pod)
	for _, id := range d.ids() {
		d.cancel(id)
	}
	if pod.DeletionTimestamp == nil {
		d.move(permitted, back)
	}
	move := Move{Labels: d.changes()}
	if want := d.serving(); move.Labels == nil && pod.DeletionTimestamp == nil && !conditionIs(pod, ReadinessGate, want) {
		move.Serving = want
	}
	return move, d.problem
}

// driver works on a copy of the pod's labels.
type driver struct {
	pod     *corev1.Pod
	labels  map[string]string
	now     string
	problem error
}

func (d *driver) has(kind, id string) bool { _, found := d.labels[kind+"/"+id]; return found }

func (d *driver) set(id string, kinds ...string) {
	for _, kind := range kinds {
		d.labels[kind+"/"+id] = d.now
	}
}

func (d *driver) drop(id string, kinds ...string) {
	for _, kind := range kinds {
		delete(d.labels, kind+"/"+id)
	}
}

// ids returns the ids of all operations on the pod, in order.
func (d *driver) ids() (ids []string) {
	for key := range d.labels {
		kind, id, found := strings.Cut(key, "/")
		if found && slices.Contains(stepLabels, kind) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// asks is true for an id that was begun and has no permission. An id with the label
// operate was given the pod already.
func (d *driver) asks(id string) bool {
	return d.has(LabelOperating, id) && !d.has(LabelUndo, id) && !d.has(LabelPreChecked, id) && !d.has(LabelOperate, id)
}

// cancel removes all labels of an id that is undone, or that is no longer wanted and
// was never given the pod.
func (d *driver) cancel(id string) {
	over := d.has(LabelOperate, id) || d.has(LabelOperated, id) || d.has(LabelPostCheck, id) || d.has(LabelPostChecked, id) || d.has(LabelCompleting, id)
	if d.has(LabelUndo, id) || !d.has(LabelOperating, id) && !over {
		d.drop(id, stepLabels...)
	}
}

// move makes all steps that need no other program's write first.
func (d *driver) move(permitted, back bool) {
	for _, id := range d.ids() {
		if d.asks(id) {
			d.begin(id, permitted)
		}
		if d.has(LabelOperating, id) && d.has(LabelPreparing, id) && d.drained() {
			d.drop(id, LabelPreparing)
			d.set(id, LabelOperate)
		}
	}
	if !slices.ContainsFunc(d.ids(), func(id string) bool { return d.has(LabelOperating, id) }) {
		for _, id := range d.ids() {
			d.finish(id, back)
		}
	}
	d.permissions()
	d.serve(back)
}

// begin permits an id, or requests the check of it. An id that is begun again before
// its end starts over.
func (d *driver) begin(id string, permitted bool) {
	d.drop(id, LabelOperated, LabelDoneType, LabelPostCheck, LabelPostChecked, LabelCompleting, LabelPreparing)
	if !permitted {
		if !d.has(LabelPreCheck, id) {
			d.set(id, LabelPreCheck)
		}
		return
	}
	d.drop(id, LabelPreCheck)
	d.set(id, LabelPreChecked, LabelPreparing)
}

// drained is true for a pod that is reported out of service, and that no service
// controller serves.
func (d *driver) drained() bool {
	return conditionIs(d.pod, ReadinessGate, corev1.ConditionFalse) &&
		!slices.ContainsFunc(d.pod.Finalizers, func(f string) bool { return strings.HasPrefix(f, FinalizerPrefix) })
}

// finish leads an id that is done to its end. It ends when all finalizers of the
// service controllers are back and the condition was read as True.
func (d *driver) finish(id string, back bool) {
	if !d.has(LabelCompleting, id) {
		d.drop(id, stepLabels...)
		d.set(id, LabelOperated, LabelDoneType, LabelPostChecked, LabelCompleting)
		return
	}
	if back && conditionIs(d.pod, ReadinessGate, corev1.ConditionTrue) {
		d.drop(id, stepLabels...)
	}
}

// permissions sets the label of a permission for each type that has one, and removes
// all others.
func (d *driver) permissions() {
	wanted := map[string]bool{}
	for _, id := range d.ids() {
		if kind := d.labels[LabelOperationType+"/"+id]; kind != "" && d.has(LabelPreChecked, id) {
			wanted[LabelPermission+"/"+kind] = true
		}
	}
	maps.DeleteFunc(d.labels, func(key, _ string) bool {
		return strings.HasPrefix(key, LabelPermission+"/") && !wanted[key]
	})
	for key := range wanted {
		if _, found := d.labels[key]; !found {
			d.labels[key] = d.now
		}
	}
}

// serve sets or removes the label of a pod that is in service.
func (d *driver) serve(back bool) {
	_, offline := d.labels[LabelStayOffline]
	_, available := d.labels[LabelAvailable]
	in := Ready(d.pod) && conditionIs(d.pod, ReadinessGate, corev1.ConditionTrue)
	switch {
	case !in || d.serving() == corev1.ConditionFalse:
		delete(d.labels, LabelAvailable)
	case !available && !offline && back && len(d.ids()) == 0:
		d.labels[LabelAvailable] = d.now
	}
}

// serving is the required status of the readiness gate's condition. One operation that
// prepares, or has the pod, keeps it out of service.
func (d *driver) serving() corev1.ConditionStatus {
	for _, id := range d.ids() {
		if d.has(LabelPreparing, id) || d.has(LabelOperate, id) {
			return corev1.ConditionFalse
		}
	}
	return corev1.ConditionTrue
}

func (d *driver) changes() map[string]any {
	changed := map[string]any{}
	for key := range d.pod.Labels {
		if _, kept := d.labels[key]; !kept {
			changed[key] = nil
		}
	}
	for key, value := range d.labels {
		if was, found := d.pod.Labels[key]; !found || was != value {
			changed[key] = value
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return changed
}

// Patch is the write of the move: a merge patch of the pod, or a strategic merge patch
// of its status, because a merge patch would replace other conditions; nil for nothing.
// The API server refuses it for another pod of the name, and for a pod that has changed
// since it was read.
func (m Move) Patch(pod *corev1.Pod, now time.Time) (patch []byte, ofStatus bool) {
	own := map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion}
	body := map[string]any{"metadata": own}
	switch {
	case m.Labels != nil:
		own["labels"] = m.Labels
	case m.Serving != "":
		body["status"] = map[string]any{"conditions": []any{map[string]any{
			"type": ReadinessGate, "status": m.Serving, "reason": "PodOpsLifecycle", "lastTransitionTime": now.UTC().Format(time.RFC3339),
		}}}
	default:
		return nil, false
	}
	patch, _ = json.Marshal(body) // of strings alone: cannot fail
	return patch, m.Labels == nil
}
