package kuperator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/kube/podops"
)

// Move makes the next step on the pod, if there is one, and reports whether there was: the
// controller writes to the pod, and the webhook changes that write. A write that the
// webhook refuses is no step.
func Move(pod *corev1.Pod) bool {
	next := pod.DeepCopy()
	lifecycle{next}.control()
	if Admit(pod, next) != nil || maps.Equal(pod.Labels, next.Labels) && conditionOf(pod) == conditionOf(next) {
		return false
	}
	*pod = *next
	return true
}

// Admit changes a write to a pod as the webhook does, and returns the error with which the
// webhook refuses the write. old is nil for a pod that is created.
func Admit(old, pod *corev1.Pod) error {
	if pod.Labels[podops.LabelManaged] != podops.ManagedValue {
		return nil
	}
	p := lifecycle{pod}
	if old == nil {
		p.addGate()
		old = pod.DeepCopy()
	}
	p.mutate(lifecycle{old})
	if err := p.validate(); err != nil {
		return fmt.Errorf("failed to validate PodOpsLifecycleWebhook, %w", err)
	}
	return nil
}

type lifecycle struct{ *corev1.Pod }

// withID are the labels that have the id of a lifecycle behind the slash.
var withID = []string{
	podops.LabelOperating, podops.LabelOperationType, podops.LabelUndo, podops.LabelPreCheck, podops.LabelPreChecked, podops.LabelPreparing,
	podops.LabelOperate, podops.LabelOperated, podops.LabelDoneType, podops.LabelPostCheck, podops.LabelPostChecked, podops.LabelCompleting,
}

