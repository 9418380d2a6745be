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

// The patches below are merge patches, of either kind, that carry the pod's UID. If a
// patch is for another pod of the name, the API server answers 422 (Invalid), because a
// UID cannot change. They carry no version, because the driver writes to the pod
// several times within 100 ms. While the driver's webhook is unreachable, the API
// server answers 500: the caller that ends an operation has to retry until it succeeds.

// ofDisruption matches the ID of an operation of a disruption.
var ofDisruption = regexp.MustCompile(`^chaos-[0-9a-f]{16}$`)

// OfDisruptions returns, in order, the operations of disruptions that were begun on the
// pod and not ended, and the operations with left labels that no driver removes.
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

// Begin requests the pod. It writes these two labels and nothing else.
func (o Operation) Begin(pod types.UID, now time.Time) []byte {
	return labelsPatch(pod, map[string]any{o.label(LabelOperating): fmt.Sprint(now.UnixNano()), o.label(LabelOperationType): o.Type})
}

// End returns the next patch that ends the operation on the pod, or nil if nothing is
// left to request. An operation that may not change the pod yet is undone, a later one
// finished. An operation that is finished too early leaves labels for good, and the
// next one with its id would skip the checks.
//
// Removed labels need more. Kuperator refuses the end of an operation without the label
// of its type, and reads that label from the pod as it was before the write. So one
// patch restores the label, and the next one ends the operation. End removes labels
// that mean nothing to Kuperator, and all labels of a pod that no driver moves any
// more.
func (o Operation) End(pod *corev1.Pod) []byte { return labelsPatch(pod.UID, o.ending(pod)) }

// EndUnchanged is End, and refused if the pod has changed since it was read: a driver
// may have ended the operation.
func (o Operation) EndUnchanged(pod *corev1.Pod) []byte { return unchangedPatch(pod, o.ending(pod)) }

// ending returns the changes of End.
func (o Operation) ending(pod *corev1.Pod) map[string]any {
	switch {
	case !Managed(pod), pod.DeletionTimestamp != nil, o.forgotten(pod):
		return o.stripped(pod)
	case o.untyped(pod):
		return map[string]any{o.label(LabelOperationType): o.Type}
	case !o.has(pod, LabelOperating), o.has(pod, LabelUndo):
		return nil // the driver removes the labels
	case o.has(pod, LabelOperate):
		return map[string]any{o.label(LabelOperating): nil}
	}
	return map[string]any{o.label(LabelUndo): o.Type}
}

// Strip removes all labels of the operation from the pod; nil when it has none. It is
// for a pod that no driver moves any more, and leaves the rest as the driver left it.
func (o Operation) Strip(pod *corev1.Pod) []byte { return labelsPatch(pod.UID, o.stripped(pod)) }

// stripped includes the permission of the type, unless another operation may have it:
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

// shared is true for a pod with another operation that has passed its pre-check, and
// may be of the same type.
func (o Operation) shared(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		kind, id, _ := strings.Cut(key, "/")
		if of, known := pod.Labels[LabelOperationType+"/"+id]; kind == LabelPreChecked && id != o.ID && (!known || of == o.Type) {
			return true
		}
	}
	return false
}

// Stray returns the patch that removes the permission of the operation's type when no
// operation is left on the pod that could have it. A driver forgets the permission if
// the label of the type was removed meanwhile, and the next operation would skip the
// check. It is nil without such a permission. It is refused if the pod has changed
// since it was read.
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

// Stands is true for a pod on which the driver has not reacted to the requested end of
// the operation, and does not wait for another operation either.
func (o Operation) Stands(pod *corev1.Pod) bool {
	return o.On(pod) && !o.any(pod, LabelPostCheck, LabelCompleting) && !o.others(pod)
}

// Completing is true for a pod on which a driver has accepted the end of the operation.
func (o Operation) Completing(pod *corev1.Pod) bool {
	return o.any(pod, LabelPostCheck, LabelPostChecked, LabelCompleting)
}

