package chaospod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rules 32, 33, 57: the kubelet waits for the injection, then probes rarely, and never
// kills an injector for a failed probe.
func TestProbesAskUntilInjected(t *testing.T) {
	pod := probedPod(t, nil, 0)
	startup, readiness := pod.Spec.Containers[0].StartupProbe, pod.Spec.Containers[0].ReadinessProbe
	if startup == nil || startup.PeriodSeconds != 1 {
		t.Fatalf("startup probe = %+v, want one that asks again after a second", startup)
	}
	wait, err := time.ParseDuration(strings.TrimPrefix(startup.Exec.Command[len(startup.Exec.Command)-1], "--wait="))
	if timeout := time.Duration(startup.TimeoutSeconds) * time.Second; err != nil || wait < time.Second || wait > timeout-2*time.Second {
		t.Errorf("the startup probe runs %q, want it to wait, and to end in time for its %s", startup.Exec.Command, timeout)
	}
	if years := int64(startup.FailureThreshold) * int64(startup.PeriodSeconds) / (365 * 24 * 3600); years < 60 {
		t.Errorf("the kubelet kills an injector after %d failures", startup.FailureThreshold)
	}
	if readiness == nil || readiness.PeriodSeconds != 14 || readiness.FailureThreshold != 1 {
		t.Errorf("readiness probe = %+v, want one every 14 s whose first failure counts", readiness)
	}
	if pod.Spec.Containers[0].LivenessProbe != nil {
		t.Error("a liveness probe kills injectors")
	}
}

func TestProbesWaitForTheTrigger(t *testing.T) {
	for name, c := range map[string]struct {
		trigger time.Duration // after the disruption was created
		age     time.Duration // of the disruption when the chaos pod is created
		delay   int32
	}{
		"at once":                     {0, 3 * time.Second, 0},
		"later":                       {time.Hour, 10 * time.Second, 3590},
		"a part of a second is early": {time.Minute, 500 * time.Millisecond, 59},
		"already over":                {time.Minute, time.Hour, 0},
		"too far away to be counted":  {200 * 365 * 24 * time.Hour, 0, 1<<31 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			container := probedPod(t, &c.trigger, c.age).Spec.Containers[0]
			if got := container.StartupProbe.InitialDelaySeconds; got != c.delay {
				t.Errorf("the startup probe begins after %d s, want %d", got, c.delay)
			}
			if got := container.ReadinessProbe.InitialDelaySeconds; got != 0 {
				t.Errorf("the readiness probe waits %d s more", got)
			}
		})
	}
}

func TestCommandsAreNotProbed(t *testing.T) {
	b := Builder{Namespace: "squall-chaos", Image: "squall:test"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: types.UID("n1")}}
	command, err := b.NodeCommand(Owner{"sweep", nil}, node, []string{"audit"})
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range map[string]*corev1.Pod{"cleaner": b.Cleaner(probedPod(t, nil, 0)), "node command": command} {
		container := pod.Spec.Containers[0]
		if container.StartupProbe != nil || container.ReadinessProbe != nil || container.LivenessProbe != nil {
			t.Errorf("a %s has probes: %+v, %+v, %+v", name, container.StartupProbe, container.ReadinessProbe, container.LivenessProbe)
		}
	}
}

// probedPod is the chaos pod of a disruption of that age, which triggers.inject delays
// by trigger.
func probedPod(t *testing.T, trigger *time.Duration, age time.Duration) *corev1.Pod {
	t.Helper()
	created := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	d := &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "calm", UID: "11111111-2222", CreationTimestamp: metav1.NewTime(created)},
		Spec:       v1beta1.DisruptionSpec{Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, Level: v1beta1.LevelPod},
	}
	if trigger != nil {
		notBefore := metav1.NewTime(created.Add(*trigger))
		d.Spec.Triggers = &v1beta1.DisruptionTriggers{Inject: v1beta1.DisruptionTrigger{NotBefore: notBefore}}
	}
	b := Builder{Namespace: "squall-chaos", Image: "squall:test"}
	target := v1beta1.InjectionTarget{Namespace: "shop", Name: "web-0", UID: "33333333-4444", NodeName: "node-1"}
	pod, err := b.ChaosPod(d, 0, target, d.Spec.Faults.Requested()[0], created.Add(age))
	if err != nil {
		t.Fatal(err)
	}
	return pod
}
