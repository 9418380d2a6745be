package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/preview"
)

const plannedScenario = `apiVersion: chaos.squall.dev/v1beta1
kind: DisruptionScenario
metadata: {name: day}
spec:
  steps:
  - name: burn
    disruptions:
    - template: {selector: {app: web}, count: 50%, cpuPressure: {}}
    - template: {selector: {app: db}, count: 1, cpuPressure: {}}
  - {name: calm, wait: 5m}
  - {name: look, approval: {message: is the shop open}}
`

// scenario creates a scenario with a step of CPU pressure and an approval.
func (l *live) scenario(name string) *v1beta1.DisruptionScenario {
	l.t.Helper()
	s := &v1beta1.DisruptionScenario{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindDisruptionScenario},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: l.Shop, Finalizers: []string{v1beta1.DisruptionFinalizer}},
		Spec: v1beta1.DisruptionScenarioSpec{Steps: []v1beta1.ScenarioStep{
			{Name: "look", Approval: &v1beta1.ScenarioApproval{Message: "is the shop open"}},
			{Name: "look-again", Approval: &v1beta1.ScenarioApproval{Message: "is it still"}},
			{Name: "calm", Wait: &v1beta1.Duration{Duration: 60e9}},
		}},
	}
	made := &v1beta1.DisruptionScenario{}
	l.Must(l.Plain.Post().Namespace(l.Shop).Resource("disruptionscenarios").Body(s).Do(l.Context()).Into(made))
	return made
}

// scenarioBecomes writes status as the workflow would.
func (l *live) scenarioBecomes(name, status string) {
	l.t.Helper()
	l.Must(l.Plain.Patch(types.MergePatchType).Namespace(l.Shop).Resource("disruptionscenarios").Name(name).SubResource("status").
		Body([]byte(`{"status":` + status + `}`)).Do(l.Context()).Error())
}

func (l *live) getScenario(name string) *v1beta1.DisruptionScenario {
	l.t.Helper()
	s := &v1beta1.DisruptionScenario{}
	l.Must(l.Plain.Get().Namespace(l.Shop).Resource("disruptionscenarios").Name(name).Do(l.Context()).Into(s))
	return s
}

// finalizeScenario removes the finalizer, as the workflow does in the end.
func (l *live) finalizeScenario(name string) {
	l.t.Helper()
	l.Must(l.Plain.Patch(types.MergePatchType).Namespace(l.Shop).Resource("disruptionscenarios").Name(name).
		Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(l.Context()).Error())
}

const suspended = `{"phase":"Suspended","step":"look","message":"is the shop open","steps":[{"name":"look","phase":"Suspended","startedAt":"2026-11-20T12:00:00Z"}]}`

// The plan of a scenario has the targets of each disruption of each step.
func TestPlanOfAScenario(t *testing.T) {
	l := newLive(t)
	l.MakeTargets(4, nil)
	l.MakeTargets(3, map[string]string{"app": "db"})
	plan := func(text string, args ...string) call {
		return do(t.Context(), text, append([]string{"plan", "-", "--chaos-namespace", l.Chaos}, args...)...)
	}
	l.want(plan(plannedScenario), console.ExitOK, "step 1, burn", "2, drawn at random from 4 candidates", "1, drawn at random from 3 candidates",
		"step 2, calm: waits for 5m", "step 3, look: waits for a person: is the shop open", l.Shop+"/disruption-scenario-day-1-2")
	var p preview.ScenarioPlan
	got := plan(plannedScenario, "-o", "json")
	if err := json.Unmarshal([]byte(got.out), &p); err != nil || len(p.Steps) != 3 || len(p.Steps[0].Disruptions) != 2 || p.Steps[0].Disruptions[0].Chosen != 2 || len(p.Refusals) != 0 {
		t.Errorf("as JSON it is %+v, %v", p, err)
	}
	l.want(plan(strings.Replace(plannedScenario, "app: db", "app: none", 1)), console.ExitError, "no pod matches the selector", "2, drawn at random from 4 candidates")
	l.want(plan(plannedScenario, "--as", "nobody"), console.ExitError, "forbidden")
	l.finalizeScenario(l.scenario("day").Name)
	l.want(plan(plannedScenario), console.ExitError, "refused", `"day" already exists`)
}

