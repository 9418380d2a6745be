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

// LabelProtected says, behind the slash of which operation, until when its finalizer
// stays on the pod: as Unix seconds, and, behind a dot, for how many seconds at most
// once somebody else wants the pod. Without the second, somebody does, and the first is
// when that time is over. It stands on the pod, so that whoever looks at it knows: a
// bridge that was killed in between begins no new time.
const LabelProtected = "protected-until.chaos.squall.dev" // pod: ends with the ID of an operation; time until which its finalizer stays

// ofProtection is a finalizer by which a disruption serves a pod, in the words of
// PodOpsLifecycle: as long as it is there, no other operation is given the pod.
var ofProtection = regexp.MustCompile(`^` + regexp.QuoteMeta(FinalizerPrefix) + `(chaos-[0-9a-f]{16})$`)

// Protect is the patch that keeps others from the pod until then, and for no longer than
// limit once somebody waits for it; nil when it is done already. It is refused if
// somebody wrote to the pod since it was read: it is for a pod that is given, and what
// ends that takes the protection off.
func (o Operation) Protect(pod *corev1.Pod, until time.Time, limit time.Duration) []byte {
	if o.Protects(pod) {
		return nil
	}
	return patchOf(map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, "finalizers": []string{FinalizerPrefix + o.ID},
		"labels": map[string]any{o.label(LabelProtected): fmt.Sprintf("%d.%d", until.Unix(), int(limit.Seconds()))},
	})
}

// Unprotect is the patch that takes off what Protect put on, whatever else is there.
func (o Operation) Unprotect(pod types.UID) []byte {
	return patchOf(map[string]any{
		"uid": pod, "$deleteFromPrimitiveList/finalizers": []string{FinalizerPrefix + o.ID}, "labels": map[string]any{o.label(LabelProtected): nil},
	})
}

// UnprotectUnchanged is Unprotect of a pod that nobody wrote to since it was read: a
// protection that somebody else has taken off is not taken off once more.
func (o Operation) UnprotectUnchanged(pod *corev1.Pod) []byte {
	return patchOf(map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion,
		"$deleteFromPrimitiveList/finalizers": []string{FinalizerPrefix + o.ID}, "labels": map[string]any{o.label(LabelProtected): nil},
	})
}

// shorten is the patch by which the protection ends then. It is refused if somebody
// wrote to the pod since it was read, as it may have been shortened already.
func (o Operation) shorten(pod *corev1.Pod, until time.Time) []byte {
	return unchangedPatch(pod, map[string]any{o.label(LabelProtected): fmt.Sprint(until.Unix())})
}

// Protects is true for a pod from which the operation keeps others.
func (o Operation) Protects(pod *corev1.Pod) bool {
	return slices.ContainsFunc(Protections(pod), func(p Protection) bool { return p.Operation.ID == o.ID })
}

// Protection is what a disruption's operation has put on a pod to keep others from it.
type Protection struct {
	Operation Operation
	// until is when it ends; the zero time, which is long over, where nothing says it.
	until time.Time
	// limit is how long others wait for it at most; 0 once somebody does.
	limit time.Duration
}

// Protections are those on the pod, in the order of its finalizers. One of which only
// the label is left counts too.
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

// Over says why the protection is to be taken off now, whatever the disruption does;
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

// Next is what has to be written about a protection that is not over, and when to look
// again. The first time that somebody else wants the pod, it is said until when they
// have to wait; that is never later than it was.
func (p Protection) Next(pod *corev1.Pod, now time.Time) (patch []byte, wait time.Duration) {
	if waits := now.Add(p.limit); p.limit > 0 && p.Operation.Busy(pod) != "" && waits.Before(p.until) {
		return p.Operation.shorten(pod, waits), p.limit
	}
	return nil, p.until.Sub(now)
}

// patchOf is a strategic merge patch: a merge patch would replace the finalizers of
// others.
func patchOf(metadata map[string]any) []byte {
	patch, _ := json.Marshal(map[string]any{"metadata": metadata}) // of strings alone: it cannot fail
	return patch
}
