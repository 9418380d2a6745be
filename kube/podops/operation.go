package podops

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Operation is one lifecycle on pods. Its type is the value of one label and part of
// the name of another, so both ID and Type have at most 63 characters.
type Operation struct{ ID, Type string }

// OfDisruption is the operation of the disruption with this UID.
func OfDisruption(uid types.UID) Operation {
	sum := sha256.Sum256([]byte(uid))
	return Operation{ID: "chaos-" + hex.EncodeToString(sum[:8]), Type: "chaos"}
}

// The patches below are merge patches, of either kind, that carry the pod's UID: the API server
// answers one that is meant for another pod of the name with 422 (Invalid), as a UID
// cannot change. They carry no version, as the driver writes to the pod several times within 100 ms. A driver
// that is away answers with 500: whoever ends an operation has to try again for as
// long as it takes.

// ofDisruption is the ID of an operation of a disruption.
var ofDisruption = regexp.MustCompile(`^chaos-[0-9a-f]{16}$`)

// OfDisruptions are the operations of disruptions that were begun on the pod and not
// ended, in order, and those of which labels are left that no driver takes off.
func OfDisruptions(pod *corev1.Pod) (found []Operation) {
	for key := range pod.Labels {
		_, id, _ := strings.Cut(key, "/")
		o := Operation{ID: id, Type: "chaos"}
		if ofDisruption.MatchString(id) && o.owns(key) && (o.Begun(pod) || o.forgotten(pod) || o.untyped(pod)) && !slices.Contains(found, o) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b Operation) int { return strings.Compare(a.ID, b.ID) })
	return found
}

// Begin asks for the pod. It writes these two labels and nothing else.
func (o Operation) Begin(pod types.UID, now time.Time) []byte {
	return labelsPatch(pod, map[string]any{o.label(LabelOperating): fmt.Sprint(now.UnixNano()), o.label(LabelOperationType): o.Type})
}

// End is the next patch that ends the operation on the pod, and nil when nothing is left to
// ask for. Before the operation may change the pod it is undone, and after that finished: one
// that is finished too early leaves labels for good, and the next one of the same
// id then skips what comes before an operation.
//
// Labels that somebody took off need more. Kuperator refuses the end of an operation
// without the label of its type, and reads that label from the pod as it was before the
// write: the label is put back first, and the next patch ends the operation. Labels that
// mean nothing to Kuperator, and all labels of a pod that no driver moves any more, are
// taken off.
func (o Operation) End(pod *corev1.Pod) []byte { return labelsPatch(pod.UID, o.ending(pod)) }

// EndUnchanged is End, and refused if somebody wrote to the pod since it was read: a
// driver may have ended the operation.
func (o Operation) EndUnchanged(pod *corev1.Pod) []byte { return unchangedPatch(pod, o.ending(pod)) }

// ending is what End changes of the labels.
func (o Operation) ending(pod *corev1.Pod) map[string]any {
	switch {
	case !Managed(pod), pod.DeletionTimestamp != nil, o.forgotten(pod):
		return o.stripped(pod)
	case o.untyped(pod):
		return map[string]any{o.label(LabelOperationType): o.Type}
	case !o.has(pod, LabelOperating), o.has(pod, LabelUndo):
		return nil // the driver takes the labels off
	case o.has(pod, LabelOperate):
		return map[string]any{o.label(LabelOperating): nil}
	}
	return map[string]any{o.label(LabelUndo): o.Type}
}

// Strip takes all labels of the operation off the pod; nil when it has none. That is
// for a pod that no driver moves any more: it stays as that driver has left it.
func (o Operation) Strip(pod *corev1.Pod) []byte { return labelsPatch(pod.UID, o.stripped(pod)) }

// stripped has the permission of the type, too, unless another operation may have it:
// Kuperator refuses a permission on a pod that has passed no pre-check.
func (o Operation) stripped(pod *corev1.Pod) map[string]any {
	labels := map[string]any{}
	for key := range pod.Labels {
		if o.owns(key) || key == LabelPermission+"/"+o.Type && !o.shared(pod) {
			labels[key] = nil
		}
	}
	return labels
}

// shared is true for a pod with another operation that has passed its pre-check, and may
// be of the same type.
func (o Operation) shared(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		kind, id, _ := strings.Cut(key, "/")
		if of, known := pod.Labels[LabelOperationType+"/"+id]; kind == LabelPreChecked && id != o.ID && (!known || of == o.Type) {
			return true
		}
	}
	return false
}

