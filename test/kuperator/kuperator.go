package kuperator

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/kube/podops"
)

// Move makes the next step on the pod, if there is one, and says whether there was.
func Move(pod *corev1.Pod) bool {
	if pod.Labels[podops.LabelManaged] != podops.ManagedValue {
		return false
	}
	p := lifecycle{pod}
	for _, id := range p.ids() {
		if p.undo(id) || p.begin(id) || !p.deleting() && (p.permit(id) || p.prepare(id) || p.operate(id)) {
			return true
		}
	}
	if p.deleting() {
		return false
	}
	for _, id := range p.ids() {
		if p.finish(id) || p.complete(id) {
			return true
		}
	}
	return p.serve()
}

type lifecycle struct{ *corev1.Pod }

func (p lifecycle) deleting() bool { return p.DeletionTimestamp != nil }

// ids are those of all lifecycles on the pod, in order.
func (p lifecycle) ids() (ids []string) {
	for key := range p.Labels {
		kind, id, _ := strings.Cut(key, "/")
		if strings.HasSuffix(kind, "."+podops.Domain) && kind != podops.LabelPermission && !slices.Contains(ids, id) {
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

// undo takes off all labels of an id, at any stage before its end.
func (p lifecycle) undo(id string) bool {
	if !p.has(podops.LabelUndo, id) {
		return false
	}
	delete(p.Labels, podops.LabelPermission+"/"+p.Labels[podops.LabelUndo+"/"+id])
	for key := range p.Labels {
		if strings.HasSuffix(key, "/"+id) {
			delete(p.Labels, key)
		}
	}
	if len(p.ids()) == 0 {
		p.setCondition(corev1.ConditionTrue)
	}
	return true
}

// begin: an id whose pre-check was passed before, and left behind, passes it again.
func (p lifecycle) begin(id string) bool {
	if !p.has(podops.LabelOperating, id) || p.has(podops.LabelPreCheck, id) || p.has(podops.LabelPreChecked, id) || p.has(podops.LabelOperate, id) {
		return false
	}
	p.set(id, podops.LabelPreCheck)
	return true
}

func (p lifecycle) permit(id string) bool {
	if !p.has(podops.LabelOperating, id) || !p.has(podops.LabelPreCheck, id) {
		return false
	}
	p.drop(id, podops.LabelPreCheck)
	p.set(id, podops.LabelPreChecked, podops.LabelPreparing)
	p.Labels[podops.LabelPermission+"/"+p.Labels[podops.LabelOperationType+"/"+id]] = "1700000000000000000"
	delete(p.Labels, podops.LabelAvailable)
	return true
}

// prepare takes the pod out of service, if it has the condition.
func (p lifecycle) prepare(id string) bool {
	return p.has(podops.LabelOperating, id) && p.has(podops.LabelPreparing, id) && p.setCondition(corev1.ConditionFalse)
}

// operate gives the pod once nobody serves it; one without the condition at once.
func (p lifecycle) operate(id string) bool {
	serves := slices.ContainsFunc(p.Finalizers, func(f string) bool { return strings.HasPrefix(f, podops.FinalizerPrefix) })
	if !p.has(podops.LabelOperating, id) || !p.has(podops.LabelPreparing, id) || serves && p.condition() != nil {
		return false
	}
	p.drop(id, podops.LabelPreparing)
	p.set(id, podops.LabelOperate)
	return true
}

// finish waits for all other operations.
func (p lifecycle) finish(id string) bool {
	for _, other := range p.ids() {
		if p.has(podops.LabelOperating, other) {
			return false
		}
	}
	if !p.has(podops.LabelOperate, id) {
		return false
	}
	delete(p.Labels, podops.LabelPermission+"/"+p.Labels[podops.LabelOperationType+"/"+id])
	p.drop(id, podops.LabelOperate, podops.LabelOperationType, podops.LabelPreChecked)
	p.set(id, podops.LabelOperated, podops.LabelDoneType, podops.LabelPostCheck)
	return true
}

func (p lifecycle) complete(id string) bool {
	after := []string{podops.LabelOperated, podops.LabelDoneType, podops.LabelPostChecked, podops.LabelCompleting}
	switch {
	case p.has(podops.LabelPostCheck, id):
		p.drop(id, podops.LabelPostCheck)
		p.set(id, podops.LabelPostChecked, podops.LabelCompleting)
		return true
	case !p.has(podops.LabelCompleting, id):
		return false
	case p.setCondition(corev1.ConditionTrue):
		return true
	case !p.expected():
		return false
	}
	p.drop(id, after...)
	return true
}

// serve says that the pod is in service.
func (p lifecycle) serve() bool {
	_, available := p.Labels[podops.LabelAvailable]
	if available || len(p.ids()) > 0 {
		return false
	}
	if p.condition() == nil && slices.ContainsFunc(p.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == podops.ReadinessGate }) {
		return p.setCondition(corev1.ConditionTrue)
	}
	if !podops.Ready(p.Pod) || !p.expected() {
		return false
	}
	p.Labels[podops.LabelAvailable] = "1700000000000000000"
	return true
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

// setCondition says whether it changed something: a pod without the gate has no such
// condition, and gets none.
func (p lifecycle) setCondition(status corev1.ConditionStatus) bool {
	if !slices.ContainsFunc(p.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == podops.ReadinessGate }) {
		return false
	}
	c := p.condition()
	if c == nil {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: podops.ReadinessGate, Status: status})
		return true
	}
	changed := c.Status != status
	c.Status = status
	return changed
}

// Kubelet makes the pod ready, or not, as its condition says, and says whether that
// was news.
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
