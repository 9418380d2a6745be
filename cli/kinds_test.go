package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
)

// post creates an object of a resource, in a namespace unless that is empty.
func (l *live) post(resource, namespace string, object any) {
	l.t.Helper()
	l.Must(l.Plain.Post().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Body(object).Do(l.Context()).Error())
}

// statusOf writes the status of an object as the controller would.
func (l *live) statusOf(resource, name, status string) {
	l.t.Helper()
	l.Must(l.Plain.Patch(types.MergePatchType).Namespace(l.Shop).Resource(resource).Name(name).SubResource("status").
		Body([]byte(`{"status":` + status + `}`)).Do(l.Context()).Error())
}

func template() v1beta1.DisruptionSpec {
	count, lasts := intstr.FromString("50%"), v1beta1.Duration{Duration: 10 * time.Minute}
	return v1beta1.DisruptionSpec{Count: &count, Duration: &lasts, Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}}
}

var ofShop = v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "shop"}

const ran = `{"name":"disruption-cron-noon","kind":"Disruption","createdAt":"2026-11-20T12:00:00Z","endedAt":"2026-11-20T12:10:00Z","ending":"expired","verdict":"Passed"}`

func TestCrons(t *testing.T) {
	l := newLive(t)
	l.want(l.squall("list", "crons"), console.ExitOK, "no cron in namespace "+l.Shop)
	l.post("disruptioncrons", l.Shop, &v1beta1.DisruptionCron{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindDisruptionCron},
		ObjectMeta: metav1.ObjectMeta{Name: "noon", Namespace: l.Shop, Labels: map[string]string{"team": "shop"}},
		Spec:       v1beta1.DisruptionCronSpec{Schedule: "0 12 * * *", TargetResource: ofShop, DisruptionTemplate: template()},
	})
	l.want(l.squall("list", "cron"), console.ExitOK, "noon   New")
	next := time.Now().Add(90 * time.Minute).UTC().Format(time.RFC3339)
	l.statusOf("disruptioncrons", "noon", `{"nextScheduleTime":"`+next+`","lastScheduleTime":"2026-11-20T12:00:00Z","history":[`+ran+`],
		"conditions":[{"type":"Scheduled","status":"True","reason":"Scheduled","message":"","lastTransitionTime":"2026-11-20T12:00:00Z"}]}`)
	l.want(l.squall("list", "dicron"), console.ExitOK, "NAME   STATE       SCHEDULE     TARGET            NEXT", "noon   Scheduled   0 12 * * *   deployment shop   in 89m", "Passed")
	l.want(l.squall("list", "crons", "-l", "team=other"), console.ExitOK, "no cron in namespace")
	l.want(l.squall("list", "crons", "--stuck"), console.ExitUsage, "--stuck is about disruptions")
	l.want(l.squall("list", "corns"), console.ExitUsage, "did you mean crons?")
	var list v1beta1.DisruptionCronList
	got := l.squall("list", "disruptioncrons.chaos.squall.dev", "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &list); err != nil || list.Kind != "DisruptionCronList" || len(list.Items) != 1 || list.Items[0].Kind != v1beta1.KindDisruptionCron {
		t.Errorf("as JSON they are %s, %v", got.out, err)
	}
	l.want(l.squall("status", "cron/noon"), console.ExitOK, "cron/noon in "+l.Shop, "state      Scheduled", "next run   in 89m, at ", "Passed, expired, lasted 10m",
		`by the schedule "0 12 * * *"`, "50%, rounded up, of the pods of the deployment shop")
	l.statusOf("disruptioncrons", "noon", `{"conditions":[{"type":"Scheduled","status":"False","reason":"TooFrequent","message":"a run lasts 10m","lastTransitionTime":"2026-11-20T12:00:00Z"},
		{"type":"LastRun","status":"False","reason":"NameTaken","message":"the name is taken","lastTransitionTime":"2026-11-20T12:00:00Z"}]}`)
	l.want(l.squall("list", "crons", "-o", "wide"), console.ExitOK, "noon   TooFrequent", "a run lasts 10m")
	l.want(l.squall("status", "disruptioncron/noon"), console.ExitOK, "Scheduled (TooFrequent): a run lasts 10m", "change the schedule or the duration",
		"LastRun (NameTaken)", "another Disruption is named disruption-cron-noon")
	l.want(l.squall("status", "cron/non"), console.ExitError, `there is no DisruptionCron "non" in namespace "`+l.Shop+`": did you mean "noon"?`)
	l.want(l.squall("status", "shop/noon"), console.ExitUsage, `there is no kind "shop"`, "if shop is a namespace, write -n shop noon")
	l.want(l.squall("stop", "cron/noon"), console.ExitError, "kubectl -n "+l.Shop+" delete disruptioncrons noon")
}

