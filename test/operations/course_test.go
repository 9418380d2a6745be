package operations

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// course is one disruption from its creation until it is gone.
type course struct {
	d         *v1beta1.Disruption
	operation podops.Operation
	began     time.Time
	// moment is when it is deleted, due the time for that, once the moment has come.
	moment  moment
	due     time.Time
	deleted bool
	// drawn are the targets of which is decided what else happens to them.
	drawn map[types.UID]bool
}

// moment is where in its life a disruption is deleted.
type moment string

const (
	straight   moment = "deleted at once"
	preparing  moment = "deleted while Preparing"
	operating  moment = "deleted while Operating"
	completing moment = "deleted while Completing"
	finished   moment = "deleted when finished"
)

var moments = []moment{straight, preparing, preparing, operating, operating, completing, completing, finished}

// late is when a disruption is deleted whose moment has not come.
const late = 45 * time.Second

// begin creates a disruption.
func (s *storm) begin() {
	s.Helper()
	s.made++
	c := &course{moment: moments[s.random.IntN(len(moments))], began: time.Now(), drawn: map[types.UID]bool{}}
	d := s.Disruption(fmt.Sprintf("storm-%05d", s.made), 2+s.random.IntN(7))
	if c.moment == completing || c.moment == finished {
		d.Spec.Duration = &v1beta1.Duration{Duration: time.Duration(4+s.random.IntN(12)) * time.Second}
	}
	seconds := func(least, most int) *int { n := least + s.random.IntN(most-least+1); return &n }
	d.Spec.PodOpsLifecycle = &v1beta1.PodOpsLifecycle{
		Policy: v1beta1.OperationsJoined, UnmanagedPods: v1beta1.SkipUnmanaged,
		WhenBusy:                []v1beta1.WhenBusy{v1beta1.SkipBusy, v1beta1.WaitForBusy}[s.random.IntN(2)],
		OnConcurrentOperation:   []v1beta1.OnConcurrentOperation{v1beta1.ReleaseTarget, v1beta1.KeepTarget}[s.random.IntN(2)],
		OperatingTimeoutSeconds: seconds(2, 20), AvailableTimeoutSeconds: seconds(3, 10), BusyTimeoutSeconds: seconds(1, 10),
		ProtectTargets: s.random.IntN(3) > 0, ProtectionTimeoutSeconds: seconds(2, 15),
	}
	c.d = s.Create(d)
	c.operation = podops.OfDisruption(d.UID)
	s.courses = append(s.courses, c)
	s.tally["disruptions"]++
}

// gone looks at a disruption, and is true when nothing of it is there any more.
func (s *storm) gone(c *course) bool {
	if !s.See(c.d) && c.deleted {
		if held := s.held(c.operation); len(held) > 0 {
			s.Errorf("seed %d: %s (%s) is gone and has not given back %v", *seed, c.d.Name, c.operation.ID, held)
		}
		return true
	}
	for _, pod := range s.now() {
		if c.operation.Begun(pod) && !c.drawn[pod.UID] {
			c.drawn[pod.UID] = true
			s.draw(c, pod)
		}
	}
	switch {
	case c.deleted:
	case c.due.IsZero() && (s.come(c) || time.Since(c.began) > late):
		hesitates := 500
		if c.moment == preparing {
			hesitates = 50 // it passes
		}
		c.due = time.Now().Add(time.Duration(s.random.IntN(hesitates)) * time.Millisecond)
		if !s.come(c) {
			c.moment = "deleted after it was waited for in vain"
		}
	case !c.due.IsZero() && time.Now().After(c.due):
		c.deleted = true
		s.tally[string(c.moment)]++
		if err := s.Disruptions.Delete(s.Context(), c.d.DeepCopy()); err != nil && !apierrors.IsNotFound(err) {
			s.Fatal(err)
		}
	}
	return false
}

// come is true when the moment has come.
func (s *storm) come(c *course) bool {
	some := func(is func(*corev1.Pod) bool) bool { return slices.ContainsFunc(s.now(), is) }
	switch c.moment {
	case preparing:
		return some(func(pod *corev1.Pod) bool { return c.operation.Begun(pod) && !c.operation.Holds(pod) })
	case operating:
		return s.injected(c.operation) > 0
	case completing:
		return some(func(pod *corev1.Pod) bool { return c.operation.On(pod) && !c.operation.Begun(pod) })
	case finished:
		return c.d.Settled()
	}
	return true
}

// held are pods that the operation of a disruption that is gone has still. Labels that
// the driver leaves on until the pod is in service are none.
func (s *storm) held(operation podops.Operation) (held []string) {
	list, err := s.Kube.CoreV1().Pods(s.Shop).List(s.Context(), metav1.ListOptions{})
	s.Must(err)
	for i := range list.Items {
		if pod := &list.Items[i]; operation.Protects(pod) || operation.Begun(pod) && pod.DeletionTimestamp == nil {
			held = append(held, fmt.Sprintf("%s: %v", pod.Name, traces(pod)))
		}
	}
	return held
}

