package matrix

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// A cron, a rollout or a scenario is the parent of Disruptions that the worker creates.
// Three facts must be the same at its end: its last status before it is deleted, its own
// workflows, and the Disruptions that it began.

// ofParents are parts of the names of points that a disruption alone does not have. Other
// workloads have the other points.
var ofParents = []string{
	person, "cron", "rollout", "cenario", "create disruptions", "delete disruptions", "Schedule",
	"BeginRun", "AwaitRun", "BeginStep", "SeeRuns", "EndRuns", "decides complete",
}

// counts is true for the points of the workload.
func (r *run) counts(f fault) bool {
	switch {
	case r.twoBridges:
		return f.victim == bridge
	case r.lost:
		return f.victim == worker
	case r.parent != nil:
		point := f.point
		for _, d := range r.all {
			point = strings.ReplaceAll(point, d.Name, "")
		}
		return slices.ContainsFunc(ofParents, func(part string) bool { return strings.Contains(point, part) })
	case r.about != nil:
		return slices.ContainsFunc(r.about, func(part string) bool { return strings.Contains(f.point, part) })
	}
	return true
}

// web is the Deployment that selects the targets.
const web = "web"

func (r *run) makeWorkload() (*appsv1.Deployment, error) {
	labels := map[string]string{"app": "web"}
	return r.world.Kube.AppsV1().Deployments(r.shop).Create(r.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: web},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}},
		},
	}, metav1.CreateOptions{})
}

// template is the spec of each run, whose targets the workload selects.
func (r *run) template() v1beta1.DisruptionSpec {
	spec := r.disruption().Spec
	spec.Selector = nil
	return spec
}

func (r *run) target() v1beta1.TargetResource {
	return v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: web}
}

func (r *run) makeParent(parent client.Object) error {
	if err := r.world.Disruptions.Create(r.ctx, parent); err != nil {
		return err
	}
	r.parent = parent
	r.current.names.know(string(parent.GetUID()), "PARENT")
	return nil
}

// readParent is false when it is gone.
func (r *run) readParent() bool {
	return r.world.Disruptions.Get(r.ctx, client.ObjectKeyFromObject(r.parent), r.parent) == nil
}

// cronRuns is a cron of which a run was due, and disrupts.
func (r *run) cronRuns() error {
	if _, err := r.makeWorkload(); err != nil {
		return err
	}
	c := &v1beta1.DisruptionCron{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "noon"},
		Spec:       v1beta1.DisruptionCronSpec{Schedule: "@yearly", TargetResource: r.target(), DisruptionTemplate: r.template()},
	}
	if err := r.makeParent(c); err != nil {
		return err
	}
	err := r.until("the cron has its schedule", func() bool {
		return r.readParent() && meta.IsStatusConditionTrue(c.Status.Conditions, v1beta1.ConditionScheduled)
	})
	if err != nil {
		return err
	}
	if err := r.quiet(); err != nil {
		return err
	}
	if err := r.schedule().Trigger(r.ctx, temporalclient.ScheduleTriggerOptions{}); err != nil {
		return err
	}
	return r.child(c.ChildName())
}

// schedule is that of the cron.
func (r *run) schedule() temporalclient.ScheduleHandle {
	ref := contract.CronRef{Namespace: r.shop, Name: r.parent.GetName(), UID: r.parent.GetUID()}
	return r.temporal.ScheduleClient().GetHandle(r.ctx, contract.CronScheduleID(ref))
}

// runDeleted is a person who deletes the run of a cron, and later the cron.
func (r *run) runDeleted() error {
	if err := r.deleted(); err != nil {
		return err
	}
	c := r.parent.(*v1beta1.DisruptionCron)
	err := r.until("the history has the end of the run", func() bool {
		return r.readParent() && len(c.Status.History) == 1 && c.Status.History[0].Ending != ""
	})
	if err != nil {
		return err
	}
	if err := r.parentDeleted(); err != nil {
		return err
	}
	return r.until("its schedule is gone", func() bool {
		_, err := r.schedule().Describe(r.ctx)
		_, none := errors.AsType[*serviceerror.NotFound](err)
		return none
	})
}

// releaseRuns is a rollout that disrupts after a release.
func (r *run) releaseRuns() error {
	workload, err := r.makeWorkload()
	if err != nil {
		return err
	}
	o := &v1beta1.DisruptionRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "releases"},
		Spec:       v1beta1.DisruptionRolloutSpec{TargetResource: r.target(), DisruptionTemplate: r.template()},
	}
	if err := r.makeParent(o); err != nil {
		return err
	}
	err = r.until("releases are seen", func() bool {
		return r.readParent() && meta.IsStatusConditionTrue(o.Status.Conditions, v1beta1.ConditionWatching)
	})
	if err != nil {
		return err
	}
	if err := r.quiet(); err != nil {
		return err
	}
	workload.Spec.Template.Spec.Containers[0].Image = "web:2"
	deployments := r.world.Kube.AppsV1().Deployments(r.shop)
	err = r.written("update deployments", []string{bridge}, func() (metav1.Object, error) {
		workload, err = deployments.Update(r.ctx, workload, metav1.UpdateOptions{})
		return workload, err
	})
	if err != nil {
		return err
	}
	err = r.until("the run waits until it is rolled out", func() bool {
		last := (*metav1.Condition)(nil)
		if r.readParent() {
			last = meta.FindStatusCondition(o.Status.Conditions, v1beta1.ConditionLastRun)
		}
		return last != nil && last.Reason == "Waiting"
	})
	if err != nil {
		return err
	}
	workload.Status = appsv1.DeploymentStatus{ObservedGeneration: workload.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1}
	if _, err := deployments.UpdateStatus(r.ctx, workload, metav1.UpdateOptions{}); err != nil {
		return err
	}
	return r.child(o.ChildName())
}

