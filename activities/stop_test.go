package activities

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

// createdAtOnce is the number of chaos pods that CreateChaosPods creates between two checks
// for a stop.
const createdAtOnce = 50

const fire = "emergency stop fire: payment is down"

func TestAnEmergencyStopRefusesWhatNeverBegan(t *testing.T) {
	for name, stop := range map[string]func(*testCluster, v1beta1.DisruptionRef){
		"a stop exists":                  func(c *testCluster, _ v1beta1.DisruptionRef) { c.emergencyStop() },
		"one stopped it and was deleted": func(c *testCluster, ref v1beta1.DisruptionRef) { c.mark(ref) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			ref := c.Disruption("sneaked-in", nil)
			stop(c, ref)
			plan := do[prepare.Plan](c, c.Prepare, ref)
			if plan.Rejected != fire {
				t.Errorf("plan = %+v, want it rejected because of %q", plan, fire)
			}
			d := c.Get(ref)
			if d.Status.Phase != v1beta1.PhaseRejected || d.Status.Ending != fire {
				t.Errorf("phase %s, ending %q, want Rejected because of %q", d.Status.Phase, d.Status.Ending, fire)
			}
			c.WantCondition(ref, v1beta1.ConditionAccepted, metav1.ConditionFalse, fire)
			if events := c.EventsOf(v1beta1.ReasonEmergencyStop); len(events) != 1 || events[0].Type != corev1.EventTypeWarning || events[0].Message != fire {
				t.Errorf("events = %+v, want one warning that says %q", events, fire)
			}
		})
	}
}

func TestAnEmergencyStopOnlyCleansWhatBegan(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	ref := c.started("running", all)
	c.emergencyStop()
	if plan := do[prepare.Plan](c, c.Prepare, ref); plan.CleanOnly != fire || plan.Rejected != "" {
		t.Errorf("plan = %+v, want only cleaning because of %q", plan, fire)
	}
	do[any](c, c.ReportPhase, status.Report{Disruption: ref, Phase: v1beta1.PhaseCleaning, Ending: fire})
	if events := c.EventsOf(v1beta1.ReasonEmergencyStop); len(events) != 1 || !strings.HasPrefix(events[0].Message, fire) {
		t.Errorf("events = %+v, want one that says %q", events, fire)
	}
	if got := c.Get(ref).Status.Ending; got != fire {
		t.Errorf("ending = %q, want %q", got, fire)
	}
	c.WantCondition(ref, v1beta1.ConditionInjected, metav1.ConditionFalse, fire)
}

// The targets were chosen before the worker knew of the stop.
func TestNoChaosPodIsCreatedForWhatWasStopped(t *testing.T) {
	for name, s := range map[string]struct {
		stop func(*testCluster, v1beta1.DisruptionRef)
		want string
	}{
		"a stop exists":                  {func(c *testCluster, _ v1beta1.DisruptionRef) { c.emergencyStop() }, fire},
		"one stopped it and was deleted": {func(c *testCluster, ref v1beta1.DisruptionRef) { c.mark(ref) }, fire},
		"its object is gone": {func(c *testCluster, ref v1beta1.DisruptionRef) {
			c.Must(c.Disruptions.RemoveFinalizer(c.Context(), ref, func(*v1beta1.Disruption) error { return nil }))
			c.Must(c.Plain.Delete().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Do(c.Context()).Error())
		}, cluster.EndingGone},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.MakeTargets(2, nil)
			ref := c.Disruption("late", all)
			do[prepare.Plan](c, c.Prepare, ref)
			added := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}).Added
			s.stop(c, ref)
			created := do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: added[0]}})
			if n := len(c.ChaosPodsOf(ref)); created.Stopped != s.want || created.Pods != 0 || n != 0 {
				t.Errorf("created = %+v and %d chaos pods are there, want none because of %q", created, n, s.want)
			}
		})
	}
}

