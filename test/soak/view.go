package main

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/promise"
)

// lookGap is the time between two looks at the cluster, and so how exact the
// times of disruptions are. A list needs no server that stays, as a watch does.
const lookGap = 300 * time.Millisecond

// trial is one disruption of the soak. The view guards all that changes.
type trial struct {
	plan
	name    string
	storm   bool // begun while everything is killed
	uid     types.UID
	created time.Time
	// begun is true when the bridge was seen to have taken it up.
	begun    bool
	injected bool
	// asked is when it was to end, ended when it was seen to have.
	asked, ended time.Time
	// stuck is its last reported question to a person.
	stuck string
	// early are the nodes that held a journal of it when it had ended, or that could
	// not be read then.
	early []string
	// status is the last that was seen.
	status v1beta1.DisruptionStatus
}

// view is what was last seen of the cluster.
type view struct {
	mu     sync.Mutex
	trials map[string]*trial
	chaos  []corev1.Pod
	system []corev1.Pod
}

func newView() *view { return &view{trials: map[string]*trial{}} }

// watch looks again and again until the context ends.
func (s *soak) watch(ctx context.Context) {
	for promise.Pause(ctx, lookGap) == nil {
		if chaos, err := s.kube.CoreV1().Pods(chaosNamespace).List(ctx, metav1.ListOptions{}); err == nil {
			s.view.set(&s.view.chaos, chaos.Items)
		}
		if system, err := s.kube.CoreV1().Pods(systemNamespace).List(ctx, metav1.ListOptions{}); err == nil {
			s.view.set(&s.view.system, system.Items)
		}
		began := time.Now()
		var all v1beta1.DisruptionList
		if s.client.List(ctx, &all, client.InNamespace(s.space)) == nil {
			s.seeDisruptions(all.Items, began)
		}
	}
}

func (v *view) set(to *[]corev1.Pod, pods []corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	*to = pods
}

// pods returns those of a list that are wanted.
func (v *view) pods(of *[]corev1.Pod, wanted func(corev1.Pod) bool) (found []corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, pod := range *of {
		if wanted(pod) {
			found = append(found, pod)
		}
	}
	return found
}

// seeDisruptions brings the trials up to date by a list that was asked for at a
// time.
func (s *soak) seeDisruptions(list []v1beta1.Disruption, asked time.Time) {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	there := map[types.UID]bool{}
	for _, d := range list {
		there[d.UID] = true
		if t := s.view.trials[d.Name]; t != nil && t.uid == d.UID {
			s.see(t, &d)
		}
	}
	for _, t := range s.view.trials {
		if !t.created.IsZero() && t.created.Before(asked) && !there[t.uid] {
			s.over(t)
		}
	}
}

func (s *soak) see(t *trial, d *v1beta1.Disruption) {
	held := slices.Contains(d.Finalizers, v1beta1.DisruptionFinalizer)
	t.begun = t.begun || held
	t.injected = t.injected || d.Status.InjectedTime != nil
	t.status = d.Status
	if d.Status.IsStuckOnRemoval {
		if t.stuck == "" {
			s.screen.logf("stuck: %s: %s", t.name, stuckMessage(d))
		}
		t.stuck = stuckMessage(d)
	}
	if !held && (d.Status.Phase == v1beta1.PhaseFinished || d.Status.Phase == v1beta1.PhaseRejected) {
		s.over(t)
	}
}

// over notes the end of a trial, and what is on the nodes of it then.
func (s *soak) over(t *trial) {
	if t.ended.IsZero() {
		t.ended = time.Now()
		var err error
		if t.early, err = s.journalsOf(t.uid); err != nil {
			t.early = append(t.early, err.Error()) // a node that could not be read is not clean
		}
	}
}

func stuckMessage(d *v1beta1.Disruption) string {
	for _, c := range d.Status.Conditions {
		if c.Type == v1beta1.ConditionStuckOnRemoval {
			return c.Message
		}
	}
	return "it does not say why"
}

// read runs a function that looks at a trial.
func (v *view) read(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
}

// underWay is how many trials have not ended; the caller is in read.
func (v *view) underWay() (n int) {
	for _, t := range v.trials {
		if t.ended.IsZero() {
			n++
		}
	}
	return n
}

// count counts the trials that are as wanted.
func (v *view) count(wanted func(*trial) bool) (n int) {
	v.read(func() {
		for _, t := range v.trials {
			if wanted(t) {
				n++
			}
		}
	})
	return n
}
