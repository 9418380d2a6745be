package activities

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// policy makes a policy with one rule for the test's own namespace, and waits until the
// worker's watch has it.
func (c *testCluster) policy(rule v1beta1.PolicyRule) (remove func()) {
	c.Helper()
	rule.Namespaces = []string{c.Shop}
	p := &v1beta1.DisruptionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "DisruptionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Shop + "-" + rule.Name}, Spec: v1beta1.DisruptionPolicySpec{Rules: []v1beta1.PolicyRule{rule}},
	}
	c.Must(c.Plain.Post().Resource("disruptionpolicies").Body(p).Do(c.Context()).Error())
	resource := func() error {
		return c.Plain.Delete().Resource("disruptionpolicies").Name(p.Name).Do(context.Background()).Error()
	}
	c.Cleanup(func() { _ = resource() })
	c.Eventually("the watch has the policy", func() bool { return c.seesPolicy(p.Name) })
	return func() {
		c.Helper()
		c.Must(resource())
		c.Eventually("the watch has seen the policy go", func() bool { return !c.seesPolicy(p.Name) })
	}
}

func (c *testCluster) seesPolicy(name string) bool {
	for _, p := range c.Rules.Policies.Policies() {
		if p.Name == name {
			return true
		}
	}
	return false
}

// wantDenials wants exactly these events on a policy.
func (c *testCluster) wantDenials(policy string, want ...string) {
	c.Helper()
	events, err := c.Client.CoreV1().Events(metav1.NamespaceDefault).List(c.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=DisruptionPolicy,involvedObject.name=" + policy})
	c.Must(err)
	if len(events.Items) != len(want) {
		c.Fatalf("%d events on policy %s, want %d", len(events.Items), policy, len(want))
	}
	for i, event := range events.Items {
		if event.Reason != "Denied" || event.InvolvedObject.UID == "" || !strings.Contains(event.Message, want[i]) {
			c.Errorf("policy %s has the event %s %q, want Denied with %q", policy, event.Reason, event.Message, want[i])
		}
	}
}

// annotate writes annotations of a disruption.
func (c *testCluster) annotate(ref v1beta1.DisruptionRef, annotations map[string]string) {
	c.Helper()
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	c.Must(err)
	c.Must(c.Plain.Patch(types.MergePatchType).Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Body(body).Do(c.Context()).Error())
}

func TestAPolicyRefusesADisruption(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	remove := c.policy(v1beta1.PolicyRule{Name: "sale", Reason: "sale week", Kinds: []v1beta1.PolicyKind{"cpu-pressure"}, Windows: []v1beta1.PolicyWindow{{TimeZone: "Asia/Tokyo"}}})
	ref := c.Disruption("refused", nil)
	plan := do[prepare.Plan](c, c.Prepare, ref)
	for _, want := range []string{`rule "sale"`, c.Shop + "-sale", "sale week"} {
		if !strings.Contains(plan.Rejected, want) {
			t.Errorf("it is rejected with %q, want %q in it", plan.Rejected, want)
		}
	}
	if phase := c.Get(ref).Status.Phase; phase != v1beta1.PhaseRejected {
		t.Errorf("phase = %s, want Rejected", phase)
	}
	c.WantCondition(ref, v1beta1.ConditionAccepted, metav1.ConditionFalse, `rule "sale"`)
	c.wantEvent(v1beta1.ReasonDenied, `rule "sale"`)
	do[prepare.Plan](c, c.Prepare, ref) // a retry
	c.wantDenials(c.Shop+"-sale", "Disruption "+c.Shop+"/refused: it is denied by")
	other := c.Disruption("other", func(spec *v1beta1.DisruptionSpec) {
		spec.Faults = v1beta1.Faults{MemoryPressure: &v1beta1.MemoryPressure{TargetPercent: v1beta1.Percentage{Text: "50%"}}}
	})
	if plan := do[prepare.Plan](c, c.Prepare, other); plan.Rejected != "" {
		t.Errorf("a kind that the rule is not about is rejected: %s", plan.Rejected)
	}
	remove()
	if plan := do[prepare.Plan](c, c.Prepare, c.Disruption("later", nil)); plan.Rejected != "" {
		t.Errorf("without the policy it is rejected: %s", plan.Rejected)
	}
}

// rule D5: the requester is known at every choice of targets.
func TestAPolicyAboutRequesters(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	c.policy(v1beta1.PolicyRule{Name: "ours", ExceptRequesters: &v1beta1.PolicyRequesters{Groups: []string{"sre"}}})
	by := func(name, group string) v1beta1.DisruptionRef {
		ref := c.Disruption(name, nil)
		c.annotate(ref, v1beta1.Requester{User: "sue", Groups: []string{"all", group}}.Annotations())
		return ref
	}
	if plan := do[prepare.Plan](c, c.Prepare, by("theirs", "shop")); !strings.Contains(plan.Rejected, `rule "ours"`) || strings.Contains(plan.Rejected, "its requester is unknown") {
		t.Errorf("that of somebody else is rejected with %q", plan.Rejected)
	}
	ref := by("ours", "sre")
	if plan := do[prepare.Plan](c, c.Prepare, ref); plan.Rejected != "" || plan.Requester != "sue" {
		t.Errorf("ours is rejected: %q, asked for by %q, want sue", plan.Rejected, plan.Requester)
	}
	if added := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}).Added; len(added) != 1 {
		t.Errorf("chose %v, want a target", added)
	}
}