// going describes what still runs, for people.
func (s *storm) going() string {
	var output []string
	for _, c := range s.courses {
		output = append(output, fmt.Sprintf("%s (%s, deleted: %t): %s, %+v", c.d.Name, c.operation.ID, c.deleted, c.d.Status.Phase, c.d.Status.Conditions))
	}
	return strings.Join(append(output, s.left()...), "\n")
}

// strike is what is done to a target at its time.
type strike struct {
	at     time.Time
	what   string
	target types.UID
	of     podops.Operation
}

// The deeds done to targets.
const (
	deletes    = "targets deleted"
	takesLabel = "labels taken off by others"
	takesKept  = "protections taken off by others"
	takesUntil = "labels of protections taken off by others"
	operates   = "operations of others"
)

var strikes = []string{deletes, takesLabel, takesLabel, takesKept, takesUntil, operates, operates}

// draw decides whether something is done to a target, what, and when.
func (s *storm) draw(c *course, pod *corev1.Pod) {
	if s.random.IntN(2) == 0 {
		at := time.Now().Add(time.Duration(s.random.IntN(5000)) * time.Millisecond)
		s.strikes = append(s.strikes, strike{at, strikes[s.random.IntN(len(strikes))], pod.UID, c.operation})
	}
}

// strike does what is due, if there is still something to do it to.
func (s *storm) strike() {
	pods := map[types.UID]*corev1.Pod{}
	for _, pod := range s.now() {
		pods[pod.UID] = pod
	}
	s.strikes = slices.DeleteFunc(s.strikes, func(x strike) bool {
		if time.Now().Before(x.at) {
			return false
		}
		if pod := pods[x.target]; pod != nil && pod.DeletionTimestamp == nil {
			s.struck(x, pod)
		}
		return true
	})
}

func (s *storm) struck(x strike, pod *corev1.Pod) {
	switch x.what {
	case deletes:
		s.disturb(pod.UID, s.operationsOn(pod)...)
		err := s.Kube.CoreV1().Pods(s.Shop).Delete(s.Context(), pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Fatal(err)
		}
	case takesLabel:
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(pod.Labels)) {
			if strings.HasSuffix(key, "."+podops.Domain+"/"+x.of.ID) {
				labels = append(labels, key)
			}
		}
		if len(labels) == 0 || !x.of.Begun(pod) {
			return
		}
		s.disturb(pod.UID, x.of)
		s.patch(pod, fmt.Sprintf(`{"metadata":{"uid":%q,"labels":{%q:null}}}`, pod.UID, labels[s.random.IntN(len(labels))]))
	case takesKept, takesUntil:
		if !x.of.Protects(pod) {
			return
		}
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"$deleteFromPrimitiveList/finalizers":[%q]}}`, pod.UID, podops.FinalizerPrefix+x.of.ID)
		if x.what == takesUntil {
			patch = fmt.Sprintf(`{"metadata":{"uid":%q,"labels":{%q:null}}}`, pod.UID, podops.LabelProtected+"/"+x.of.ID)
		}
		s.patch(pod, patch)
	case operates:
		s.beginOther(pod)
	}
	s.tally[x.what]++
}

// operationsOn are those of all disruptions on a pod.
func (s *storm) operationsOn(pod *corev1.Pod) (found []podops.Operation) {
	for _, c := range s.courses {
		if c.operation.On(pod) {
			found = append(found, c.operation)
		}
	}
	return found
}

// patch writes to a pod and returns false if Kuperator's webhook refused that, as it does
// for some labels and while it is away. A pod that is gone is no error.
func (s *storm) patch(pod *corev1.Pod, patch string) (accepted bool) {
	_, err := s.Kube.CoreV1().Pods(s.Shop).Patch(s.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	if s.webhook != nil && (apierrors.IsForbidden(err) || apierrors.IsInternalError(err)) {
		s.tally["writes of others refused"]++
		return false
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
		s.Fatal(err)
	}
	return true
}

// other is another client's operation on a pod.
type other struct {
	operation podops.Operation
	target    types.UID
	until     time.Time
	seen      bool // on the pod, by a watch, which may be late
}

func (s *storm) beginOther(pod *corev1.Pod) {
	s.made++
	o := &other{operation: podops.Operation{ID: fmt.Sprintf("rollout-%d", s.made), Type: "rollout"}, target: pod.UID}
	o.until = time.Now().Add(time.Duration(s.random.IntN(8000)) * time.Millisecond)
	if s.patch(pod, string(o.operation.Begin(pod.UID, time.Now()))) {
		s.others = append(s.others, o)
	}
}

// ended lets the other client return the pod to service when its time is over, and
// is true when nothing of its operation is left.
func (s *storm) ended(o *other) bool {
	pods := s.now()
	at := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == o.target })
	if at < 0 || pods[at].DeletionTimestamp != nil {
		return true
	}
	on := o.operation.On(pods[at])
	if o.seen && !on {
		return true
	}
	o.seen = on
	if patch := o.operation.End(pods[at]); on && patch != nil && time.Now().After(o.until) {
		s.patch(pods[at], string(patch))
	}
	return false
}
