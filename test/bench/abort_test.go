package bench

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/converter"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
)

// canary are the labels of the pod that the probe of a disruption asks for.
var canary = map[string]string{"role": "canary"}

// aborts measures how soon the chaos pods of n targets are deleted after a probe's
// verdict.
func (b bench) aborts(n, runs int) {
	b.Helper()
	b.Targets(n)
	b.fresh()
	var all []time.Duration
	for i := range runs {
		all = append(all, b.abortOnce(n))
		logf("%d of %d: %s after the probe decided %d chaos pods were deleted", i+1, runs, took(all[i]), n)
	}
	name, value := p95(all)
	publish(b, section{
		name: "aborts",
		lines: []line{{what: fmt.Sprintf("the deciding answer to the last DELETE of the chaos pods of %s, %s", targets(n), name),
			value: value.Seconds(), most: 2, unit: "s"}},
		tables: []table{delaysTable("From the deciding answer of a probe to the last DELETE of a chaos pod", "", "disruptions", []string{targets(n)}, [][]time.Duration{all})},
		notes:  []string{b.where()},
	})
}

// abortOnce has a probe end a disruption of n targets.
func (b bench) abortOnce(n int) time.Duration {
	b.Helper()
	pods := b.Kube.CoreV1().Pods(b.Shop)
	_, err := pods.Create(b.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "canary", Labels: canary},
		Spec:       corev1.PodSpec{NodeName: "node-00", Containers: []corev1.Container{{Name: "main", Image: "canary"}}},
	}, metav1.CreateOptions{})
	b.Must(err)
	d := b.disruption(n)
	d.Spec.SteadyState = &v1beta1.SteadyState{Probes: []v1beta1.Probe{{
		Name: "canary", Phases: []v1beta1.ProbePhase{v1beta1.ProbeBefore, v1beta1.ProbeDuring}, PeriodSeconds: 1, FailureThreshold: 1,
		ProbeHandler: v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{Selector: canary}},
	}}}
	b.Create(d)
	b.Injected(d)
	before, now := b.Meter.Settled(b), int64(0)
	b.Must(pods.Delete(b.Context(), "canary", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	if result := b.Completed(d); result.Verdict != v1beta1.VerdictAborted {
		b.Fatalf("%s ended with %s, want Aborted: %s", d.Name, result.Verdict, result.Summary)
	}
	// One call for each shard, which is answered when all of its chaos pods are deleted.
	const deletes = "DELETECOLLECTION pods"
	if calls := b.Meter.Settled(b).Since(before); calls[deletes] == 0 || calls["DELETE pods"] != 0 {
		b.Errorf("calls %v, want chaos pods deleted together, and none by itself", calls)
	}
	took := b.Meter.Last(b, deletes).Sub(b.decided(d))
	b.Delete(d)
	return took
}

// decided is when the probe of d had its deciding answer.
func (b bench) decided(d *v1beta1.Disruption) time.Time {
	b.Helper()
	for _, event := range b.History(d).GetEvents() {
		signal := event.GetWorkflowExecutionSignaledEventAttributes()
		var transition contract.ProbeTransition
		if signal.GetSignalName() != contract.SignalProbe || converter.GetDefaultDataConverter().FromPayloads(signal.GetInput(), &transition) != nil {
			continue
		}
		if i := slices.IndexFunc(transition.Probes, func(p contract.ProbeReport) bool { return p.State == v1beta1.ProbeFailure }); i >= 0 {
			return transition.Probes[i].Since
		}
	}
	b.Fatalf("nobody told the workflow of %s that its probe fails", world.WorkflowOf(d))
	return time.Time{}
}

func targets(n int) string { return fmt.Sprintf("%s targets", thousands(int64(n))) }