func TestListAndStatusOfScenarios(t *testing.T) {
	l := newLive(t)
	l.want(l.squall("list", "--scenarios"), console.ExitOK, "no scenario in namespace "+l.Shop)
	l.scenario("day")
	l.want(l.squall("list", "--scenarios"), console.ExitOK, "day    New", "0/3")
	l.scenarioBecomes("day", suspended)
	l.want(l.squall("list", "--scenarios", "-A"), console.ExitOK, "NAMESPACE", l.Shop)
	l.want(l.squall("list", "--scenarios", "-o", "wide"), console.ExitOK, "day    Suspended   look   1/3", "is the shop open")
	l.want(l.squall("list", "--scenarios", "--stuck"), console.ExitUsage, "stuck")
	l.want(l.squall("status", "day"), console.ExitOK, "scenario/day in "+l.Shop, "1. look: Suspended", "squall -n "+l.Shop+" approve day look", "3. calm: to come")
	l.want(l.squall("status", "dai"), console.ExitError, `there is no disruption "dai"`)
	l.want(l.squall("status", "scenario/dai"), console.ExitError, `there is no scenario "dai" in namespace "`+l.Shop+`": did you mean "day"?`)
	ref := l.Disruption("day", nil)
	l.want(l.squall("status", "day"), console.ExitOK, l.Shop+"/day")
	l.want(l.squall("status", "scenario/day"), console.ExitOK, "1. look: Suspended")
	l.finalize(ref)
	l.scenarioBecomes("day", `{"phase":"Finished","verdict":"Failed","message":"step burn did not pass","steps":[{"name":"look","phase":"Finished","approvedBy":"ann",`+
		`"startedAt":"2026-11-20T12:00:00Z","endedAt":"2026-11-20T12:01:00Z"},{"name":"look-again","phase":"Finished","verdict":"Failed","startedAt":"2026-11-20T12:01:00Z",`+
		`"endedAt":"2026-11-20T12:03:00Z","disruptions":[{"name":"d-1-1","ending":"expired","verdict":"Failed"}]}]}`)
	l.want(l.squall("status", "scenario/day"), console.ExitOK, "step burn did not pass", "1. look: Finished, approved by ann, 60s", "2. look-again: Finished, Failed, 2m", "d-1-1: expired, Failed")
	var read v1beta1.DisruptionScenarioList
	if err := json.Unmarshal([]byte(l.squall("list", "--scenarios", "-o", "json").out), &read); err != nil || len(read.Items) != 1 || read.Items[0].Kind != v1beta1.KindDisruptionScenario {
		t.Errorf("as JSON they are %+v, %v", read, err)
	}
}

// squall writes the name of the person who approves, once, while the step waits.
func TestApprove(t *testing.T) {
	l := newLive(t)
	l.scenario("day")
	l.want(l.squall("approve", "day", "look"), console.ExitError, "does not wait for an approval now")
	l.scenarioBecomes("day", suspended)
	l.want(l.squall("approve", "day", "calm"), console.ExitError, "needs no approval")
	l.want(l.squall("approve", "day", "lok"), console.ExitError, "did you mean look?")
	l.want(l.squall("approve", "day", "look-again"), console.ExitError, "does not wait for an approval now")
	l.want(l.squall("approve", "dai", "look"), console.ExitError, `did you mean "day"?`)
	l.want(l.squall("__complete", "approve", ""), console.ExitOK, "day\tis the shop open")
	l.want(l.squall("__complete", "approve", "day", ""), console.ExitOK, "look")
	got := l.squall("approve", "day", "look")
	l.want(got, console.ExitOK, "step look of scenario "+l.Shop+"/day is approved by ")
	by := l.getScenario("day").Annotations[v1beta1.AnnotationApprovedBy+"look"]
	if by == "" || !strings.Contains(got.out, "is approved by "+by+"\n") {
		t.Errorf("the annotation says %q, and the command %q", by, got.out)
	}
	l.scenarioBecomes("day", `{"phase":"Waiting","step":"calm","steps":[{"name":"look","phase":"Finished","approvedBy":"ann","startedAt":"2026-11-20T12:00:00Z"}]}`)
	l.want(l.squall("approve", "day", "look"), console.ExitError, "was approved by ann")
}

func TestStopOfAScenario(t *testing.T) {
	l := newLive(t)
	deleting := func(name string) {
		t.Helper()
		l.Eventually("the scenario is being deleted", func() bool { return l.getScenario(name).DeletionTimestamp != nil })
	}
	t.Run("it waits until nothing is left", func(t *testing.T) {
		l := l.in(t)
		l.scenario("day")
		ended := l.begin("stop", "day")
		deleting("day")
		l.finalizeScenario("day")
		l.want(<-ended, console.ExitOK, "nothing is left of scenario "+l.Shop+"/day")
	})
	t.Run("it does not wait when that is not wanted, or no longer than it may", func(t *testing.T) {
		l := l.in(t)
		l.scenario("detached")
		l.want(l.squall("stop", "scenario/detached", "--detach"), console.ExitOK, "is being ended")
		deleting("detached")
		l.want(l.squall("stop", "scenario/detached", "--timeout", "10ms"), console.ExitError, "the clean-up continues")
		l.finalizeScenario("detached")
	})
	t.Run("it says which of its disruptions is stuck", func(t *testing.T) {
		l := l.in(t)
		s := l.scenario("night")
		ref := l.Disruption(s.ChildName(0, 0), nil)
		l.Must(l.Plain.Patch(types.MergePatchType).Namespace(l.Shop).Resource("disruptions").Name(ref.Name).
			Body(fmt.Appendf(nil, `{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"controller":true}]}}`,
				v1beta1.GroupVersion, v1beta1.KindDisruptionScenario, s.Name, s.UID)).Do(l.Context()).Error())
		l.becomes(ref, func(status *v1beta1.DisruptionStatus) {
			status.Phase, status.IsStuckOnRemoval = v1beta1.PhaseStuck, true
		})
		l.want(l.squall("stop", "night"), console.ExitStuck, l.Shop+"/"+ref.Name, "Stuck")
		l.finalize(ref)
		l.finalizeScenario("night")
	})
}