// releaseDeleted is a person who deletes a rollout once its status shows the run.
func (r *run) releaseDeleted() error {
	o := r.parent.(*v1beta1.DisruptionRollout)
	err := r.until("the history has the run", func() bool { return r.readParent() && len(o.Status.History) == 1 })
	if err != nil {
		return err
	}
	return r.parentDeleted()
}

// firstStepRuns is a scenario of two steps that goes on whatever the first one shows.
func (r *run) firstStepRuns() error {
	step := []v1beta1.ScenarioDisruption{{Template: r.disruption().Spec}}
	s := &v1beta1.DisruptionScenario{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.shop, Name: "gameday"},
		Spec: v1beta1.DisruptionScenarioSpec{Steps: []v1beta1.ScenarioStep{
			{Name: "first", OnFailure: v1beta1.OnFailureContinue, Disruptions: step}, {Name: "second", Disruptions: step},
		}},
	}
	if err := r.makeParent(s); err != nil {
		return err
	}
	return r.child(s.ChildName(0, 0))
}

// secondStepRuns is a person who ends the first step, and deletes the scenario during the
// second one, once the status shows that step: the status before that depends on how long a
// recovery takes.
func (r *run) secondStepRuns() error {
	if err := r.deleted(); err != nil {
		return err
	}
	s := r.parent.(*v1beta1.DisruptionScenario)
	if err := r.child(s.ChildName(1, 0)); err != nil {
		return err
	}
	err := r.until("status has the disruption of the second step", func() bool {
		return r.readParent() && len(s.Status.Steps) == 2 && len(s.Status.Steps[1].Disruptions) == 1
	})
	if err != nil {
		return err
	}
	return r.parentDeleted()
}

// child waits until a Disruption of that name disrupts all targets.
func (r *run) child(name string) error {
	d := &v1beta1.Disruption{}
	err := r.until(name+" begins", func() bool {
		return r.world.Disruptions.Get(r.ctx, client.ObjectKey{Namespace: r.shop, Name: name}, d) == nil
	})
	if err != nil {
		return err
	}
	r.knows(d)
	return r.allDisrupted()
}

// parentDeleted is a person who deletes the parent, which goes after what runs of it.
func (r *run) parentDeleted() error {
	if err := r.quiet(); err != nil {
		return err
	}
	if !r.readParent() {
		return fmt.Errorf("%s is gone, and was not deleted", r.parent.GetName())
	}
	text, err := json.Marshal(r.parent)
	if err != nil {
		return err
	}
	var written struct{ Status any }
	if err := json.Unmarshal(text, &written); err != nil {
		return err
	}
	r.parentStatus = written.Status
	if err := client.IgnoreNotFound(r.world.Disruptions.Delete(r.ctx, r.parent)); err != nil {
		return err
	}
	return r.until("it is gone, after what runs of it", func() bool { return !r.readParent() && !r.see() })
}

// parentWorkflows waits for the end of the parent's own workflows, and returns their
// results. Runs that went on in another one count once.
func (r *run) parentWorkflows() (all []string, err error) {
	if r.parent == nil {
		return nil, nil
	}
	var open int
	err = r.until("the workflows of the parent have ended", func() bool {
		var answer *workflowservice.ListWorkflowExecutionsResponse
		answer, err = r.temporal.ListWorkflow(r.ctx, &workflowservice.ListWorkflowExecutionsRequest{})
		all, open = nil, 0
		for _, execution := range answer.GetExecutions() {
			id := execution.GetExecution().GetWorkflowId()
			if !strings.Contains(id, string(r.parent.GetUID())) || execution.GetType().GetName() == "temporal-sys-scheduler-workflow" {
				continue
			}
			switch execution.GetStatus() {
			case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
				open++
			case enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
			default:
				all = append(all, id)
			}
		}
		return err == nil && open == 0 && len(all) > 0
	})
	for i, id := range all {
		var result any
		if err == nil {
			err = r.temporal.GetWorkflow(r.ctx, id, "").Get(r.ctx, &result)
		}
		text, _ := json.Marshal(result)
		all[i] += " ended with " + string(text)
	}
	slices.Sort(all)
	return all, err
}

// leaveParent takes away what a run with a parent made beside its targets.
func (r *run) leaveParent() error {
	if r.parent == nil {
		return nil
	}
	if err := client.IgnoreNotFound(r.world.Disruptions.Delete(r.ctx, r.parent)); err != nil {
		return err
	}
	err := r.world.Kube.AppsV1().Deployments(r.shop).Delete(r.ctx, web, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return r.until("the parent is gone", func() bool { return !r.readParent() })
}