// rule D6: the environment at the start of the disruption counts.
func TestAPolicyAboutEnvironments(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	c.policy(v1beta1.PolicyRule{Name: "ours", ExceptEnvironments: []string{"staging"}})
	if plan := do[prepare.Plan](c, c.Prepare, c.Disruption("theirs", nil)); !strings.Contains(plan.Rejected, "is none of: staging") {
		t.Errorf("one that names no environment is rejected with %q", plan.Rejected)
	}
	ref := c.Disruption("ours", nil)
	c.annotate(ref, map[string]string{v1beta1.AnnotationEnvironment: "staging"})
	if plan := do[prepare.Plan](c, c.Prepare, ref); plan.Rejected != "" {
		t.Errorf("ours is rejected: %s", plan.Rejected)
	}
	c.annotate(ref, map[string]string{v1beta1.AnnotationEnvironment: "prod"})
	if added := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref}).Added; len(added) != 1 {
		t.Errorf("chose %v after an edit of the annotation, want a target", added)
	}
}

// A rule that is created after Prepare denies further targets. The disruption keeps the
// targets that it has.
func TestAPolicyDeniesTargets(t *testing.T) {
	c := newCluster(t)
	databases := c.MakeTargets(2, map[string]string{"tier": "db"})
	front := c.MakeTargets(1, map[string]string{"tier": "web"})
	ref := c.Disruption("some", all)
	do[prepare.Plan](c, c.Prepare, ref)
	c.policy(v1beta1.PolicyRule{Name: "no-db", TargetSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}})
	selection := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref})
	if got := c.chosen(ref); len(got) != 1 || got[0] != front[0].UID || selection.Desired != 3 {
		t.Errorf("chose %v of %d wanted, want %s alone, and no database of %v", got, selection.Desired, front[0].UID, databases)
	}
	c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionTrue, `1 of 3 matching targets; 2 are denied by rule "no-db"`)

	c.policy(v1beta1.PolicyRule{Name: "none"})
	late := c.MakeTargets(1, map[string]string{"tier": "web"})
	if added := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}).Added; len(added) > 0 {
		t.Errorf("%s was chosen although a rule denies all", late[0].Name)
	}
	if got := c.chosen(ref); len(got) != 1 || got[0] != front[0].UID {
		t.Errorf("it holds %v, want that it keeps what it had", got)
	}
}