// list -w prints the list, then a row for each change.
func TestListWatches(t *testing.T) {
	l := newLive(t)
	ref := l.Disruption("lossy", nil)
	l.becomes(ref, holding)
	ctx, stop := context.WithCancel(t.Context())
	out, code := &text{}, make(chan int, 1)
	go func() {
		code <- squall(ctx, []string{"squall", "list", "-w"}, console.Streams{In: strings.NewReader(""), Out: out, Err: out})
	}()
	prints := func(what string) {
		t.Helper()
		l.Eventually(fmt.Sprintf("it prints %q", what), func() bool { return strings.Contains(out.String(), what) })
	}
	prints("NAME    PHASE     KINDS")
	prints("lossy   Holding   cpu-pressure   2/2")
	l.becomes(ref, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseCleaning })
	prints("lossy   Cleaning   cpu-pressure   2/2")
	l.Disruption("later", nil)
	prints("later   New        cpu-pressure")
	l.Must(l.Plain.Delete().Namespace(l.Shop).Resource("disruptions").Name("lossy").Do(t.Context()).Error())
	l.finalize(ref)
	prints("lossy   Deleted    cpu-pressure")
	stop()
	if got := <-code; got != console.ExitOK || strings.Count(out.String(), "PHASE") != 1 {
		t.Errorf("exit code = %d, want 0, and one header in:\n%s", got, out.String())
	}
	l.want(l.squall("list", "-w", "--as", "nobody"), console.ExitError, "forbidden")
}

func TestRollouts(t *testing.T) {
	l := newLive(t)
	l.post("disruptionrollouts", l.Shop, &v1beta1.DisruptionRollout{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindDisruptionRollout},
		ObjectMeta: metav1.ObjectMeta{Name: "releases", Namespace: l.Shop},
		Spec:       v1beta1.DisruptionRolloutSpec{TargetResource: ofShop, DisruptionTemplate: template()},
	})
	l.want(l.squall("status", "rollout/releases"), console.ExitOK, "none seen yet", "runs       none yet", "each time the containers of the deployment shop change")
	l.statusOf("disruptionrollouts", "releases", `{"releases":3,"lastContainerChangeTime":"2026-11-20T12:00:00Z","targetResourcePreviouslyMissing":"2026-11-20T12:00:00Z",
		"history":[`+ran+`,{"name":"disruption-rollout-releases","kind":"Disruption","createdAt":"2026-11-21T12:00:00Z"}],
		"conditions":[{"type":"Watching","status":"False","reason":"TargetMissing","message":"no deployment shop","lastTransitionTime":"2026-11-20T12:00:00Z"}]}`)
	l.want(l.squall("list", "rollouts"), console.ExitOK, "releases   Running   deployment shop", "goes on")
	l.want(l.squall("status", "diroll/releases"), console.ExitOK, "3 seen", "goes on; squall -n "+l.Shop+" status disruption-rollout-releases", "Watching (TargetMissing): no deployment shop",
		"create deployment shop in namespace "+l.Shop, "deployment shop has been missing for")
}

func TestPolicies(t *testing.T) {
	l := newLive(t)
	one := int32(1)
	name := l.Shop + "-hours"
	l.post("disruptionpolicies", "", &v1beta1.DisruptionPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "DisruptionPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1beta1.DisruptionPolicySpec{Rules: []v1beta1.PolicyRule{
			{Name: "night", Reason: "nobody is on call", Kinds: []v1beta1.PolicyKind{"network-disruption"}, Namespaces: []string{l.Shop},
				Windows: []v1beta1.PolicyWindow{{Days: []v1beta1.PolicyDay{"Saturday", "Sunday"}, From: "20:00", TimeZone: "Europe/Berlin"}}},
			{Name: "few", Namespaces: []string{l.Shop}, AtMost: &v1beta1.PolicyLimit{Targets: &one}, ExceptRequesters: &v1beta1.PolicyRequesters{Users: []string{"ann"}}},
		}},
	})
	t.Cleanup(func() {
		_ = l.Plain.Delete().Resource("disruptionpolicies").Name(name).Do(context.Background()).Error()
	})
	night := "network-disruption in namespaces " + l.Shop + ", Saturday Sunday from 20:00 to 00:00 Europe/Berlin"
	l.want(l.squall("list", "policies"), console.ExitOK, "NAME", "RULE", night, "nobody is on call")
	l.want(l.squall("status", "policy/"+name), console.ExitOK, "policy/"+name, "night: denies "+night+": nobody is on call",
		"few: denies more than 1 target of every fault in namespaces "+l.Shop+" except for user ann")
}
