package operations

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// book has the observed changes of targets and chaos pods. The API server's
// resource version of each change gives their order.
type book struct {
	mu         sync.Mutex
	targets    map[types.UID]*seen
	injections map[types.UID]*injection
	// disturbed are operations of which a label was removed, or whose pod was deleted:
	// Kuperator's permission for them may be gone.
	disturbed map[pair]bool
	// ever has, by the kind of a label, the operations of disruptions that had it.
	ever map[string]map[pair]bool
}

// seen is what one target was, one state after the other.
type seen struct {
	name   string
	states []state
	gone   bool
}

// state is a pod, of which only what is about operations is kept.
type state struct {
	version int64
	pod     *corev1.Pod
}

// injection is one chaos pod.
type injection struct {
	name          string
	of            pair
	created, gone int64
}

// pair is an operation on a pod.
type pair struct {
	target    types.UID
	operation podops.Operation
}

func newBook() *book {
	return &book{targets: map[types.UID]*seen{}, injections: map[types.UID]*injection{}, disturbed: map[pair]bool{}, ever: map[string]map[pair]bool{}}
}

func version(pod *corev1.Pod) int64 {
	v, _ := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	return v
}

func (b *book) saw(pod *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.targets[pod.UID] == nil {
		b.targets[pod.UID] = &seen{name: pod.Name}
	}
	of := b.targets[pod.UID]
	if n := len(of.states); n > 0 && of.states[n-1].version >= version(pod) {
		return
	}
	of.states = append(of.states, state{version(pod), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID, Labels: pod.Labels, Annotations: pod.Annotations, Finalizers: pod.Finalizers, DeletionTimestamp: pod.DeletionTimestamp},
		Spec:       corev1.PodSpec{ReadinessGates: pod.Spec.ReadinessGates},
		Status:     corev1.PodStatus{Conditions: pod.Status.Conditions},
	}})
	for key := range pod.Labels {
		if kind, id, _ := strings.Cut(key, "/"); strings.HasPrefix(id, "chaos-") {
			if b.ever[kind] == nil {
				b.ever[kind] = map[pair]bool{}
			}
			b.ever[kind][pair{pod.UID, podops.Operation{ID: id, Type: "chaos"}}] = true
		}
	}
}

func (b *book) sawGone(pod *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets[pod.UID].gone = true
}

func (b *book) sawInjector(pod *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	uid := types.UID(pod.Labels[v1beta1.LabelDisruptionUID])
	if b.injections[pod.UID] == nil && pod.Labels[v1beta1.LabelCleaner] == "" && uid != "" {
		of := pair{chaospod.TargetUID(pod), podops.OfDisruption(uid)}
		b.injections[pod.UID] = &injection{name: pod.Name, of: of, created: version(pod)}
	}
}

func (b *book) sawInjectorGone(pod *corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.injections[pod.UID]; i != nil {
		i.gone = version(pod)
	}
}

// disturb notes that something is done to what the operation has on the pod.
func (b *book) disturb(target types.UID, operations ...podops.Operation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, operation := range operations {
		b.disturbed[pair{target, operation}] = true
	}
}

// now are the targets as they were last seen.
func (b *book) now() (pods []*corev1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range b.targets {
		if !of.gone {
			pods = append(pods, of.states[len(of.states)-1].pod)
		}
	}
	slices.SortFunc(pods, func(x, y *corev1.Pod) int { return strings.Compare(x.Name, y.Name) })
	return pods
}

// there is the number of targets that are not being deleted; inService those of
// them that serve.
func (b *book) there() (n int) {
	for _, pod := range b.now() {
		if pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func (b *book) inService() (n int) {
	for _, pod := range b.now() {
		if in, err := podops.Available(pod); in && err == nil && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// injected is how many chaos pods the operation has.
func (b *book) injected(operation podops.Operation) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range b.injections {
		if i.of.operation == operation && i.gone == 0 {
			n++
		}
	}
	return n
}

// begun is how many operations disruptions have begun.
func (b *book) begun() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ever[podops.LabelOperating])
}

func (b *book) count() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return map[string]int{
		"operations begun": len(b.ever[podops.LabelOperating]), "operations given": len(b.ever[podops.LabelOperate]),
		"operations undone": len(b.ever[podops.LabelUndo]), "targets protected": len(b.ever[podops.LabelProtected]), "injections": len(b.injections),
	}
}

// judge returns the injections into pods that were not permitted, or not out of
// service, and the pods that were returned to service with an injection. Where the
// operation's labels were removed, the pod must have been permitted before.
func (b *book) judge() (wrong []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range b.injections {
		target := b.targets[i.of.target]
		if target == nil {
			wrong = append(wrong, fmt.Sprintf("%s was injected into a pod that nobody has seen", i.name))
			continue
		}
		given, ever, back := false, false, int64(0)
		for _, s := range target.states {
			served := slices.Contains(s.pod.Finalizers, traffic)
			switch now := i.of.operation.Next(s.pod) == podops.StepOperate && !served; {
			case s.version < i.created:
				given, ever = now, ever || now
			case !i.of.operation.Holds(s.pod) && back == 0:
				back = s.version
			}
		}
		disturbed := b.disturbed[i.of]
		if !given && !disturbed || !ever {
			wrong = append(wrong, fmt.Sprintf("%s was made when %s was not given to %s and out of service (disturbed: %t)", i.name, target.name, i.of.operation.ID, disturbed))
		}
		if back > 0 && (i.gone == 0 || i.gone > back) && !disturbed {
			wrong = append(wrong, fmt.Sprintf("%s was given back by %s at version %d before %s was gone at %d", target.name, i.of.operation.ID, back, i.name, i.gone))
		}
	}
	slices.Sort(wrong)
	return wrong
}