// Status names three rules and counts the others: the author of each policy still gets an
// event.
func TestEachRuleThatDeniesHasItsEvent(t *testing.T) {
	c := newCluster(t)
	tiers := []string{"cache", "db", "queue", "search"}
	for _, tier := range tiers {
		c.MakeTargets(1, map[string]string{"tier": tier})
		c.policy(v1beta1.PolicyRule{Name: "no-" + tier, TargetSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": tier}}})
	}
	c.policy(v1beta1.PolicyRule{Name: "no-web", TargetSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}})
	ref := c.Disruption("some", all)
	do[prepare.Plan](c, c.Prepare, ref)
	do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref})
	c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, "and 1 more")
	for _, tier := range tiers {
		c.wantDenials(c.Shop+"-no-"+tier, "4 are denied by")
	}
	c.wantDenials(c.Shop + "-no-web")
}

func TestAPolicyLimitsTargetsAtOnce(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(4, nil)
	most := int32(3)
	c.policy(v1beta1.PolicyRule{Name: "three", AtMost: &v1beta1.PolicyLimit{Targets: &most}})
	first, selection := c.selectFor("first", nil) // wants two
	if selection.Selected != 2 || selection.Denied != "" {
		t.Errorf("the first one: %+v, want two targets", selection)
	}
	second, selection := c.selectFor("second", nil)
	if selection.Selected != 1 || !strings.Contains(selection.Denied, `rule "three"`) || !strings.Contains(selection.Denied, "at most 3 targets at once") {
		t.Errorf("the second one: %+v, want one target, and the rule named", selection)
	}
	third, selection := c.selectFor("third", nil)
	if selection.Selected != 0 {
		t.Errorf("the third one: %+v, want no target", selection)
	}
	c.WantCondition(third, v1beta1.ConditionTargetsSelected, metav1.ConditionFalse, `rule "three"`)
	c.wantEvent(v1beta1.ReasonDenied, `rule "three"`)
	c.Must(c.Targets.DeleteRecords(t.Context(), first))
	c.Eventually("what the first one held is free", func() bool {
		return do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: third}).Selected == 2
	})
	if held := append(c.chosen(second), c.chosen(third)...); len(held) != 3 {
		t.Errorf("%v are held, want three", held)
	}
}

// behind gives the worker a watch that gets no changes any more.
func (c *testCluster) behind() {
	c.Helper()
	watch, err := policy.NewWatch(c.Plain)
	c.Must(err)
	ctx, stop := context.WithCancel(c.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); watch.Run(ctx) }()
	c.Must(watch.Sync(ctx))
	stop()
	<-ended
	c.Rules.Policies = watch
}

// The controller signals once that a policy changed. A worker that is restarted at that
// moment may not have the change yet, and must not deny targets until the next check, which
// is hours later.
func TestAWorkerDeniesByTheNewestPolicies(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	most := int32(1)
	remove := c.policy(v1beta1.PolicyRule{Name: "one", AtMost: &v1beta1.PolicyLimit{Targets: &most}})
	ref, selection := c.selectFor("some", nil) // wants two
	if selection.Selected != 1 {
		t.Fatalf("selection = %+v, want one target", selection)
	}
	current := c.Rules.Policies
	c.behind()
	c.Rules.Policies, current = current, c.Rules.Policies
	remove()
	c.Rules.Policies = current
	if !c.seesPolicy(c.Shop + "-one") {
		t.Fatal("the worker's watch has the deletion, so nothing is tested")
	}
	if selection := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); selection.Selected != 2 || selection.Denied != "" {
		t.Errorf("selection = %+v, want two targets: the policy is gone", selection)
	}
}

// A selection that adds nothing, as after a change of another policy, records no second
// event of the same text.
func TestFewerTargetsAreReportedOnce(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	most := int32(1)
	c.policy(v1beta1.PolicyRule{Name: "one", AtMost: &v1beta1.PolicyLimit{Targets: &most}})
	ref, _ := c.selectFor("some", nil) // wants two
	if again := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1}); again.Selected != 1 || len(again.Added) > 0 {
		t.Fatalf("selected again: %+v, want the same target", again)
	}
	c.wantEvent("FewerTargets", "1 of 2", `rule "one"`)
}
