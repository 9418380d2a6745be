//go:build e2e

package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

var restarts = flag.Int("restarts", 5, "how many containers end together in TestContainersThatRestartAreDisturbedAgain")

// A container that the kubelet starts again is disturbed again, also by kinds that see
// no cgroups of the node. rule 56a
func TestContainersThatRestartAreDisturbedAgain(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	const falsely = "192.0.2.77"
	pods := s.targets(1+*restarts, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Args = []string{"serve", "--write", "/data/file"}
	})
	named, broken := pods[:1], pods[1:]
	disturb := func(app, fault string, pods []corev1.Pod) *v1beta1.Disruption {
		for _, pod := range pods {
			s.label(pod, app)
		}
		return s.injected(s.create(app, "{selector: {app: "+app+"}, count: 100%, duration: 30m, "+fault+"}"))
	}
	names := disturb("named", "dns: {records: [{hostname: made-up, record: {type: A, value: "+falsely+"}}]}", named)
	opens := disturb("broken", "diskFailure: {paths: [/data], openat: {exitCode: EPERM}, probability: 100%}", broken)
	for _, pod := range pods {
		s.probe(t, nil, pod.Spec.NodeName, "kill", "--name", "target", "--container", containerID(pod))
	}
	for i := range pods {
		eventually(t, func() string {
			pods[i] = s.running(pods[i].Name)
			if count := pods[i].Status.ContainerStatuses[0].RestartCount; count != 1 {
				return fmt.Sprintf("%s was started again %d times, want once", pods[i].Name, count)
			}
			return ""
		})
	}
	var took []time.Duration
	for _, pod := range broken {
		took = append(took, s.injectedAgain(opens, pod))
	}
	slices.Sort(took)
	t.Logf("from a container's start to its injection, %d restarts: median %s, p95 %s (the kubelet tells whole seconds of the start)", len(took), took[len(took)/2], took[len(took)*95/100])
	for _, pod := range named {
		s.wantAnswer(pod, "after a restart", "made-up", falsely)
	}
	for _, pod := range broken {
		s.wantOpens(pod, "target", "after a restart", map[string]int{"operation not permitted": 100})
	}
	for _, d := range []*v1beta1.Disruption{names, opens} {
		s.delete(d)
		s.gone(d)
	}
}

// injectedAgain waits until the injector of a target reports that it has injected
// again, and returns how long after the start of the container that was.
func (s *space) injectedAgain(d *v1beta1.Disruption, target corev1.Pod) (took time.Duration) {
	s.t.Helper()
	chaos := s.chaosPodOf(d, target.Name)
	started := target.Status.ContainerStatuses[0].State.Running.StartedAt
	eventually(s.t, func() string {
		output, err := s.kube.CoreV1().Pods(chaos.Namespace).GetLogs(chaos.Name, &corev1.PodLogOptions{}).DoRaw(s.t.Context())
		if err != nil {
			return err.Error()
		}
		for line := range strings.Lines(string(output)) {
			var event struct {
				Message string      `json:"msg"`
				Time    metav1.Time `json:"ts"`
			}
			if json.Unmarshal([]byte(line), &event) == nil && event.Message == "injected again" {
				took = event.Time.Sub(started.Time)
				return ""
			}
		}
		return fmt.Sprintf("the injector of %s has not injected again: %s", target.Name, output)
	})
	return took
}
