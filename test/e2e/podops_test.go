//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/kuperator"
)

// rules L3, L4, L9: a disruption that is an operation on its target waits until the
// kubelet has taken the pod out of service, and gives it back. The driver is played,
// the kubelet is real.
func TestADisruptionIsAnOperationOnItsTarget(t *testing.T) {
	t.Parallel()
	allow(t, start(t), "pod-operations")
	start(t).driver(t)
	s := newSpace(t)
	pods := s.targets(2, func(pod *corev1.Pod) {
		pod.Labels[podops.LabelManaged] = podops.ManagedValue
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: podops.ReadinessGate}}
	})
	ready := func(name string) (bool, *corev1.Pod) {
		pod, err := s.kube.CoreV1().Pods(s.name).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		return i >= 0 && pod.Status.Conditions[i].Status == corev1.ConditionTrue, pod
	}
	for _, pod := range pods {
		eventually(t, func() string {
			if is, _ := ready(pod.Name); !is {
				return pod.Name + " is not in service"
			}
			return ""
		})
	}
	before := s.snapshots(pods)
	d := s.create("operation", "{selector: {app: target}, count: 1, duration: 10m, "+quick+", podOpsLifecycle: {policy: Participate, unmanagedPods: Skip}}")
	d = s.injected(d)
	for target := range d.Status.TargetInjections {
		if is, pod := ready(target); is || !slices.ContainsFunc(slices.Collect(maps.Keys(pod.Labels)), func(key string) bool { return strings.HasPrefix(key, podops.LabelOperate+"/") }) {
			t.Errorf("target %s is injected, ready %t, with the labels %v; want it given, and out of service", target, is, pod.Labels)
		}
	}
	if !meta.IsStatusConditionTrue(d.Status.Conditions, v1beta1.ConditionOperating) {
		t.Errorf("conditions %+v, want Operating", d.Status.Conditions)
	}
	s.delete(d)
	for _, pod := range pods {
		eventually(t, func() string {
			is, live := ready(pod.Name)
			for key := range live.Labels {
				if strings.HasPrefix(key, podops.LabelOperating+"/") || strings.HasPrefix(key, podops.LabelOperate+"/") {
					return fmt.Sprintf("%s has the label %s still", pod.Name, key)
				}
			}
			if !is {
				return pod.Name + " is not back in service"
			}
			return ""
		})
	}
	s.wantSame(before, s.snapshots(pods))
}

// theLabelAloneMakesPodsManaged: rule L22 and the driver of the bridge, from a
// Deployment's template with the label alone to a disruption that is an operation on one
// of its pods.
func theLabelAloneMakesPodsManaged(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	two, template := int32(2), podTemplate("labelled")
	template.Labels[podops.LabelManaged] = podops.ManagedValue
	_, err := s.kube.AppsV1().Deployments(s.name).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "labelled"},
		Spec:       appsv1.DeploymentSpec{Replicas: &two, Selector: selects("labelled"), Template: template},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inService := func() string {
		pods, err := s.kube.CoreV1().Pods(s.name).List(t.Context(), metav1.ListOptions{LabelSelector: "app=labelled"})
		if err != nil || len(pods.Items) != 2 {
			return fmt.Sprintf("%d pods, %v", len(pods.Items), err)
		}
		for _, pod := range pods.Items {
			if in, err := podops.Available(&pod); !in || !podops.Managed(&pod) {
				return fmt.Sprintf("%s is not in service: labels %v, gates %v, conditions %v, %v", pod.Name, pod.Labels, pod.Spec.ReadinessGates, pod.Status.Conditions, err)
			}
		}
		return ""
	}
	eventually(t, inService)
	d := s.injected(s.create("operation", "{selector: {app: labelled}, count: 1, duration: 10m, "+quick+", podOpsLifecycle: {policy: Participate, unmanagedPods: Skip}}"))
	for target := range d.Status.TargetInjections {
		pod, err := s.kube.CoreV1().Pods(s.name).Get(t.Context(), target, metav1.GetOptions{})
		if err != nil || podops.Ready(pod) || !podops.Taken(pod) {
			t.Errorf("target %s is injected: ready %t, labels %v, %v; want it given, and out of service", target, podops.Ready(pod), pod.Labels, err)
		}
	}
	s.delete(d)
	s.gone(d)
	eventually(t, inService)
}

// driver plays Kuperator for as long as the test lasts. Its webhook, by which the worker
// knows that there is one, is called for no pod.
func (w *world) driver(t *testing.T) {
	t.Helper()
	webhooks := w.kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	webhook := kuperator.Webhook()
	webhook.Name, webhook.GenerateName = "", "e2e-kuperator-"
	made, err := webhooks.Create(t.Context(), webhook, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for pause(ctx) == nil {
			if err := w.moveAll(ctx); err != nil && ctx.Err() == nil {
				t.Logf("the driver: %v", err)
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-over
		if err := webhooks.Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// moveAll moves the pods of all namespaces that have one to move.
func (w *world) moveAll(ctx context.Context) error {
	pods, err := w.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: podops.LabelManaged + "=" + podops.ManagedValue})
	if err != nil {
		return err
	}
	namespaces := map[string]bool{}
	for i := range pods.Items {
		namespaces[pods.Items[i].Namespace] = true
	}
	var errs []error
	for namespace := range namespaces {
		errs = append(errs, kuperator.Settle(ctx, w.kube, namespace, false))
	}
	return errors.Join(errs...)
}