// forgotten is true for a pod with labels of the operation to which Kuperator does not
// react, not even to Undo: the labels to which it reacts were removed.
func (o Operation) forgotten(pod *corev1.Pod) bool {
	return o.On(pod) && !o.any(pod, LabelOperating, LabelOperate, LabelOperated)
}

// untyped is true for a pod on which the operation continues without the label of its
// type, because that was removed.
func (o Operation) untyped(pod *corev1.Pod) bool {
	return o.any(pod, LabelOperating, LabelOperate) && !o.any(pod, LabelOperationType, LabelOperated, LabelUndo)
}

// On is true for a pod that has any label of the operation.
func (o Operation) On(pod *corev1.Pod) bool {
	for key := range pod.Labels {
		if o.owns(key) {
			return true
		}
	}
	return false
}

// others is true for a pod on which another operation runs.
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

// Holds is true while the pod is given to the operation, in service or not. It is false
// once a label is removed, also the label of the type.
func (o Operation) Holds(pod *corev1.Pod) bool { return o.given(pod) && o.has(pod, LabelOperationType) }

// given is Holds for an operation that no longer needs the label of its type.
func (o Operation) given(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && o.Begun(pod) && o.has(pod, LabelOperate)
}

// Missing is a label of Begin that was removed; empty when none is missing.
func (o Operation) Missing(pod *corev1.Pod) string {
	for _, kind := range []string{LabelOperating, LabelOperationType} {
		if !o.has(pod, kind) {
			return o.label(kind)
		}
	}
	return ""
}

// Begun is true for a pod that was requested and whose return was not requested.
func (o Operation) Begun(pod *corev1.Pod) bool {
	return o.has(pod, LabelOperating) && !o.has(pod, LabelUndo)
}

// Selector selects the requested pods.
func (o Operation) Selector() string { return o.label(LabelOperating) }

// Awaits returns what the operation waits for on the pod, for people.
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

// Step is the next action of an operation that wants a pod.
type Step string

// The steps in their order.
const (
	// StepUnmanaged: no driver moves this pod. Either no permission would ever come, or it
	// would come although the pod is still served.
	StepUnmanaged Step = "Unmanaged"
	// StepBegin: nothing was begun yet.
	StepBegin Step = "Begin"
	// StepWait: the operation was begun, and the pod is not given yet, or still has
	// traffic.
	StepWait Step = "Wait"
	// StepOperate: the pod is given, and out of service.
	StepOperate Step = "Operate"
	// StepGiveUp: the pod ends. No driver moves it any further.
	StepGiveUp Step = "GiveUp"
)

// Next returns the next action on the pod. A permission does not mean that its traffic
// is gone: without a finalizer of a service controller it comes a second or two before
// the kubelet reports the pod as not ready.
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

// Ready is true for a pod that its kubelet reports as ready.
func Ready(pod *corev1.Pod) bool { return conditionIs(pod, corev1.PodReady, corev1.ConditionTrue) }

// Available is true for a pod that is in service again: its label reports that, it is
// ready, and all its service controllers are back. The label alone may be earlier than
// the traffic. The error names an annotation that cannot be read.
func Available(pod *corev1.Pod) (bool, error) {
	_, labelled := pod.Labels[LabelAvailable]
	back, err := expected(pod)
	return back && labelled && conditionIs(pod, corev1.PodReady, corev1.ConditionTrue), err
}

// expected is true when all service controllers of the pod are back.
func expected(pod *corev1.Pod) (bool, error) {
	missing, err := MissingFinalizers(pod)
	return err == nil && len(missing) == 0, err
}

// MissingFinalizers returns, in order, the finalizers of the pod's service controllers
// that are not back. The error names an annotation that cannot be read.
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

// labelsPatch sets labels, and removes those whose value is nil; nil for no labels.
func labelsPatch(pod types.UID, labels map[string]any) []byte {
	if len(labels) == 0 {
		return nil
	}
	return patchOf(map[string]any{"uid": pod, "labels": labels})
}

// unchangedPatch is labelsPatch, and refused if the pod has changed since it was read.
func unchangedPatch(pod *corev1.Pod, labels map[string]any) []byte {
	if len(labels) == 0 {
		return nil
	}
	return patchOf(map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "labels": labels})
}
