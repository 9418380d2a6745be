package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/plan"
	"github.com/squall-chaos/squall/test/neverruns"
)

const planned = "apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: half}\n" +
	"spec: {selector: {app: web}, count: 50%, cpuPressure: {}}\n"

// The candidates of a plan are those that the worker would find.
func TestPlan(t *testing.T) {
	l := newLive(t)
	got := do(t.Context(), planned, "plan", "-")
	l.want(got, console.ExitError, "no pod matches the selector: see kubectl get pods --show-labels")
	pods := l.MakeTargets(7, nil)
	pending := pods[0]
	pending.Status = corev1.PodStatus{Phase: corev1.PodPending}
	_, err := l.Client.CoreV1().Pods(l.Shop).UpdateStatus(t.Context(), pending, metav1.UpdateOptions{})
	l.Must(err)
	p := l.plan()
	if p.Wanted != 3 || p.Chosen != 3 || len(p.Candidates) != 6 || len(p.Nodes) != 6 || len(p.Refusals)+len(p.Warnings) != 0 {
		t.Errorf("plan = %+v", p)
	}
	if diff := cmp.Diff([]plan.Reason{{Why: "it is not running: phase Pending", Targets: []string{pending.Name}}}, p.LeftOut); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	healthy, err := l.Store.Healthy(t.Context(), l.Get(l.Disruption("same", nil)))
	l.Must(err)
	var want, have []string
	for _, c := range healthy {
		want = append(want, c.Target.Name)
	}
	for _, c := range p.Candidates {
		have = append(have, c.Name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("candidates (-worker +plan):\n%s", diff)
	}
}

// A spec that no node can carry out is not valid, and has no plan.
func TestWhatCanNeverRunIsRefusedBeforeItIsCreated(t *testing.T) {
	l := newLive(t)
	for _, spec := range neverruns.Specs() {
		for _, command := range []string{"validate", "plan"} {
			got := do(t.Context(), spec.Manifest(l.Shop), command, "-")
			if got.code != console.ExitError || !strings.Contains(got.out+got.err, spec.Refused) {
				t.Errorf("%s: squall %s ends with %d, %s%s; want it refused with %q", spec.Name, command, got.code, got.out, got.err, spec.Refused)
			}
		}
	}
}

// Safe mode applies to a plan as it does to the worker.
func TestPlanOfMostOfANamespace(t *testing.T) {
	l := newLive(t)
	l.MakeTargets(4, nil)
	most := strings.Replace(planned, "50%", "100%", 1)
	l.want(do(t.Context(), most, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitOK, "safe mode, unless the operator set other limits: 4 of the 4 pods of namespace "+l.Shop+" are more than 80 %")
	// 4 of 7, also if the cluster has no others
	ended := l.MakeTargets(3, map[string]string{"app": "other"})
	l.want(do(t.Context(), most, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitOK, "targets", "4")
	if p := do(t.Context(), most, "plan", "-", "--chaos-namespace", l.Chaos); strings.Contains(p.out, "safe mode") {
		t.Errorf("of 4 of 7 pods it says %s", p.out)
	}
	for _, pod := range ended {
		pod.Status.Phase = corev1.PodSucceeded
		_, err := l.Client.CoreV1().Pods(l.Shop).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		l.Must(err)
	}
	l.want(do(t.Context(), most, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitOK, "4 of the 4 pods of namespace "+l.Shop)
}

// A plan refuses what the worker would refuse.
func TestPlanOfWhatTheWorkerRefuses(t *testing.T) {
	l := newLive(t)
	l.MakeTargets(2, nil) // on node-0 and node-1
	replacement := strings.Replace(planned, "cpuPressure: {}", "podReplacement: {}", 1)
	l.want(do(t.Context(), replacement, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitError, "the worker may not", "delete pods in namespace "+l.Shop, "deploy/components/pod-replacement")

	failure := strings.Replace(planned, "cpuPressure: {}", "nodeFailure: {shutdown: true}", 1)
	node := func(name, boot string) {
		made, err := l.Client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		l.Must(err)
		t.Cleanup(func() { _ = l.Client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
		made.Status.NodeInfo.BootID = boot
		_, err = l.Client.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
		l.Must(err)
	}
	node("node-0", "boot-a")
	node("node-2", "boot-a")
	l.want(do(t.Context(), failure, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitOK, "1 of 2 candidates would not be disrupted: node node-0 runs on the same kernel as node node-2")
	node("node-1", "boot-a")
	l.want(do(t.Context(), failure, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitError, "runs on the same kernel as node")
}

// plan is the plan of the usual disruption.
func (l *live) plan() plan.Plan {
	l.t.Helper()
	var p plan.Plan
	got := do(l.t.Context(), planned, "plan", "-", "-o", "json", "--chaos-namespace", l.Chaos)
	if err := json.Unmarshal([]byte(got.out), &p); err != nil {
		l.t.Fatalf("squall plan = %+v: %v", got, err)
	}
	return p
}

// A plan reports the targets that policies deny as the worker would.
func TestPlanOfWhatPoliciesDeny(t *testing.T) {
	l := newLive(t)
	l.MakeTargets(4, nil)
	policy := func(rule v1beta1.PolicyRule) {
		t.Helper()
		rule.Namespaces = []string{l.Shop}
		p := &v1beta1.DisruptionPolicy{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "DisruptionPolicy"},
			ObjectMeta: metav1.ObjectMeta{Name: l.Shop + "-" + rule.Name}, Spec: v1beta1.DisruptionPolicySpec{Rules: []v1beta1.PolicyRule{rule}},
		}
		l.Must(l.Plain.Post().Resource("disruptionpolicies").Body(p).Do(t.Context()).Error())
		t.Cleanup(func() {
			_ = l.Plain.Delete().Resource("disruptionpolicies").Name(p.Name).Do(context.Background()).Error()
		})
	}
	one := int32(1)
	policy(v1beta1.PolicyRule{Name: "one", AtMost: &v1beta1.PolicyLimit{Targets: &one}})
	p := l.plan()
	if p.Wanted != 2 || p.Chosen != 1 || len(p.Refusals) != 0 || !strings.Contains(fmt.Sprint(p.Warnings), `rule "one"`) {
		t.Errorf("plan = %+v, want one target, and the rule named", p)
	}
	policy(v1beta1.PolicyRule{Name: "ours", ExceptRequesters: &v1beta1.PolicyRequesters{Users: []string{"ann"}}})
	l.want(do(t.Context(), planned, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitError, `rule "ours" of DisruptionPolicy "`+l.Shop+`-ours" (its requester is unknown`)
	l.Must(l.Plain.Delete().Resource("disruptionpolicies").Name(l.Shop + "-ours").Do(t.Context()).Error())
	policy(v1beta1.PolicyRule{Name: "here", ExceptEnvironments: []string{"staging"}})
	l.want(do(t.Context(), planned, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitError, `rule "here" of DisruptionPolicy "`+l.Shop+`-here" (its annotation chaos.squall.dev/environment is none of: staging`)
	staged := strings.Replace(planned, "{name: half}", "{name: half, annotations: {chaos.squall.dev/environment: staging}}", 1)
	l.want(do(t.Context(), staged, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitOK, `rule "one"`)
	l.Must(l.Plain.Delete().Resource("disruptionpolicies").Name(l.Shop + "-here").Do(t.Context()).Error())
	policy(v1beta1.PolicyRule{Name: "none", Reason: "sale week"})
	l.want(do(t.Context(), planned, "plan", "-", "--chaos-namespace", l.Chaos), console.ExitError, `it is denied by rule "none" of DisruptionPolicy "`+l.Shop+`-none": sale week`)
}

// A pod that is not ready may be on a node that is not. Without the right to read nodes a
// plan names the right, and the candidates for which this is unknown.
func TestPlanWithoutTheRightToReadNodes(t *testing.T) {
	l := newLive(t)
	l.may("bob", "squall-disruptions")
	role, err := l.Client.RbacV1().Roles(l.Shop).Get(t.Context(), "squall-disruptions", metav1.GetOptions{})
	l.Must(err)
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}})
	_, err = l.Client.RbacV1().Roles(l.Shop).Update(t.Context(), role, metav1.UpdateOptions{})
	l.Must(err)
	pods := l.MakeTargets(2, nil)
	plan := func() call {
		return do(t.Context(), planned, "plan", "-", "--as", "bob", "--chaos-namespace", l.Chaos)
	}
	if got := plan(); strings.Contains(got.out, "you may not get nodes") || !strings.Contains(got.out, "1, drawn at random from 2 candidates") {
		t.Errorf("all pods are ready, so that their nodes do not matter, and yet: %+v", got)
	}
	unready := pods[1]
	unready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}}
	_, err = l.Client.CoreV1().Pods(l.Shop).UpdateStatus(t.Context(), unready, metav1.UpdateOptions{})
	l.Must(err)
	want := "you may not get nodes: for 1 candidates that are not ready (" + unready.Name + ") it is unknown whether their node is ready"
	if got := plan(); !strings.Contains(got.out, want) {
		t.Errorf("plan = %+v, want %q", got, want)
	}
	got := do(t.Context(), planned, "plan", "-", "--chaos-namespace", l.Chaos)
	l.want(got, console.ExitOK, "1: its node is gone: "+unready.Name, "from 1 candidates")
}

func TestPlanOfHeldTargets(t *testing.T) {
	l := newLive(t)
	pods := l.MakeTargets(4, nil)
	holder := l.Get(l.Disruption("holder", nil))
	healthy, err := l.Store.Healthy(t.Context(), holder)
	l.Must(err)
	claims, err := l.Store.Claim(t.Context(), holder, targets.Choice{}, healthy, nil)
	l.Must(err)
	p := l.plan()
	if len(claims.Own) != 1 || p.Wanted != 2 || p.Chosen != 2 || len(p.Candidates) != len(pods)-2 || len(p.LeftOut) != 1 {
		t.Fatalf("plan = %+v", p)
	}
	if want := fmt.Sprintf("held by %s/holder (cpu-pressure)", l.Shop); p.LeftOut[0].Why != want || len(p.LeftOut[0].Targets) != 2 {
		t.Errorf("left out = %+v, want 2 %s", p.LeftOut, want)
	}
}

func TestPlanOfWhatWouldBeRefused(t *testing.T) {
	l := newLive(t)
	l.MakeTargets(1, nil)
	l.finalize(l.Disruption("half", nil))
	got := do(t.Context(), planned, "plan", "-")
	l.want(got, console.ExitError, "1, drawn at random from 1 candidates", "disruption "+l.Shop+"/half exists already")
	l.want(do(t.Context(), planned, "plan", "-", "--as", "nobody"), console.ExitError, "forbidden")
}