// Stray is the patch that takes off the permission of the operation's type when no
// operation is left on the pod that could have it: a driver forgets it when somebody
// took the label of the type off meanwhile, and the next operation would pass by it. nil
// when there is none. It is refused if somebody wrote to the pod since it was read.
func (o Operation) Stray(pod *corev1.Pod) []byte {
	permission := LabelPermission + "/" + o.Type
	if _, found := pod.Labels[permission]; !found {
		return nil
	}
	for key := range pod.Labels {
		kind, id, found := strings.Cut(key, "/")
		if !found || kind == LabelPermission || !strings.HasSuffix(kind, "."+Domain) {
			continue
		}
		if of, known := pod.Labels[LabelOperationType+"/"+id]; !known || of == o.Type {
			return nil
		}
	}
	return unchangedPatch(pod, map[string]any{permission: nil})
}

// Stands is true for a pod on which a driver has done nothing about the end of the
// operation that was asked for, and waits for no other one either.
func (o Operation) Stands(pod *corev1.Pod) bool {
	return o.On(pod) && !o.any(pod, LabelPostCheck, LabelCompleting) && !o.others(pod)
}

// Completing is true for a pod on which a driver has accepted the end of the operation.
func (o Operation) Completing(pod *corev1.Pod) bool {
	return o.any(pod, LabelPostCheck, LabelPostChecked, LabelCompleting)
}

// forgotten is true for a pod with labels of the operation of which none makes Kuperator
// do anything, not even Undo: somebody took off those that did.
func (o Operation) forgotten(pod *corev1.Pod) bool {
	return o.On(pod) && !o.any(pod, LabelOperating, LabelOperate, LabelOperated)
}

// untyped is true for a pod on which the operation goes on without the label of its type:
// somebody took that off.
func (o Operation) untyped(pod *corev1.Pod) bool {
	return o.any(pod, LabelOperating, LabelOperate) && !o.any(pod, LabelOperationType, LabelOperated, LabelUndo)
}

// On is true for a pod that has a label of the operation, whichever.
func (o Operation) On(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		if o.owns(key) {
			return true
		}
	}
	return false
}

// others is true for a pod on which another operation goes on.
func (o Operation) others(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		if kind, _, _ := strings.Cut(key, "/"); kind == LabelOperating && !o.owns(key) {
			return true
		}
	}
	return false
}

// owns is true for the name of a label of this operation.
func (o Operation) owns(key string) bool {
	kind, id, found := strings.Cut(key, "/")
	return found && o.ID != "" && id == o.ID && strings.HasSuffix(kind, "."+Domain)
}

// Holds is true while the pod is given to the operation, in service or not. A label that
// somebody took off, the one of the type too, takes the pod back.
func (o Operation) Holds(pod *corev1.Pod) bool { return o.given(pod) && o.has(pod, LabelOperationType) }

// given is Holds for an operation that needs no label of its type any more.
func (o Operation) given(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && o.Begun(pod) && o.has(pod, LabelOperate)
}

// Missing is a label of Begin that somebody took off; empty when none is missing.
func (o Operation) Missing(pod *corev1.Pod) string {
	for _, kind := range []string{LabelOperating, LabelOperationType} {
		if !o.has(pod, kind) {
			return o.label(kind)
		}
	}
	return ""
}

// Begun is true for a pod that was asked for and is not asked to be given back.
func (o Operation) Begun(pod *corev1.Pod) bool {
	return o.has(pod, LabelOperating) && !o.has(pod, LabelUndo)
}

// Selector selects the pods that were asked for.
func (o Operation) Selector() string { return o.label(LabelOperating) }

// Awaits says what the operation waits for on the pod, for people.
func (o Operation) Awaits(pod *corev1.Pod) string {
	var serving []string
	for _, finalizer := range pod.Finalizers {
		if strings.HasPrefix(finalizer, FinalizerPrefix) {
			serving = append(serving, finalizer)
		}
	}
	switch {
	case o.has(pod, LabelUndo):
		return "an earlier operation is being undone"
	case o.has(pod, LabelOperate):
		return "it is given, and still ready"
	case o.has(pod, LabelPreparing) && len(serving) > 0:
		return "its service controllers have not released it: finalizer " + strings.Join(serving, ", ")
	case o.has(pod, LabelPreparing):
		return "it is being taken out of service"
	case o.has(pod, LabelPreCheck):
		return "the driver has not permitted it yet (" + o.label(LabelPreCheck) + ")"
	case o.has(pod, LabelOperating):
		return "no driver has answered yet (" + o.label(LabelOperating) + ")"
	}
	return "it was not asked for yet"
}

