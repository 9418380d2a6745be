package chaospod

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestInjectionStatus(t *testing.T) {
	ref := v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: "u1"}
	faults := []v1beta1.Fault{{Kind: v1beta1.KindCPUPressure}, {Kind: v1beta1.KindNetwork}}
	for _, test := range []struct {
		name string
		// ready counts, target by target, its ready chaos pods of two.
		ready  []int
		before v1beta1.InjectionStatus
		want   v1beta1.InjectionStatus
		// injected counts targets with every kind in place.
		injected int
	}{
		{"no chaos pod at all: NotInjected", nil, "", v1beta1.NotInjected, 0},                                               // rule 28
		{"none ready: NotInjected", []int{0, 0}, v1beta1.NotInjected, v1beta1.NotInjected, 0},                               // rule 28
		{"one kind of one target ready: PartiallyInjected", []int{1, 0}, v1beta1.NotInjected, v1beta1.PartiallyInjected, 0}, // rule 29
		{"one of two targets ready: PartiallyInjected", []int{2, 0}, v1beta1.NotInjected, v1beta1.PartiallyInjected, 1},     // rule 29
		{"one kind missing: not Injected", []int{2, 1}, v1beta1.PartiallyInjected, v1beta1.PartiallyInjected, 1},            // rule 29
		{"all ready: Injected", []int{2, 2}, v1beta1.PartiallyInjected, v1beta1.Injected, 2},                                // rule 30
		{"readiness lost before Injected: back", []int{0, 0}, v1beta1.PartiallyInjected, v1beta1.NotInjected, 0},            // rule 31
		{"readiness lost after Injected: stays Injected", []int{2, 0}, v1beta1.Injected, v1beta1.Injected, 1},               // rule 31
	} {
		t.Run(test.name, func(t *testing.T) {
			var targets []v1beta1.InjectionTarget
			var pods []*corev1.Pod
			for i, ready := range test.ready {
				target := v1beta1.InjectionTarget{Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint("t", i))}
				targets = append(targets, target)
				for n, fault := range faults {
					pods = append(pods, chaosPodThatIs(ref, target, fault.Kind, n < ready))
				}
			}
			p := Measure(ref, targets, faults, pods, nil)
			if got := p.Status(test.before); got != test.want || p.Injected != test.injected {
				t.Errorf("status = %s with %d injected, want %s with %d", got, p.Injected, test.want, test.injected)
			}
		})
	}
}

func TestInjectionHasAReason(t *testing.T) {
	ref := v1beta1.DisruptionRef{Name: "calm", UID: "u1"}
	target := v1beta1.InjectionTarget{Name: "web-0", UID: "t0"}
	faults := []v1beta1.Fault{{Kind: v1beta1.KindNetwork}}
	pod := chaosPodThatIs(ref, target, v1beta1.KindNetwork, false)
	pull := pod.DeepCopy()
	pull.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "injector", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
	for _, test := range []struct {
		name    string
		pod     *corev1.Pod
		reasons map[string]string
		want    string
	}{
		{"the injector said it", pod, map[string]string{pod.Name: "resolve nowhere.example: no such host"}, "resolve nowhere.example: no such host"}, // rules 33, 57
		{"the image cannot be pulled", pull, nil, "ErrImagePull: not found"},
		{"it only starts: nothing to tell", pod, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := Measure(ref, []v1beta1.InjectionTarget{target}, faults, []*corev1.Pod{test.pod}, test.reasons)
			got := p.Targets["web-0"][v1beta1.KindNetwork]
			if got.Reason != test.want || got.InjectionStatus != v1beta1.NotInjected {
				t.Errorf("got %s %q, want NotInjected %q", got.InjectionStatus, got.Reason, test.want)
			}
		})
	}
}

func chaosPodThatIs(ref v1beta1.DisruptionRef, target v1beta1.InjectionTarget, kind v1beta1.Kind, ready bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name:   Name(ref, target, kind),
		Labels: map[string]string{v1beta1.LabelTargetUID: string(target.UID), v1beta1.LabelDisruptionKind: string(kind)},
	}}
	if ready {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}
