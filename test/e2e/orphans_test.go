//go:build e2e

package e2e

import (
	"fmt"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

var noFinalizers = []byte(`{"metadata":{"finalizers":null}}`)

// A finalizer that is ripped off while everything runs: the bridge notices, and
// the disruption ends as if it had been deleted.
func TestRippedOffDisruptionIsCleaned(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2)
	before := s.snapshots(pods)
	d := s.injected(s.create("ripped", "{selector: {app: target}, count: 2, duration: 10m, "+quick+"}"))
	began := time.Now()
	s.ripOff(d)
	eventually(t, func() string { return s.left(t.Context()) })
	t.Logf("nothing is left after %s", time.Since(began).Round(100*time.Millisecond))
	s.wantSame(before, s.snapshots(pods))
}

// ripOff lets a Disruption go by force, also where a bridge puts the finalizer
// on again.
func (s *space) ripOff(d *v1beta1.Disruption) {
	s.t.Helper()
	rest := s.kube.Discovery().RESTClient()
	for s.read(d) != nil {
		for _, err := range []error{
			rest.Patch("application/merge-patch+json").AbsPath(s.path(d.Name)).Body(noFinalizers).Do(s.t.Context()).Error(),
			rest.Delete().AbsPath(s.path(d.Name)).Do(s.t.Context()).Error(),
		} {
			if err != nil && !apierrors.IsNotFound(err) {
				s.t.Fatal(err)
			}
		}
	}
}

// force is `kubectl delete --force --grace-period=0` after the finalizer was
// taken off.
func (s *space) force(pod corev1.Pod) {
	s.t.Helper()
	now := int64(0)
	pods := s.kube.CoreV1().Pods(chaosNamespace)
	if _, err := pods.Patch(s.t.Context(), pod.Name, "application/merge-patch+json", noFinalizers, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
	if err := pods.Delete(s.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
		s.t.Fatal(err)
	}
}

// sweepResult is what a person reads of a sweep.
type sweepResult struct {
	Summary        string
	Nodes, Audited int
	Records, Marks struct{ Found, Cleaned, Left int }
	Left, Skipped  []map[string]string
}

// sweep triggers the schedule, as the button in Temporal's web interface does.
func (s *space) sweep() (result sweepResult) {
	s.t.Helper()
	before := s.sweeps()
	if err := s.temporal.ScheduleClient().GetHandle(s.t.Context(), "squall-sweep").Trigger(s.t.Context(), client.ScheduleTriggerOptions{}); err != nil {
		s.t.Fatal(err)
	}
	var id string
	eventually(s.t, func() string {
		for name := range s.sweeps() {
			if !before[name] {
				id = name
				return ""
			}
		}
		return "no sweep has begun"
	})
	if err := s.temporal.GetWorkflow(s.t.Context(), id, "").Get(s.t.Context(), &result); err != nil {
		s.t.Fatal(fmt.Errorf("sweep %s: %w", id, err))
	}
	return result
}

func (s *space) sweeps() map[string]bool {
	s.t.Helper()
	answer, err := s.temporal.ListWorkflow(s.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: `WorkflowType = "Sweep"`})
	if err != nil {
		s.t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, one := range answer.GetExecutions() {
		ids[one.GetExecution().GetWorkflowId()] = true
	}
	return ids
}
