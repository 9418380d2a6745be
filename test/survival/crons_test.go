package survival

import (
	"errors"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	temporalclient "go.temporal.io/sdk/client"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
)

// rules C5, C6: two runs of a cron, the first of which loses its worker, and the
// second its cron.
func TestCron(t *testing.T) {
	s := begin(t, 5)
	labels := map[string]string{"app": "web"}
	_, err := s.Kube.AppsV1().Deployments(s.Shop).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}}},
		},
	}, metav1.CreateOptions{})
	s.Must(err)
	c := s.cron()

	first := s.trigger(c, "")
	s.Injected(first)
	s.worker.Kill()
	s.worker.Start()
	s.Must(s.Disruptions.Delete(t.Context(), first.DeepCopy()))
	s.Vanishes(first)
	world.Eventually(t, s.Patience, "the history says how the first run ended", func() bool {
		s.read(c)
		return len(c.Status.History) == 1 && c.Status.History[0].UID == first.UID && c.Status.History[0].Ending == "deleted"
	})

	second := s.trigger(c, first.UID)
	s.Injected(second)
	s.Must(s.Disruptions.Delete(t.Context(), c.DeepCopy()))
	s.Vanishes(second)
	s.NothingLeft(second)
	world.Eventually(t, s.Patience, "the cron is gone, after its run", func() bool {
		err := s.Disruptions.Get(t.Context(), client.ObjectKeyFromObject(c), &v1beta1.DisruptionCron{})
		s.Must(client.IgnoreNotFound(err))
		return err != nil
	})
	_, err = s.scheduleOf(c).Describe(t.Context())
	if _, none := errors.AsType[*serviceerror.NotFound](err); !none {
		t.Errorf("its schedule: %v, want none", err)
	}
}

// cron makes one that disrupts two pods for two hours, and waits for its schedule.
func (w survival) cron() *v1beta1.DisruptionCron {
	w.Helper()
	template := w.Disruption("", 2).Spec
	template.Selector = nil
	c := &v1beta1.DisruptionCron{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Shop, Name: "noon"},
		Spec: v1beta1.DisruptionCronSpec{
			Schedule: "@yearly", TargetResource: v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "web"}, DisruptionTemplate: template,
		},
	}
	w.Must(w.Disruptions.Create(w.Context(), c))
	world.Eventually(w, w.Patience, "the cron has its schedule", func() bool {
		w.read(c)
		return meta.IsStatusConditionTrue(c.Status.Conditions, v1beta1.ConditionScheduled)
	})
	return c
}

func (w survival) read(c *v1beta1.DisruptionCron) {
	w.Helper()
	w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(c), c))
}

func (w survival) scheduleOf(c *v1beta1.DisruptionCron) temporalclient.ScheduleHandle {
	ref := contract.CronRef{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	return w.Workflows.ScheduleClient().GetHandle(w.Context(), contract.CronScheduleID(ref))
}

// trigger lets a run be due, as a person may, and waits for its disruption, which
// is another one than before.
func (w survival) trigger(c *v1beta1.DisruptionCron, before types.UID) *v1beta1.Disruption {
	w.Helper()
	began := time.Now()
	w.Must(w.scheduleOf(c).Trigger(w.Context(), temporalclient.ScheduleTriggerOptions{}))
	d := &v1beta1.Disruption{}
	world.Eventually(w, w.Patience, "a run begins", func() bool {
		err := w.Disruptions.Get(w.Context(), client.ObjectKey{Namespace: c.Namespace, Name: c.ChildName()}, d)
		w.Must(client.IgnoreNotFound(err))
		return err == nil && d.UID != before
	})
	w.Logf("a run began %.1fs after it was due", time.Since(began).Seconds())
	return d
}
