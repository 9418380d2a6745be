//go:build e2e

package e2e

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

var wakeups = flag.Int("wakeups", 1, "how often each case of the tests of waiting and surplus targets runs")

// wakeup is something that a disruption of one target waits for.
type wakeup struct {
	name    string
	targets int
	// hinder sees to it that the disruption waits, and free ends this.
	hinder, free func(s *space)
	// spec is more of the waiting disruption's spec.
	spec string
}

var wakeupCases = []wakeup{
	{name: "a claim of another disruption", targets: 1,
		hinder: (*space).hold, free: func(s *space) { s.deleteAndWait("holder") }},
	{name: "a place of a policy", targets: 2,
		hinder: (*space).holdPlace, free: func(s *space) { s.deleteAndWait("holder") }},
	{name: "a PodDisruptionBudget", targets: 1, spec: "podDisruptionBudget: Respect, ",
		hinder: func(s *space) { s.budget(1) }, free: func(s *space) { s.budget(0) }},
	{name: "a pod that matches", targets: 1,
		hinder: func(s *space) { s.label(s.running("target-0"), "other") }, free: func(s *space) { s.label(s.running("target-0"), "target") }},
}

// A disruption that waits is injected soon after the reason is gone. How soon, beside a
// disruption that has nothing to wait for, is logged.
func TestAWaitingDisruptionLearnsAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range wakeupCases {
		t.Run(c.name, func(t *testing.T) {
			s := newSpace(t)
			s.targets(c.targets)
			var direct, took []time.Duration
			for range *wakeups {
				began := time.Now()
				d := s.injected(s.create("waiter", waiterSpec(c.spec)))
				direct = append(direct, time.Since(began))
				s.deleteAndWait(d.Name)

				c.hinder(s)
				d = s.create("waiter", waiterSpec(c.spec))
				s.await(d, "waiting for a target", func(d *v1beta1.Disruption) bool {
					return condition(d, v1beta1.ConditionTargetsSelected).Status == metav1.ConditionFalse
				})
				began = time.Now()
				c.free(s)
				s.injected(d)
				took = append(took, time.Since(began))
				s.deleteAndWait(d.Name)
			}
			t.Logf("%d runs: without a wait %s, from the event to injected %s", *wakeups, spread(direct), spread(took))
		})
	}
}

// A target that is one too many, or no longer matches, is cleaned up soon after the change.
// How soon its chaos pod is gone is logged.
func TestSurplusAndUnmatchedTargetsAreCleanedUp(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(targets, others []string) []string{
		"one too many": func(_, others []string) []string { return others },
		"unmatched":    func(targets, _ []string) []string { return targets[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t)
			s.targets(4)
			d := s.injected(s.create("half", "{selector: {app: target}, count: 50%, duration: 2h, "+quick+"}"))
			var took []time.Duration
			for range *wakeups {
				targets := names(s.read(d))
				others := slices.DeleteFunc([]string{"target-0", "target-1", "target-2", "target-3"}, func(pod string) bool { return slices.Contains(targets, pod) })
				before := s.chaosPods(t, d)
				changed := change(targets, others)
				for _, pod := range changed {
					s.label(s.running(pod), "other")
				}
				began := time.Now()
				eventually(t, func() string {
					now := s.chaosPods(t, d)
					for _, pod := range before {
						if !slices.ContainsFunc(now, func(p corev1.Pod) bool { return p.UID == pod.UID }) {
							return ""
						}
					}
					return fmt.Sprintf("all %d chaos pods are there", len(before))
				})
				took = append(took, time.Since(began))
				for _, pod := range changed {
					s.label(s.running(pod), "target")
				}
				s.await(d, "two targets again", func(d *v1beta1.Disruption) bool {
					return len(names(d)) == 2 && len(s.chaosPods(t, d)) == 2 && d.Status.InjectionStatus == v1beta1.Injected
				})
			}
			t.Logf("%d runs: from the change to a chaos pod that is gone %s", *wakeups, spread(took))
		})
	}
}

func waiterSpec(more string) string {
	return "{selector: {app: target}, count: 1, duration: 30m, " + more + quick + "}"
}

// spread is the median and the 95th percentile of durations.
func spread(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("median %s, p95 %s", all[len(all)/2].Round(time.Millisecond), all[len(all)*95/100].Round(time.Millisecond))
}

// deleteAndWait deletes a disruption of the space by its name and waits until it is gone.
func (s *space) deleteAndWait(name string) {
	s.t.Helper()
	d := &v1beta1.Disruption{}
	if err := s.readInto(s.path(name), d); err != nil {
		s.t.Fatal(err)
	}
	s.delete(d)
	s.gone(d)
}

// hold disrupts a target.
func (s *space) hold() {
	s.t.Helper()
	s.injected(s.create("holder", waiterSpec("")))
}

// holdPlace disrupts a target, under a policy of one at most.
func (s *space) holdPlace() {
	s.t.Helper()
	const policies = "/apis/chaos.squall.dev/v1beta1/disruptionpolicies/"
	if err := s.kube.Discovery().RESTClient().Get().AbsPath(policies + s.name).Do(s.t.Context()).Error(); apierrors.IsNotFound(err) {
		s.policy("[{name: one, namespaces: [" + s.name + "], atMost: {targets: 1}}]")
	}
	s.hold()
}

// budget makes or changes the PodDisruptionBudget of the targets.
func (s *space) budget(available int) {
	s.t.Helper()
	budgets := s.kube.PolicyV1().PodDisruptionBudgets(s.name)
	least := intstr.FromInt32(int32(available))
	patch := fmt.Appendf(nil, `{"spec":{"minAvailable":%d}}`, available)
	_, err := budgets.Patch(s.t.Context(), "targets", types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = budgets.Create(s.t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "targets"}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "target"}},
		}}, metav1.CreateOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, func() string {
		found, err := budgets.Get(s.t.Context(), "targets", metav1.GetOptions{})
		if err != nil || found.Status.ObservedGeneration != found.Generation || found.Status.DisruptionsAllowed != int32(1-available) {
			return fmt.Sprintf("the budget is not counted: %v, %+v", err, found.Status)
		}
		return ""
	})
}
