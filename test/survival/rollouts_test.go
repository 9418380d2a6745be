package survival

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

// rule C9: a release begins a run, which is cleaned when its rollout goes.
func TestRollout(t *testing.T) {
	s := begin(t, 5)
	labels := map[string]string{"app": "web"}
	web, err := s.Kube.AppsV1().Deployments(s.Shop).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}}},
		},
	}, metav1.CreateOptions{})
	s.Must(err)
	template := s.Disruption("", 2).Spec
	template.Selector = nil
	r := &v1beta1.DisruptionRollout{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: "releases"},
		Spec:       v1beta1.DisruptionRolloutSpec{TargetResource: v1beta1.TargetResource{Kind: v1beta1.TargetDeployment, Name: "web"}, DisruptionTemplate: template},
	}
	s.Must(s.Disruptions.Create(t.Context(), r))
	read := func() bool {
		err := s.Disruptions.Get(t.Context(), client.ObjectKeyFromObject(r), r)
		s.Must(client.IgnoreNotFound(err))
		return err == nil
	}
	world.Eventually(t, s.Patience, "releases are seen", func() bool {
		return read() && meta.IsStatusConditionTrue(r.Status.Conditions, v1beta1.ConditionWatching)
	})
	web.Spec.Template.Spec.Containers[0].Image = "web:2"
	web, err = s.Kube.AppsV1().Deployments(s.Shop).Update(t.Context(), web, metav1.UpdateOptions{})
	s.Must(err)
	world.Eventually(t, s.Patience, "its run waits until it is rolled out", func() bool {
		read()
		last := meta.FindStatusCondition(r.Status.Conditions, v1beta1.ConditionLastRun)
		return last != nil && last.Reason == "Waiting"
	})
	web.Status = appsv1.DeploymentStatus{ObservedGeneration: web.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1, ReadyReplicas: 1}
	_, err = s.Kube.AppsV1().Deployments(s.Shop).UpdateStatus(t.Context(), web, metav1.UpdateOptions{})
	s.Must(err)
	d := &v1beta1.Disruption{}
	world.Eventually(t, s.Patience, "its run begins", func() bool {
		err := s.Disruptions.Get(t.Context(), client.ObjectKey{Namespace: s.Shop, Name: r.ChildName()}, d)
		s.Must(client.IgnoreNotFound(err))
		return err == nil
	})
	s.Injected(d)
	s.Must(s.Disruptions.Delete(t.Context(), r.DeepCopy()))
	s.Vanishes(d)
	s.NothingLeft(d)
	world.Eventually(t, s.Patience, "the rollout is gone, after its run", func() bool { return !read() })
}
