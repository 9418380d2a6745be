package podops

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// LabelProtected has the ID of an operation behind the slash. Its value is the time
// until which the operation's finalizer stays on the pod, in Unix seconds. Behind a dot
// follows the limit: for how many seconds at most it stays once another operation wants
// the pod. A value without a limit means that another operation waits, and the time is
// the end of its wait. The label is on the pod, so that a controller that was killed in
// between starts no new time.
const LabelProtected = "protected-until.chaos.squall.dev" // pod: ends with the ID of an operation; time until which its finalizer stays

// ofProtection matches a finalizer by which a disruption serves a pod, in terms of
// PodOpsLifecycle: as long as the pod has it, no other operation is given the pod.
var ofProtection = regexp.MustCompile(`^` + regexp.QuoteMeta(FinalizerPrefix) + `(chaos-[0-9a-f]{16})$`)

// Protect returns the patch that protects the pod from other operations until then, and
// for no longer than limit once another one waits for it; nil when it is protected
// already. The patch is refused if the pod has changed since it was read. The pod must
// be given to the operation, and the end of that removes the protection.
func (o Operation) Protect(pod *corev1.Pod, until time.Time, limit time.Duration) []byte {
	if o.Protects(pod) {
		return nil
	}
	return patchOf(map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "finalizers": []string{FinalizerPrefix + o.ID},
		"labels": map[string]any{o.label(LabelProtected): fmt.Sprintf("%d.%d", until.Unix(), int(limit.Seconds()))},
	})
}

// Unprotect returns the patch that removes the result of Protect, whatever else is
// there.
func (o Operation) Unprotect(pod types.UID) []byte {
	return patchOf(map[string]any{
		"uid": pod, "$deleteFromPrimitiveList/finalizers": []string{FinalizerPrefix + o.ID}, "labels": map[string]any{o.label(LabelProtected): nil},
	})
}

// UnprotectUnchanged is Unprotect for a pod that has not changed since it was read, so
// that a protection is never removed twice.
func (o Operation) UnprotectUnchanged(pod *corev1.Pod) []byte {
	return patchOf(map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
		"$deleteFromPrimitiveList/finalizers": []string{FinalizerPrefix + o.ID}, "labels": map[string]any{o.label(LabelProtected): nil},
	})
}

// shorten returns the patch that ends the protection at until. It is refused if the pod
// has changed since it was read, because the protection may have been shortened
// already.
func (o Operation) shorten(pod *corev1.Pod, until time.Time) []byte {
	return unchangedPatch(pod, map[string]any{o.label(LabelProtected): fmt.Sprint(until.Unix())})
}

// Protects is true for a pod that the operation protects from others.
func (o Operation) Protects(pod *corev1.Pod) bool {
	return slices.ContainsFunc(Protections(pod), func(p Protection) bool { return p.Operation.ID == o.ID })
}

// Protection is the mark of a disruption's operation that protects a pod from other
// operations.
type Protection struct {
	Operation Operation
	// until is the end of the protection; the zero time, which is long past, without a
	// valid label.
	until time.Time
	// limit bounds how long others wait for it; 0 once another one waits.
	limit time.Duration
}

// Protections returns the protections of the pod, in the order of its finalizers. A
// protection with only a label left counts too.
func Protections(pod *corev1.Pod) (found []Protection) {
	var ids []string
	for _, finalizer := range pod.Finalizers {
		if match := ofProtection.FindStringSubmatch(finalizer); match != nil {
			ids = append(ids, match[1])
		}
	}
	var labelled []string
	for key := range pod.Labels {
		if kind, id, _ := strings.Cut(key, "/"); kind == LabelProtected && !slices.Contains(ids, id) {
			labelled = append(labelled, id)
		}
	}
	slices.Sort(labelled)
	for _, id := range append(ids, labelled...) {
		protection := Protection{Operation: Operation{ID: id, Type: "chaos"}}
		protection.until, protection.limit = protectedUntil(pod.Labels[LabelProtected+"/"+id])
		found = append(found, protection)
	}
	return found
}

func protectedUntil(value string) (until time.Time, limit time.Duration) {
	first, second, _ := strings.Cut(value, ".")
	seconds, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return time.Time{}, 0
	}
	limited, _ := strconv.Atoi(second)
	return time.Unix(seconds, 0), time.Duration(limited) * time.Second
}

// Over returns why the protection must be removed now, whatever the disruption does;
// empty while it may stay.
func (p Protection) Over(pod *corev1.Pod, now time.Time) string {
	busy := p.Operation.Busy(pod)
	switch {
	case now.Before(p.until):
		return ""
	case busy != "":
		return "others have waited for the pod for as long as they have to: " + busy
	case p.until.IsZero():
		return "its label " + p.Operation.label(LabelProtected) + " was removed"
	}
	return "its time was over at " + p.until.UTC().Format(time.RFC3339)
}

// Next returns the next write for a protection that is not over, and when to check
// again. When another operation wants the pod for the first time, the patch sets the
// end of its wait, which is never later than before.
func (p Protection) Next(pod *corev1.Pod, now time.Time) (patch []byte, wait time.Duration) {
	if waits := now.Add(p.limit); p.limit > 0 && p.Operation.Busy(pod) != "" && waits.Before(p.until) {
		return p.Operation.shorten(pod, waits), p.limit
	}
	return nil, p.until.Sub(now)
}

// patchOf is a strategic merge patch: a merge patch would replace other finalizers.
func patchOf(metadata map[string]any) []byte {
	patch, _ := json.Marshal(map[string]any{"metadata": metadata}) // of strings alone: cannot fail
	return patch
}
