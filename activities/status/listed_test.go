package status

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Status lists every target of up to 500. Of more it lists at most 100 that cannot be
// injected (rule 20a). Counts are always exact.
func TestTargetsThatStatusLists(t *testing.T) {
	for name, c := range map[string]struct {
		targets, failing int
		chosen, listed   int // in the list, when they are chosen and when the injection is seen
	}{
		"500 targets, all injected":        {targets: 500, chosen: 500, listed: 500},
		"500 targets, 150 fail":            {targets: 500, failing: 150, chosen: 500, listed: 500},
		"501 targets, all injected":        {targets: 501},
		"501 targets, 40 fail: these":      {targets: 501, failing: 40, listed: 40},
		"501 targets, 150 fail: a hundred": {targets: 501, failing: 150, listed: 100},
	} {
		t.Run(name, func(t *testing.T) {
			d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "calm", UID: "d"}}
			d.Spec.CPUPressure, d.Spec.Level = &v1beta1.CPUPressure{}, v1beta1.LevelPod
			d.Status.Phase = v1beta1.PhasePending
			active, pods := disturbed(d, c.targets, c.failing)
			ShowSelection(d, d, targets.Selection{Desired: c.targets, Selected: c.targets, Matching: c.targets + 7, Added: []int{0}}, active, 0)
			want := counts{"0/" + fmt.Sprint(c.targets), 0, c.targets, 7, c.chosen}
			if got := countsOf(d); got != want {
				t.Errorf("chosen: %+v, want %+v", got, want)
			}
			var all []v1beta1.InjectionTarget
			for _, target := range active {
				all = append(all, target.InjectionTarget)
			}
			ShowProgress(d, chaospod.Measure(d.Ref(), all, d.Spec.Requested(), pods, nil), time.Now())
			injected := c.targets - c.failing
			want = counts{fmt.Sprintf("%d/%d", injected, c.targets), injected, c.targets, 7, c.listed}
			if got := countsOf(d); got != want {
				t.Errorf("seen: %+v, want %+v", got, want)
			}
			for name, kinds := range d.Status.TargetInjections {
				injection := kinds[v1beta1.KindCPUPressure]
				if failed := injection.Reason != ""; c.targets > maxListed && (!failed || injection.InjectionStatus != v1beta1.NotInjected) {
					t.Errorf("%s is listed with %+v, want only those that cannot be injected, and why", name, injection)
				}
			}
		})
	}
}

// counts are the targets in status by state, and how many it lists.
type counts struct {
	targets                             string
	injected, selected, ignored, listed int
}

func countsOf(d *v1beta1.Disruption) counts {
	s := d.Status
	return counts{s.Targets, s.InjectedTargetsCount, s.SelectedTargetsCount, s.IgnoredTargetsCount, len(s.TargetInjections)}
}

// disturbed returns n targets and their chaos pods: the first ones, failing in number,
// wait for an image, the others are ready.
func disturbed(d *v1beta1.Disruption, n, failing int) (active []targets.Target, pods []*corev1.Pod) {
	for i := range n {
		target := v1beta1.InjectionTarget{Namespace: d.Namespace, Name: fmt.Sprintf("web-%03d", i), UID: types.UID(fmt.Sprintf("uid-%03d", i))}
		active = append(active, targets.Target{InjectionTarget: target})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name:   chaospod.Name(d.Ref(), target, v1beta1.KindCPUPressure),
			Labels: map[string]string{v1beta1.LabelTargetUID: string(target.UID), v1beta1.LabelDisruptionKind: string(v1beta1.KindCPUPressure)},
		}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if i < failing {
			pod.Status.Conditions = nil
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "injector", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}},
			}}
		}
		pods = append(pods, pod)
	}
	return active, pods
}