// ids are those of all lifecycles on the pod, in order. Kuperator counts an id only if it
// has one of three labels: all others of an id mean nothing to it without these.
func (p lifecycle) ids() (ids []string) {
	for key := range p.Labels {
		kind, id, _ := strings.Cut(key, "/")
		if (kind == podops.LabelOperating || kind == podops.LabelOperate || kind == podops.LabelOperated) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (p lifecycle) has(kind, id string) bool { _, found := p.Labels[kind+"/"+id]; return found }

func (p lifecycle) set(id string, kinds ...string) {
	for _, kind := range kinds {
		p.Labels[kind+"/"+id] = "1700000000000000000"
	}
}

func (p lifecycle) drop(id string, kinds ...string) {
	for _, kind := range kinds {
		delete(p.Labels, kind+"/"+id)
	}
}

// with counts the ids that have a label of the kind.
func (p lifecycle) with(kind string) (n int) {
	for _, id := range p.ids() {
		if p.has(kind, id) {
			n++
		}
	}
	return n
}

// mutate is what the webhook does to a write: it moves each id as far as the labels that
// were written let it.
func (p lifecycle) mutate(old lifecycle) {
	written := lifecycle{p.DeepCopy()}
	ids := written.ids()
	p.undo(written)
	for _, id := range ids {
		if written.has(podops.LabelUndo, id) {
			continue
		}
		if written.has(podops.LabelOperating, id) {
			p.begin(written, id)
		}
		if written.has(podops.LabelPostChecked, id) {
			p.drop(id, podops.LabelPostCheck)
			p.set(id, podops.LabelCompleting)
		}
	}
	switch n := len(ids); {
	case n == 0 || written.with(podops.LabelOperating) > 0: // a finished id waits for all others
	case written.with(podops.LabelCompleting) == n:
		if p.expected() {
			for _, id := range ids {
				p.drop(id, podops.LabelOperate, podops.LabelOperated, podops.LabelDoneType, podops.LabelPostCheck, podops.LabelPostChecked, podops.LabelCompleting)
			}
		}
	case written.with(podops.LabelOperate) == n:
		p.finish(old, ids)
	case written.with(podops.LabelOperated) == n:
		p.check(ids)
	}
}

// undo takes all labels off the ids that are undone, and the permission of a type all of
// whose ids are. An id without the label of its type counts for none.
func (p lifecycle) undo(written lifecycle) {
	undone, all := map[string]int{}, map[string]int{}
	for _, id := range written.ids() {
		if kind, found := written.Labels[podops.LabelOperationType+"/"+id]; found {
			all[kind]++
		} else if kind, found := written.Labels[podops.LabelDoneType+"/"+id]; found {
			all[kind]++
		}
		if kind, found := written.Labels[podops.LabelUndo+"/"+id]; found {
			undone[kind]++
			p.drop(id, withID...)
		}
	}
	for kind, n := range undone {
		if n == all[kind] {
			delete(p.Labels, podops.LabelPermission+"/"+kind)
		}
	}
}

// begin: an id whose pre-check was passed before, and left behind, passes it again.
func (p lifecycle) begin(written lifecycle, id string) {
	if !written.has(podops.LabelPreChecked, id) {
		if !written.has(podops.LabelPreCheck, id) {
			p.set(id, podops.LabelPreCheck)
		}
		return
	}
	p.drop(id, podops.LabelPreCheck)
	if written.has(podops.LabelOperate, id) {
		return
	}
	if !written.has(podops.LabelPreparing, id) {
		delete(p.Labels, podops.LabelAvailable)
		p.set(id, podops.LabelPreparing)
	}
	if p.drained() {
		p.drop(id, podops.LabelPreparing)
		p.set(id, podops.LabelOperate)
	}
}

// drained is true once the pod has no traffic; at once for one without the
// condition.
func (p lifecycle) drained() bool {
	c := p.condition()
	serves := slices.ContainsFunc(p.Finalizers, func(f string) bool { return strings.HasPrefix(f, podops.FinalizerPrefix) })
	return c == nil || c.Status == corev1.ConditionFalse && !serves
}

// finish takes the types from the pod as it was before the write: an id without one gets
// no done-operation-type, and its pod's write is refused.
func (p lifecycle) finish(old lifecycle, ids []string) {
	for _, id := range ids {
		p.drop(id, podops.LabelPreChecked, podops.LabelOperate)
		p.set(id, podops.LabelOperated)
		if kind, found := old.Labels[podops.LabelOperationType+"/"+id]; found {
			delete(p.Labels, podops.LabelPermission+"/"+kind)
			p.drop(id, podops.LabelOperationType)
			p.Labels[podops.LabelDoneType+"/"+id] = kind
		}
	}
	p.check(ids)
}

func (p lifecycle) check(ids []string) {
	for _, id := range ids {
		if !p.has(podops.LabelPostCheck, id) && !p.has(podops.LabelPostChecked, id) {
			p.set(id, podops.LabelPostCheck)
		}
	}
}

// validate is what the webhook refuses: a label of a done operation without the other one
// of the id, and a pre-check without a permission or the other way round, of any id.
func (p lifecycle) validate() error {
	pairs := map[string]string{podops.LabelOperated: podops.LabelDoneType, podops.LabelDoneType: podops.LabelOperated}
	found := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		kind, id, _ := strings.Cut(key, "/")
		found[kind] = true
		if other := pairs[kind]; other != "" && !p.has(other, id) {
			return fmt.Errorf("not found label %s/%s", other, id)
		}
	}
	if found[podops.LabelPreChecked] == found[podops.LabelPermission] {
		return nil
	}
	missing := podops.LabelPermission
	if found[missing] {
		missing = podops.LabelPreChecked
	}
	return fmt.Errorf("not found the expected label prefixes: map[%s:{}]", missing)
}

// control is what the controller writes next, if there is something. It does nothing to a
// pod that ends.
func (p lifecycle) control() {
	if p.DeletionTimestamp != nil || p.Labels[podops.LabelManaged] != podops.ManagedValue {
		return
	}
	switch ids := p.ids(); {
	case len(ids) == 0:
		p.serve()
	case p.with(podops.LabelPreCheck) > 0 && p.permit(ids):
	case p.with(podops.LabelPostCheck) > 0 && p.with(podops.LabelPreCheck) == 0:
		for _, id := range ids {
			p.set(id, podops.LabelPostChecked)
		}
	case p.with(podops.LabelPreparing) > 0:
		p.setCondition(corev1.ConditionFalse)
	case p.with(podops.LabelCompleting) > 0:
		p.setCondition(corev1.ConditionTrue)
	}
}

// permit lets the ids pass their pre-check, and reports whether that changed
// something. An id without the label of its type waits for ever.
func (p lifecycle) permit(ids []string) (changed bool) {
	for _, id := range ids {
		kind, typed := p.Labels[podops.LabelOperationType+"/"+id]
		_, permitted := p.Labels[podops.LabelPermission+"/"+kind]
		if !typed || permitted && p.has(podops.LabelPreChecked, id) {
			continue
		}
		changed = true
		p.Labels[podops.LabelPermission+"/"+kind] = "1700000000000000000"
		p.set(id, podops.LabelPreChecked)
	}
	return changed
}

// serve brings a pod that no id is on into service.
func (p lifecycle) serve() {
	if _, available := p.Labels[podops.LabelAvailable]; !available && podops.Ready(p.Pod) && p.expected() {
		p.Labels[podops.LabelAvailable] = "1700000000000000000"
		return
	}
	p.setCondition(corev1.ConditionTrue)
}

// expected is true when all are back that are to serve the pod.
func (p lifecycle) expected() bool {
	with := p.DeepCopy()
	if with.Labels == nil {
		with.Labels = map[string]string{}
	}
	with.Labels[podops.LabelAvailable] = "1"
	with.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	available, err := podops.Available(with)
	return available && err == nil
}

func (p lifecycle) condition() *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == podops.ReadinessGate {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func conditionOf(pod *corev1.Pod) corev1.ConditionStatus {
	if c := (lifecycle{pod}).condition(); c != nil {
		return c.Status
	}
	return ""
}

func (p lifecycle) gated() bool {
	return slices.Contains(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: podops.ReadinessGate})
}

func (p lifecycle) addGate() {
	if !p.gated() {
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: podops.ReadinessGate})
	}
}

// setCondition sets the condition; a pod without the gate has none, and gets none.
func (p lifecycle) setCondition(status corev1.ConditionStatus) {
	if !p.gated() {
		return
	}
	if c := p.condition(); c != nil {
		c.Status = status
		return
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: podops.ReadinessGate, Status: status})
}

// Kubelet makes the pod ready, or not, after its condition, and reports whether
// that changed something.
func Kubelet(pod *corev1.Pod) bool {
	p := lifecycle{pod}
	want := corev1.ConditionTrue
	if c := p.condition(); c != nil {
		want = c.Status
	} else if len(pod.Spec.ReadinessGates) > 0 {
		want = corev1.ConditionFalse
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			changed := c.Status != want
			c.Status = want
			return changed
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: want})
	return true
}
