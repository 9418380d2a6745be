//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// TestStuckAndResumed (rules 44-46, 48) has a target that neither an injector nor
// a cleaner can clean. Its chaos pod is kept and every status reports it; the
// others are cleaned; a person releases the target through Temporal.
func TestStuckAndResumed(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(3)
	d := s.injected(s.create("stuck", "{selector: {app: target}, count: 3, duration: 10m, "+quick+"}"))
	bad := s.chaosPodOf(d, "target-1")
	s.killForGood(d, bad)
	d = s.await(d, "stuck while it goes on", func(d *v1beta1.Disruption) bool { return d.Status.IsStuckOnRemoval })

	s.delete(d)
	for _, pod := range s.chaosPods(t, d) {
		if pod.Name != bad.Name {
			s.awaitGone(pod)
		}
	}
	d = s.await(d, "stuck at its end", func(d *v1beta1.Disruption) bool { return d.Status.Phase == v1beta1.PhaseStuck })
	s.wantStuck(d, bad)

	if err := s.resume(d, map[string]any{"action": "release"}); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("a release without who and why: %v, want it refused for that", err)
	}
	if err := s.resume(d, map[string]any{"action": "release", "by": "e2e", "reason": "its injector was killed by the test"}); err != nil {
		t.Fatal(err)
	}
	s.gone(d)
	s.record("stuck-and-resumed", d)
	s.repairNode(d, bad.Spec.NodeName)
}

// wantStuck looks where a person would.
func (s *space) wantStuck(d *v1beta1.Disruption, bad corev1.Pod) {
	s.t.Helper()
	c := condition(d, v1beta1.ConditionStuckOnRemoval)
	if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, bad.Name) || !strings.Contains(c.Message, bad.Spec.NodeName) {
		s.t.Errorf("condition StuckOnRemoval = %+v, want True with chaos pod %s and node %s", c, bad.Name, bad.Spec.NodeName)
	}
	if events := s.events(d.Name, "StuckOnRemoval"); len(events) == 0 || !strings.Contains(events[0].Message, bad.Name) {
		s.t.Errorf("events StuckOnRemoval = %v, want one that names %s", events, bad.Name)
	}
	live, err := s.kube.CoreV1().Pods(chaosNamespace).Get(s.t.Context(), bad.Name, metav1.GetOptions{})
	if err != nil || !slices.Contains(live.Finalizers, v1beta1.ChaosPodFinalizer) {
		s.t.Errorf("the failed chaos pod: %v, finalizers %v; want it kept with its finalizer", err, live.Finalizers)
	}
}

// rule 46: the finalizer is taken off by hand.
func TestStuckAndFinalizerTakenOffByHand(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(1)
	d, bad := s.stick("ripped")
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := s.kube.CoreV1().Pods(chaosNamespace).Patch(t.Context(), bad.Name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.gone(d)
	s.repairNode(d, bad.Spec.NodeName)
}

// rules 38-40: what failed to clean a target that is gone now is let go.
func TestStuckUntilTheTargetIsGone(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	target := s.targets(1)[0]
	d, bad := s.stick("outlived")
	if err := s.kube.CoreV1().Pods(s.name).Delete(t.Context(), target.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.gone(d)
	s.repairNode(d, bad.Spec.NodeName)
}

// TestStuckAndTriedAgain: after the node is repaired and a person asks for a
// retry, a fresh pod cleans what a killed injector left, and the person has
// nothing more to do.
func TestStuckAndTriedAgain(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(1)
	before := s.snapshots(pods)
	d, bad := s.stick("tried-again")
	s.probe(t, nil, bad.Spec.NodeName, "restore", "--disruption", string(d.UID))
	if err := s.resume(d, map[string]any{"action": "retry"}); err != nil {
		t.Fatal(err)
	}
	s.gone(d)
	s.wantSame(before, s.snapshots(pods))
	if output := s.injector(bad.Spec.NodeName, "audit"); strings.Contains(output, string(d.UID)) {
		t.Errorf("%s still carries marks of %s: %s", bad.Spec.NodeName, d.UID, output)
	}
	s.record("stuck-and-retried", d)
}

// stick makes a disruption of one target that is deleted and stuck.
func (s *space) stick(name string) (*v1beta1.Disruption, corev1.Pod) {
	s.t.Helper()
	d := s.injected(s.create(name, "{selector: {app: target}, count: 1, duration: 10m, "+quick+"}"))
	bad := s.chaosPodOf(d, "target-0")
	s.killForGood(d, bad)
	s.delete(d)
	return s.await(d, "stuck", func(d *v1beta1.Disruption) bool { return d.Status.Phase == v1beta1.PhaseStuck }), bad
}

// killForGood kills an injector and spoils its journal, so that no cleaner can
// clean after it.
func (s *space) killForGood(d *v1beta1.Disruption, pod corev1.Pod) {
	s.t.Helper()
	s.probe(s.t, nil, pod.Spec.NodeName, "spoil", "--disruption", string(d.UID))
	s.killInjector(pod)
}

// repairNode repairs the damage of killForGood, and cleans.
func (s *space) repairNode(d *v1beta1.Disruption, node string) {
	s.t.Helper()
	s.probe(s.t, nil, node, "restore", "--disruption", string(d.UID))
	s.cleanNode(d, node)
}

// resume sends the update that people send from Temporal's web interface.
func (s *space) resume(d *v1beta1.Disruption, resume map[string]any) error {
	s.t.Helper()
	handle, err := s.temporal.UpdateWorkflow(s.t.Context(), client.UpdateWorkflowOptions{
		WorkflowID: workflowID(d), UpdateName: "resume", Args: []any{resume}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return handle.Get(s.t.Context(), nil)
}
