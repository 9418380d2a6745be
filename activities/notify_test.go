package activities

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Prepare decides the receivers of notifications, whether the disruption is carried out,
// rejected, or only cleaned after an earlier workflow.
func TestPlansHaveTheReceiversOfNotifications(t *testing.T) {
	reported := func(spec *v1beta1.DisruptionSpec) {
		spec.Reporting = &v1beta1.Reporting{SlackChannel: "team", Purpose: "to be sure of it", MinNotificationType: "Warning"}
	}
	want := &notify.Audience{Purpose: "to be sure of it", Recipients: []notify.Recipient{
		{Way: notify.Webhook, Least: "Success"}, {Way: notify.SlackChannel, To: "team", Least: "Warning"},
	}}
	wantReceivers := func(t *testing.T, what string, plan prepare.Plan) {
		t.Helper()
		if diff := cmp.Diff(want, plan.Notify); diff != "" {
			t.Errorf("receivers for a disruption that is %s (-want +got):\n%s", what, diff)
		}
	}
	c := newCluster(t)
	c.Notify = notify.Settings{WebhookURL: "https://hooks.example", WebhookSecretFile: "/s", SlackTokenFile: "/t", LeastType: "Success"}
	ref := c.Disruption("carried-out", reported)
	wantReceivers(t, "carried out", do[prepare.Plan](c, c.Prepare, ref))

	began := c.Disruption("began", reported)
	_, err := c.Targets.StoreSpec(t.Context(), c.Get(began), "an earlier run", nil)
	c.Must(err)
	c.restartWorker()
	plan := do[prepare.Plan](c, c.Prepare, began)
	if plan.CleanOnly == "" {
		t.Errorf("plan = %+v, want it cleaned only", plan)
	}
	wantReceivers(t, "cleaned only", plan)

	c.Shop = c.Namespace
	plan = do[prepare.Plan](c, c.Prepare, c.Disruption("refused", reported))
	if plan.Rejected == "" {
		t.Errorf("plan = %+v, want it rejected", plan)
	}
	wantReceivers(t, "rejected", plan)
}