// Step is what an operation that wants a pod has to do next.
type Step string

// The steps in their order.
const (
	// StepUnmanaged: no driver moves this pod, so nobody would ever say that it may be
	// operated on, or say so whoever still serves it.
	StepUnmanaged Step = "Unmanaged"
	// StepBegin: nothing was begun yet.
	StepBegin Step = "Begin"
	// StepWait: it was begun, and the pod is not given yet, or still has traffic.
	StepWait Step = "Wait"
	// StepOperate: the pod is given, and out of service.
	StepOperate Step = "Operate"
	// StepGiveUp: the pod ends. No driver moves it any further.
	StepGiveUp Step = "GiveUp"
)

// Next says what comes next on the pod. That it may be operated on does not mean
// that its traffic is gone: without a finalizer of who brings the traffic that is
// said a second or two before the kubelet says that the pod is not ready.
func (o Operation) Next(pod *corev1.Pod) Step {
	switch {
	case pod.DeletionTimestamp != nil:
		return StepGiveUp
	case !o.has(pod, LabelOperating) && !Managed(pod):
		return StepUnmanaged
	case !o.has(pod, LabelOperating):
		return StepBegin
	case o.Holds(pod) && conditionIs(pod, corev1.PodReady, corev1.ConditionFalse):
		return StepOperate
	}
	return StepWait
}

// Managed is true for a pod that a driver moves from phase to phase.
func Managed(pod *corev1.Pod) bool {
	known := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == ReadinessGate })
	return Drivable(pod) && known
}

// Ready is true for a pod whose kubelet says so.
func Ready(pod *corev1.Pod) bool { return conditionIs(pod, corev1.PodReady, corev1.ConditionTrue) }

// Available is true for a pod that is in service again: it is said to be, it is
// ready, and all are back that are to bring traffic to it. The label alone may come
// before the traffic does. The error names an annotation that cannot be read.
func Available(pod *corev1.Pod) (bool, error) {
	_, labelled := pod.Labels[LabelAvailable]
	back, err := expected(pod)
	return back && labelled && conditionIs(pod, corev1.PodReady, corev1.ConditionTrue), err
}

// expected is true when all are back that are to bring traffic to the pod.
func expected(pod *corev1.Pod) (bool, error) {
	missing, err := MissingFinalizers(pod)
	return err == nil && len(missing) == 0, err
}

// MissingFinalizers are those of all that are to bring traffic to the pod and are not
// back, in order. The error names an annotation that cannot be read.
func MissingFinalizers(pod *corev1.Pod) (missing []string, err error) {
	expected := struct {
		ExpectedFinalizers map[string]string `json:"expectedFinalizers"`
	}{}
	if text := pod.Annotations[AnnotationAvailable]; text != "" {
		if err := json.Unmarshal([]byte(text), &expected); err != nil {
			return nil, fmt.Errorf("annotation %s of pod %s/%s: %w", AnnotationAvailable, pod.Namespace, pod.Name, err)
		}
	}
	for _, finalizer := range expected.ExpectedFinalizers {
		if !slices.Contains(pod.Finalizers, finalizer) {
			missing = append(missing, finalizer)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

func conditionIs(pod *corev1.Pod, condition corev1.PodConditionType, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition && c.Status == status })
}

func (o Operation) label(kind string) string { return kind + "/" + o.ID }

func (o Operation) has(pod *corev1.Pod, kind string) bool {
	_, found := pod.Labels[o.label(kind)]
	return found
}

func (o Operation) any(pod *corev1.Pod, kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(kind string) bool { return o.has(pod, kind) })
}

// labelsPatch sets labels, or takes those off whose value is nil; nil for none.
func labelsPatch(pod types.UID, labels map[string]any) []byte {
	if len(labels) == 0 {
		return nil
	}
	return patchOf(map[string]any{"uid": pod, "labels": labels})
}

// unchangedPatch is labelsPatch, and refused if somebody wrote to the pod since it was read.
func unchangedPatch(pod *corev1.Pod, labels map[string]any) []byte {
	if len(labels) == 0 {
		return nil
	}
	return patchOf(map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "labels": labels})
}
