package activities

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// rule 25
func TestADisruptionInTheNamespaceOfTheChaosPodsIsRejected(t *testing.T) {
	c := newCluster(t)
	c.Shop = c.Namespace
	c.MakeTargets(2, nil)
	ref := c.Disruption("inside", nil)
	plan := do[prepare.Plan](c, c.Prepare, ref)
	for _, part := range []string{"namespace " + c.Namespace, "create it in the namespace of its targets"} {
		if !strings.Contains(plan.Rejected, part) {
			t.Errorf("rejected because of %q, want %q in it", plan.Rejected, part)
		}
		c.WantCondition(ref, v1beta1.ConditionAccepted, metav1.ConditionFalse, part)
	}
	if phase := c.Get(ref).Status.Phase; phase != v1beta1.PhaseRejected {
		t.Errorf("phase %s, want Rejected", phase)
	}
	if events := c.EventsOf("InvalidSpec"); len(events) != 1 || events[0].Type != corev1.EventTypeWarning {
		t.Errorf("events = %+v, want one warning", events)
	}
}

// A version with a stricter validation must clean up disruptions of an older version.
func TestWhatWasBegunAndIsInvalidNowIsCleaned(t *testing.T) {
	inTwoYears := func(spec *v1beta1.DisruptionSpec) {
		spec.Triggers = &v1beta1.DisruptionTriggers{CreatePods: v1beta1.DisruptionTrigger{NotBefore: metav1.NewTime(time.Now().AddDate(2, 0, 0))}}
	}
	const invalid = "spec.duration"
	t.Run("without a record it never began: it is rejected", func(t *testing.T) {
		c := newCluster(t)
		ref := c.Disruption("new", inTwoYears)
		plan := do[prepare.Plan](c, c.Prepare, ref)
		if !strings.Contains(plan.Rejected, invalid) || plan.CleanOnly != "" {
			t.Errorf("plan = %+v, want it rejected because of %q", plan, invalid)
		}
		if phase := c.Get(ref).Status.Phase; phase != v1beta1.PhaseRejected {
			t.Errorf("phase %s, want Rejected", phase)
		}
	})
	t.Run("with a record it was begun: it is cleaned", func(t *testing.T) {
		c := newCluster(t)
		ref := c.Disruption("old", inTwoYears)
		_, err := c.Targets.StoreSpec(t.Context(), c.Get(ref), "a run of an older version", nil)
		c.Must(err)
		c.restartWorker()
		plan := do[prepare.Plan](c, c.Prepare, ref)
		if !strings.Contains(plan.CleanOnly, invalid) || plan.Rejected != "" {
			t.Errorf("plan = %+v, want it only cleaned because of %q", plan, invalid)
		}
		if phase := c.Get(ref).Status.Phase; phase == v1beta1.PhaseRejected {
			t.Errorf("phase %s: it would count as ended though it was begun", phase)
		}
	})
}

// restartWorker clears what the activities keep in memory.
func (c *testCluster) restartWorker() {
	c.Targets = targets.NewStore(c.Kube, c.Namespace, c.Targets.Watch, c.Activities.Parallel)
}

// A status write must not change the owners of fields: the next `kubectl apply
// --server-side` needs them.
func TestStatusWritesKeepWhoOwnsTheFields(t *testing.T) {
	c := newCluster(t)
	ref := c.Disruption("calm", nil)
	made, err := c.Disruptions.Get(c.Context(), ref)
	c.Must(err)
	change := func(message string) {
		c.Must(c.Disruptions.UpdateStatus(c.Context(), ref, func(d *v1beta1.Disruption) {
			status.SetCondition(d, v1beta1.ConditionInjected, metav1.ConditionFalse, "CreateFailed", message)
		}))
	}
	change("first")
	change("again, from what the first write returned")
	written, err := c.Disruptions.Get(c.Context(), ref)
	c.Must(err)
	if len(made.ManagedFields) != 1 || len(written.ManagedFields) != 2 || written.ManagedFields[1].Subresource != "status" {
		t.Fatalf("managed fields after a status write: %v, before: %v; want those and the status", written.ManagedFields, made.ManagedFields)
	}
	if diff := cmp.Diff(made.ManagedFields[0], written.ManagedFields[0]); diff != "" {
		t.Errorf("the creator's fields (-before +after):\n%s", diff)
	}
}
