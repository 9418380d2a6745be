//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The tests below harm Squall itself, so no other runs beside them.

// Workers and bridges are killed while the disruption is being injected and
// again while it is being cleaned. It ends as it would have.
func TestEverythingKilledMidway(t *testing.T) {
	s := newSpace(t)
	pods := s.targets(6)
	before := s.snapshots(pods)
	d := s.create("crashes", "{selector: {app: target}, count: 100%, duration: 10m, "+quick+"}")
	s.awaitChaosPod(d, func(corev1.Pod) bool { return true })
	s.killSystem()
	d = s.await(d, "injected", func(d *v1beta1.Disruption) bool { return d.Status.InjectionStatus == v1beta1.Injected })
	if d.Status.Targets != "6/6" {
		t.Errorf("targets %q, want 6/6", d.Status.Targets)
	}
	if got := len(s.chaosPods(t, d)); got != 6 {
		t.Errorf("%d chaos pods, want one for each target", got)
	}
	s.awaitSystem()
	s.delete(d)
	s.awaitChaosPod(d, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	s.killSystem()
	eventually(t, func() string {
		if live := s.read(d); live != nil {
			return fmt.Sprintf("the disruption is still there: phase %s, %s", live.Status.Phase, conditions(live))
		}
		return ""
	})
	s.gone(d)
	s.wantSame(before, s.snapshots(pods))
	s.awaitSystem()
}

// TestImageThatCannotBePulled (rule 42): the status names the reason of chaos pods
// that never start, and they are finalized at the end.
func TestImageThatCannotBePulled(t *testing.T) {
	s := newSpace(t)
	s.targets(1)
	s.workerImage("squall.local/missing:dev")
	defer s.workerImage("")
	d := s.create("no-image", "{selector: {app: target}, count: 1, duration: 5m, "+quick+"}")
	s.await(d, "told that the image is missing", func(d *v1beta1.Disruption) bool {
		return strings.Contains(d.Status.TargetInjections["target-0"][v1beta1.KindNetwork].Reason, "squall.local/missing:dev")
	})
	if pods := s.chaosPods(t, d); len(pods) != 1 || pods[0].Status.Phase != corev1.PodPending {
		t.Errorf("chaos pods: %d, want one that is Pending", len(pods))
	}
	s.delete(d)
	s.gone(d)
}

// injectorsSucceed waits until every injector of d has cleaned and ended.
func (s *space) injectorsSucceed(d *v1beta1.Disruption) {
	s.t.Helper()
	eventually(s.t, func() string {
		for _, pod := range s.chaosPods(s.t, d) {
			if pod.Status.Phase != corev1.PodSucceeded {
				return fmt.Sprintf("chaos pod %s is %s", pod.Name, pod.Status.Phase)
			}
		}
		return ""
	})
}

// awaitChaosPod waits for a chaos pod as wanted.
func (s *space) awaitChaosPod(d *v1beta1.Disruption, wanted func(corev1.Pod) bool) {
	s.t.Helper()
	eventually(s.t, func() string {
		pods := s.chaosPods(s.t, d)
		for _, pod := range pods {
			if wanted(pod) {
				return ""
			}
		}
		return fmt.Sprintf("none of %d chaos pods is as waited for", len(pods))
	})
}

// killSystem ends every worker and every bridge as a crash would. It skips a pod
// that has just ended on its own.
func (s *space) killSystem() {
	s.t.Helper()
	killed := 0
	for _, pod := range s.systemPods() {
		eventually(s.t, func() string {
			now, err := s.kube.CoreV1().Pods(pod.Namespace).Get(s.t.Context(), pod.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && !runsAs(*now, pod) {
				return ""
			}
			if err == nil {
				err = s.probes.Run(s.t.Context(), nil, pod.Spec.NodeName, "kill", "--name", pod.Spec.Containers[0].Name, "--container", containerID(pod))
			}
			if err != nil {
				return fmt.Sprintf("kill %s: %v", pod.Name, err)
			}
			killed++
			return ""
		})
	}
	if killed < 2 {
		s.t.Fatalf("killed %d programs, want a worker and a bridge at least", killed)
	}
}

// runsAs is true when the container of a pod runs, and is the one seen before.
func runsAs(now, before corev1.Pod) bool {
	return len(before.Status.ContainerStatuses) > 0 && len(now.Status.ContainerStatuses) > 0 &&
		now.Status.ContainerStatuses[0].State.Running != nil && containerID(now) == containerID(before)
}

func (s *space) systemPods() []corev1.Pod {
	s.t.Helper()
	pods, err := s.kube.CoreV1().Pods(systemNamespace).List(s.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=squall"})
	if err == nil && len(pods.Items) == 0 {
		pods, err = s.kube.CoreV1().Pods(systemNamespace).List(s.t.Context(), metav1.ListOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return pods.Items
}

// awaitSystem waits until all of Squall runs, and only that.
func (s *space) awaitSystem() {
	s.t.Helper()
	eventually(s.t, func() string {
		for _, name := range []string{"squall-worker", "squall-probes", "squall-crdbridge"} {
			deployment, err := s.kube.AppsV1().Deployments(systemNamespace).Get(s.t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			now := deployment.Status
			if wanted := *deployment.Spec.Replicas; now.ObservedGeneration != deployment.Generation ||
				now.UpdatedReplicas != wanted || now.ReadyReplicas != wanted || now.Replicas != wanted {
				return fmt.Sprintf("%s: %+v", name, now)
			}
		}
		for _, pod := range s.systemPods() {
			if pod.DeletionTimestamp != nil {
				return pod.Name + " is ending"
			}
		}
		return ""
	})
}

func (s *space) scale(name string, replicas int32) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	s.patchDeployment(name, patch)
	eventually(s.t, func() string {
		running := 0
		for _, pod := range s.systemPods() {
			if strings.HasPrefix(pod.Name, name+"-") {
				running++
			}
		}
		if running != int(replicas) {
			return fmt.Sprintf("%d pods of %s, want %d", running, name, replicas)
		}
		return ""
	})
}

// workerImage makes the workers use another image for chaos pods; "" is their own.
func (s *space) workerImage(image string) {
	s.t.Helper()
	env := `[{"name":"SQUALL_INJECTOR_IMAGE","$patch":"delete"}]`
	if image != "" {
		env = fmt.Sprintf(`[{"name":"SQUALL_INJECTOR_IMAGE","value":%q}]`, image)
	}
	s.patchDeployment("squall-worker", []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"worker","env":`+env+`}]}}}}`))
	s.awaitSystem()
}

func (s *space) patchDeployment(name string, patch []byte) *appsv1.Deployment {
	s.t.Helper()
	deployment, err := s.kube.AppsV1().Deployments(systemNamespace).Patch(s.t.Context(), name, "application/strategic-merge-patch+json", patch, metav1.PatchOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return deployment
}

// rule T5: Temporal is killed while the disruption is injected and again
// while it is cleaned.
func TestTemporalIsKilledMidway(t *testing.T) {
	s := newSpace(t)
	pods := s.targets(6)
	before := s.snapshots(pods)
	d := s.create("killed", "{selector: {app: target}, count: 100%, duration: 10m, "+quick+"}")
	s.awaitChaosPod(d, func(corev1.Pod) bool { return true })
	s.hurtTemporal("crash")
	d = s.await(d, "injected", func(d *v1beta1.Disruption) bool { return d.Status.InjectionStatus == v1beta1.Injected })
	if got := len(s.chaosPods(t, d)); got != 6 {
		t.Errorf("%d chaos pods, want one for each target", got)
	}
	s.delete(d)
	s.awaitChaosPod(d, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	s.hurtTemporal("crash")
	eventually(t, func() string {
		if live := s.read(d); live != nil {
			return fmt.Sprintf("the disruption is still there: phase %s, %s", live.Status.Phase, conditions(live))
		}
		return ""
	})
	s.gone(d)
	s.wantSame(before, s.snapshots(pods))
}

// hurtTemporal asks the development cluster, whose directory holds the
// kubeconfig, to crash, freeze or thaw its Temporal. Other clusters cannot.
func (s *space) hurtTemporal(action string) {
	s.t.Helper()
	s.hurt("temporal", action)
}

// hurt runs a command of the development cluster, whose directory holds the
// kubeconfig.
func (s *space) hurt(command ...string) {
	s.t.Helper()
	directory := filepath.Dir(os.Getenv("KUBECONFIG"))
	program, err := exec.LookPath("devcluster")
	if err != nil {
		program, err = exec.LookPath(filepath.Join(directory, "bin", "devcluster"))
	}
	if err != nil {
		s.t.Skip("only the development cluster can be hurt: ", err)
	}
	if out, err := exec.Command(program, append(command, "--dir", directory)...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s %s: %v\n%s", program, strings.Join(command, " "), err, out)
	}
}
