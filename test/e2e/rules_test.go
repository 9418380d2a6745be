//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A run that is due begins, disrupts real pods, and ends with its cron, which
// goes only after it.
func TestACronRuns(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.deployment()
	cron := &v1beta1.DisruptionCron{}
	crons := s.parent("disruptioncrons", cron, `{apiVersion: chaos.squall.dev/v1beta1, kind: DisruptionCron, metadata: {name: noon}, spec: {schedule: "@yearly",
  targetResource: {kind: deployment, name: moved}, disruptionTemplate: {count: 1, duration: 5m, `+quick+`}}}`)
	eventually(t, func() string {
		if problem := crons.read(); problem != nil || !meta.IsStatusConditionTrue(cron.Status.Conditions, v1beta1.ConditionScheduled) {
			return fmt.Sprintf("the cron has no schedule: %v %+v", problem, cron.Status)
		}
		return ""
	})
	schedule := s.temporal.ScheduleClient().GetHandle(t.Context(), "cron/"+s.name+"/noon/"+string(cron.UID))
	if err := schedule.Trigger(t.Context(), client.ScheduleTriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	run := s.begins("disruption-cron-noon")
	s.injected(run)
	crons.delete()
	crons.gone()
	if live := s.read(run); live != nil {
		t.Errorf("the cron went before its run, which is in phase %s", live.Status.Phase)
	}
	if _, err := schedule.Describe(t.Context()); err == nil {
		t.Error("the schedule outlived its cron")
	}
}

// A release that is rolled out begins a run, which disrupts pods of that release; the
// rollout goes after its run.
func TestARolloutRuns(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.deployment()
	rollout := &v1beta1.DisruptionRollout{}
	rollouts := s.parent("disruptionrollouts", rollout, `{apiVersion: chaos.squall.dev/v1beta1, kind: DisruptionRollout, metadata: {name: releases}, spec: {
  targetResource: {kind: deployment, name: moved}, disruptionTemplate: {count: 1, duration: 5m, `+quick+`}}}`)
	eventually(t, func() string {
		if problem := rollouts.read(); problem != nil || rollout.Status.LatestContainersHash == "" {
			return fmt.Sprintf("the workload is not watched: %v %+v", problem, rollout.Status)
		}
		return ""
	})
	if rollout.Status.Releases != 0 {
		t.Errorf("%d releases of a workload that was seen for the first time, want none", rollout.Status.Releases)
	}
	release := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"target","env":[{"name":"RELEASE","value":"2"}]}]}}}}`)
	if _, err := s.kube.AppsV1().Deployments(s.name).Patch(t.Context(), "moved", types.StrategicMergePatchType, release, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	run := s.begins(rollout.ChildName())
	run = s.injected(run)
	for target := range run.Status.TargetInjections {
		pod := s.running(target)
		if env := pod.Spec.Containers[0].Env; len(env) != 1 || env[0].Value != "2" {
			t.Errorf("target %s has the environment %v: it is not of the release", target, env)
		}
	}
	if problem := rollouts.read(); problem != nil || rollout.Status.Releases != 1 || rollout.Status.StartedRelease != 1 {
		t.Errorf("status %v %+v, want one release, started", problem, rollout.Status)
	}
	rollouts.delete()
	rollouts.gone()
	if live := s.read(run); live != nil {
		t.Errorf("the rollout went before its run, which is in phase %s", live.Status.Phase)
	}
}

// A scenario disrupts real pods, waits for a person whose approval the API server
// checks, goes on, and ends what runs when it is deleted.
func TestAScenarioRuns(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2)
	before := s.snapshots(pods)
	plan := &v1beta1.DisruptionScenario{}
	scenario := s.parent("disruptionscenarios", plan, `{apiVersion: chaos.squall.dev/v1beta1, kind: DisruptionScenario, metadata: {name: gameday}, spec: {steps: [
  {name: slow, onFailure: Continue, disruptions: [{template: {selector: {app: target}, count: 1, duration: 5m, `+quick+`}}]},
  {name: look, approval: {message: is it open}},
  {name: busy, disruptions: [{template: {selector: {app: target}, count: 2, duration: 5m, `+quick+`}}]}]}}`)
	me, err := s.kube.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	approve := func(by string) error {
		return s.kube.Discovery().RESTClient().Patch(types.MergePatchType).AbsPath(scenario.path).
			Body([]byte(`{"metadata":{"annotations":{"chaos.squall.dev/approved-by.look":"` + by + `"}}}`)).Do(t.Context()).Error()
	}
	first := s.begins(plan.ChildName(0, 0))
	s.injected(first)
	if err := approve(me.Status.UserInfo.Username); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Errorf("an approval ahead of time: %v, want that it is refused", err)
	}
	s.delete(first)
	eventually(t, func() string {
		if err := scenario.read(); err != nil || plan.Status.Phase != v1beta1.ScenarioSuspended || plan.Status.Steps[0].Verdict != v1beta1.VerdictAborted {
			return fmt.Sprintf("it does not wait for a person: %v, %+v", err, plan.Status)
		}
		return ""
	})
	if err := approve("somebody-else"); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Errorf("an approval in another's name: %v, want that it is refused", err)
	}
	if err := approve(me.Status.UserInfo.Username); err != nil {
		t.Fatal(err)
	}
	second := s.begins(plan.ChildName(2, 0))
	s.injected(second)
	scenario.delete()
	s.gone(second)
	scenario.gone()
	s.wantSame(before, s.snapshots(pods))
}

// A probe of the whole run that is lost ends what a scenario disrupts, and no further
// step begins.
func TestAScenarioIsGuarded(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(1)
	before := s.snapshots(pods)
	plan := &v1beta1.DisruptionScenario{}
	scenario := s.parent("disruptionscenarios", plan, `{apiVersion: chaos.squall.dev/v1beta1, kind: DisruptionScenario, metadata: {name: guarded}, spec: {
  steadyState: {probes: [{name: answers, periodSeconds: 1, httpGet: {host: `+pods[0].Status.PodIP+`, port: 8080, path: /healthz}}]},
  steps: [
    {name: cut, disruptions: [{template: {selector: {app: target}, count: 1, duration: 10m, network: {drop: 100, hosts: [{port: 8080, protocol: tcp, flow: ingress}]}}}]},
    {name: busy, disruptions: [{template: {selector: {app: target}, count: 1, duration: 5m, `+quick+`}}]}]}}`)
	eventually(t, func() string {
		if err := scenario.read(); err != nil || plan.Status.Phase != v1beta1.ScenarioFinished {
			return fmt.Sprintf("it is not over: %v, %+v", err, plan.Status)
		}
		return ""
	})
	status := plan.Status
	if status.Verdict != v1beta1.VerdictAborted || len(status.Steps) != 1 || !strings.Contains(status.Message, "probe answers was lost") {
		t.Errorf("status %+v, want that the probe aborted its first step", status)
	}
	if steady := status.SteadyState; steady == nil || steady.Verdict != v1beta1.VerdictAborted || steady.Probes[0].State != v1beta1.ProbeSuccess {
		t.Errorf("status.steadyState %+v, want that the probe aborted it and succeeds again", steady)
	}
	s.wantSame(before, s.snapshots(pods))
}

// parent is an object that has disruptions of its own: a cron, a rollout or a scenario.
type parent struct {
	*space
	path string
	into metav1.Object
}

// parent makes one, into an object, until the test is over: a failed one leaves nothing
// that begins more.
func (s *space) parent(resource string, into metav1.Object, document string) parent {
	s.t.Helper()
	decode(s.t, s.post(s.pathOf(resource), document), into)
	p := parent{s, s.pathOf(resource) + "/" + into.GetName(), into}
	s.t.Cleanup(func() {
		_ = s.kube.Discovery().RESTClient().Delete().AbsPath(p.path).Do(context.Background()).Error()
	})
	return p
}

// read reads the object again.
func (p parent) read() error { return p.readInto(p.path, p.into) }

func (p parent) delete() {
	p.t.Helper()
	if err := p.kube.Discovery().RESTClient().Delete().AbsPath(p.path).Do(p.t.Context()).Error(); err != nil {
		p.t.Fatal(err)
	}
}

func (p parent) gone() {
	p.t.Helper()
	eventually(p.t, func() string {
		if err := p.kube.Discovery().RESTClient().Get().AbsPath(p.path).Do(p.t.Context()).Error(); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("%s is still there: %v", p.path, err)
		}
		return ""
	})
}

func (s *space) readInto(path string, object any) error {
	raw, err := s.kube.Discovery().RESTClient().Get().AbsPath(path).DoRaw(s.t.Context())
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, object)
}

// begins waits for a disruption that Squall itself creates.
func (s *space) begins(name string) *v1beta1.Disruption {
	s.t.Helper()
	d := &v1beta1.Disruption{}
	eventually(s.t, func() string {
		if err := s.readInto(s.path(name), d); err != nil {
			return fmt.Sprintf("no disruption %s: %v", name, err)
		}
		return ""
	})
	return d
}

// TestAPolicyRefuses: the refusal names the policy's rule, and nothing is
// injected.
func TestAPolicyRefuses(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(1)
	s.policy(`[
  {name: no-network, reason: sale week, namespaces: [` + s.name + `], kinds: [network-disruption],
   windows: [{timeZone: UTC}]}]`) // with a window, though of all day, the worker judges it, and not the API server
	// The worker sees a policy by its watch: a disruption of the same moment may miss it
	// (docs/policies.md), a later one may not.
	const moment = 10 * time.Second
	made := time.Now()
	var refused *v1beta1.Disruption
	for i := 0; refused == nil; i++ {
		late := time.Since(made) > moment
		d := s.await(s.create(fmt.Sprintf("denied-%d", i), "{selector: {app: target}, count: 1, duration: 5m, "+quick+"}"), "refused or injected", func(d *v1beta1.Disruption) bool {
			return d.Status.Phase == v1beta1.PhaseRejected || d.Status.InjectionStatus == v1beta1.Injected
		})
		if d.Status.Phase == v1beta1.PhaseRejected {
			refused = d
		} else if late {
			t.Fatalf("%s was created more than %s after the policy, and is injected despite it", d.Name, moment)
		} else {
			s.delete(d)
			s.gone(d)
		}
	}
	output := conditions(refused)
	for _, want := range []string{"no-network", s.name, "sale week"} {
		if !strings.Contains(output, want) {
			t.Errorf("conditions %s, want %q in them", output, want)
		}
	}
	if pods := s.chaosPods(t, refused); len(pods) > 0 {
		t.Errorf("%d chaos pods of a disruption that is denied", len(pods))
	}
	other := s.injected(s.create("allowed", "{selector: {app: target}, count: 1, duration: 5m, cpuPressure: {count: 1}}"))
	s.delete(other)
	s.gone(other)
}

// pathOf is where the API has the test's objects of a resource.
func (s *space) pathOf(resource string) string {
	return "/apis/chaos.squall.dev/v1beta1/namespaces/" + s.name + "/" + resource
}

// policy makes a DisruptionPolicy of the space's name until the test is over.
func (s *space) policy(rules string) {
	s.t.Helper()
	const path = "/apis/chaos.squall.dev/v1beta1/disruptionpolicies"
	s.t.Cleanup(func() {
		_ = s.kube.Discovery().RESTClient().Delete().AbsPath(path, s.name).Do(context.Background()).Error()
	})
	s.post(path, "{apiVersion: chaos.squall.dev/v1beta1, kind: DisruptionPolicy, metadata: {name: "+s.name+"}, spec: {rules: "+rules+"}}")
}

// post is tryPost for what must be taken.
func (s *space) post(path, document string) string {
	s.t.Helper()
	raw, err := s.tryPost(path, document)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw)
}
