package activities

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// A disruption begins and ends although no event can be stored.
func TestEventsStopNothing(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
	}{
		{"refused for good, as by a quota", func(r *http.Request) (*http.Response, error) {
			const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
			return &http.Response{
				StatusCode: http.StatusForbidden, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(forbidden)),
			}, nil
		}},
		{"their storage does not answer", func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection refused")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.MakeTargets(1, nil)
			ref := c.Disruption("calm", nil)
			c.through(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/events") {
					return test.answer(r)
				}
				return nil, nil
			})
			if plan := do[prepare.Plan](c, c.Prepare, ref); plan.SpecHash == "" || plan.CleanOnly != "" {
				t.Errorf("plan = %+v, want the disruption begun", plan)
			}
			if chosen := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}); chosen.Selected != 1 {
				t.Errorf("selection = %+v, want one target", chosen)
			}
			c.Must(c.Plain.Delete().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Do(t.Context()).Error())
			if left := do[int](c, c.Finish, status.FinishInput{Disruption: ref, Ending: v1beta1.EndingDeleted}); left != 0 {
				t.Errorf("Finish leaves %d chaos pods", left)
			}
			if _, err := c.Disruptions.Get(t.Context(), ref); !apierrors.IsNotFound(err) {
				t.Errorf("the disruption is still there: %v", err)
			}
			if n := c.Counts.Of("squall_events_lost_total"); n != 3 { // Created, Cleaned, Finished
				t.Errorf("%d events counted as lost, want 3", n)
			}
		})
	}
}

// A lost target has an event even if the disruption ends in that moment: no later attempt
// looks at the target.
func TestALossIsRecordedThoughTheDisruptionEnds(t *testing.T) {
	c := newCluster(t)
	ref := c.Disruption("calm", nil)
	d, err := c.Disruptions.Get(t.Context(), ref)
	c.Must(err)
	over, end := context.WithCancel(t.Context())
	end()
	lost := targets.Target{InjectionTarget: v1beta1.InjectionTarget{Name: "web-1"}, Ended: targets.Gone}
	cluster.RecordEnded(over, c.Activities.Cluster, d, "TargetLost", "deleted, ended or about to end", targets.Gone, []targets.Target{lost})
	c.wantEvent("TargetLost", "web-1")
}