// A slow worker that Temporal has timed out stops soon after the object is gone.
func TestCreationEndsSoonAfterItsDisruptionIsGone(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(3*createdAtOnce, nil)
	ref := c.Disruption("late", all)
	do[prepare.Plan](c, c.Prepare, ref)
	added := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}).Added
	var vanish sync.Once
	c.through(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPost && path.Base(r.URL.Path) == "pods" {
			vanish.Do(func() {
				c.Must(c.Disruptions.RemoveFinalizer(c.Context(), ref, func(*v1beta1.Disruption) error { return nil }))
				c.Must(c.Plain.Delete().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Do(c.Context()).Error())
			})
		}
		return nil, nil
	})
	created := do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: added[0]}})
	if n := len(c.ChaosPodsOf(ref)); created.Stopped != cluster.EndingGone || created.Pods != createdAtOnce || n != createdAtOnce {
		t.Errorf("created = %+v and %d chaos pods are there, want the first %d and then none", created, n, createdAtOnce)
	}
}

// A worker that cannot check for a stop creates nothing, neither before the first chaos pod
// nor between two groups of them.
func TestWhoCannotLookForAStopDoesNotInject(t *testing.T) {
	for read, fails := range map[string]func(ref v1beta1.DisruptionRef, path string) bool{
		"the disruption":      func(ref v1beta1.DisruptionRef, p string) bool { return strings.HasSuffix(p, "/disruptions/"+ref.Name) },
		"the emergency stops": func(_ v1beta1.DisruptionRef, p string) bool { return path.Base(p) == "emergencystops" },
	} {
		for look, first := range map[string]int{"before the first chaos pod": 0, "after the first group": createdAtOnce} {
			t.Run(read+" cannot be read "+look, func(t *testing.T) {
				c := newCluster(t)
				c.MakeTargets(createdAtOnce+1, nil)
				ref := c.Disruption("blind", all)
				do[prepare.Plan](c, c.Prepare, ref)
				added := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}).Added
				var blind atomic.Bool
				blind.Store(first == 0)
				c.through(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPost && path.Base(r.URL.Path) == "pods" {
						blind.Store(true)
					}
					return nil, nil
				})
				c.readsFail(func(p string) bool { return blind.Load() && fails(ref, p) })
				_, err := c.env.ExecuteActivity(c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: added[0]}})
				if err == nil || !strings.Contains(err.Error(), "look whether disruption") || !strings.Contains(err.Error(), errBlind.Error()) {
					t.Errorf("CreateChaosPods() = %v, want the error of the look for a stop", err)
				}
				if n := len(c.ChaosPodsOf(ref)); n != first {
					t.Errorf("%d chaos pods are there, want %d", n, first)
				}
			})
		}
	}
}

var errBlind = errors.New("the API server does not answer")

// readsFail makes the activities' reads of Squall's own resources fail on the paths for
// which fails is true.
func (c *testCluster) readsFail(fails func(path string) bool) {
	c.Helper()
	config := apiserver.Start(c.T)
	config.QPS = -1
	config.Wrap(func(server http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && fails(r.URL.Path) {
				return nil, errBlind
			}
			return server.RoundTrip(r)
		})
	})
	var err error
	c.Activities.Disruptions, err = status.NewDisruptions(config)
	c.Must(err)
}

// emergencyStop creates an emergency stop that is deleted with the test.
func (c *testCluster) emergencyStop() {
	c.Helper()
	stop := &v1beta1.EmergencyStop{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "EmergencyStop"},
		ObjectMeta: metav1.ObjectMeta{Name: "fire"}, Spec: v1beta1.EmergencyStopSpec{Reason: "payment is down"},
	}
	seen := func(exists bool) {
		c.Helper()
		c.Eventually("the API server's cache knows of the stop, and of its end", func() bool {
			stop, err := c.Disruptions.CachedEmergencyStop(context.Background())
			return err == nil && (stop != "") == exists
		})
	}
	c.Must(c.Plain.Post().Resource("emergencystops").Body(stop).Do(c.Context()).Error())
	c.Cleanup(func() {
		if err := c.Plain.Delete().Resource("emergencystops").Name("fire").Do(context.Background()).Error(); err != nil {
			c.Error(err)
		}
		seen(false)
	})
	seen(true)
}

// mark marks the disruption as stopped, as the controller does.
func (c *testCluster) mark(ref v1beta1.DisruptionRef) {
	c.Helper()
	c.Must(c.Disruptions.UpdateStatus(c.Context(), ref, func(d *v1beta1.Disruption) {
		status.SetCondition(d, v1beta1.ConditionStopped, metav1.ConditionTrue, v1beta1.ReasonEmergencyStop, fire)
	}))
}
