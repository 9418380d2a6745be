package probe

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rules P3 and P6. Answers are S and F; after each one the test wants the result, as S,
// F or U, with ! once nothing is asked any more.
func TestThresholds(t *testing.T) {
	for _, c := range []struct {
		name             string
		phase            v1beta1.ProbePhase
		success, failure int32
		answers, want    string
	}{
		{"Before: not steady until it is proven", v1beta1.ProbeBefore, 1, 3, "FFS", "F F S"},
		{"Before: two successes in a row", v1beta1.ProbeBefore, 2, 3, "SFSS", "F F F S"},
		{"Before: lost again, and never on hold", v1beta1.ProbeBefore, 1, 2, "SFFS", "S S F S"},
		{"During: steady until three failures in a row", v1beta1.ProbeDuring, 1, 3, "FFSFFF", "S S S S S F!"},
		{"During: one failure is enough", v1beta1.ProbeDuring, 1, 1, "SF", "S F!"},
		{"During: successes begin the run anew", v1beta1.ProbeDuring, 1, 2, "FSFSFS", "S S S S S S"},
		{"After: the first threshold decides", v1beta1.ProbeAfter, 2, 3, "SS", "U S!"},
		{"After: a failure may still heal", v1beta1.ProbeAfter, 1, 2, "FFFS", "U F F S!"},
		{"After: nothing is decided below both", v1beta1.ProbeAfter, 2, 3, "FFSFF", "U U U U U"},
	} {
		t.Run(c.name, func(t *testing.T) {
			probe := v1beta1.Probe{SuccessThreshold: c.success, FailureThreshold: c.failure}
			state, got := begin(Key{Probe: "a"}, c.phase, ""), ""
			for i, answer := range c.answers {
				state = state.after(map[rune]Result{'S': Success, 'F': Failure}[answer], probe, time.Time{})
				if i > 0 {
					got += " "
				}
				got += string(state.Result[0])
				if state.OnHold {
					got += "!"
				}
			}
			if got != c.want {
				t.Errorf("answers %s: results %s, want %s", c.answers, got, c.want)
			}
		})
	}
}

// rules P5, P6 and P7, and of P22 the ends and the waiting of a probe
func TestLook(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	before, during, after := v1beta1.ProbeBefore, v1beta1.ProbeDuring, v1beta1.ProbeAfter
	key := Key{Probe: "a", Target: "1"}
	run := func(phase v1beta1.ProbePhase) State {
		return State{Key: key, Phase: phase, ContainerID: "c1", Result: Success, Last: Failure, Run: 2}
	}
	hold := func(s State) State { s.OnHold, s.Result, s.Run = true, Failure, 0; return s }
	result := func(s State, r Result) State { s.Result = r; return s }
	pod := func(change func(*corev1.Pod, *corev1.ContainerStatus)) *corev1.Pod {
		p := onePod("10.0.0.1").Pod
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "side", ContainerID: "c9"}, {Name: "app", ContainerID: "c1",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-9900 * time.Millisecond))}}}}
		if change != nil {
			change(p, &p.Status.ContainerStatuses[1])
		}
		return p
	}
	ended := func(phase corev1.PodPhase) *corev1.Pod {
		return pod(func(p *corev1.Pod, _ *corev1.ContainerStatus) { p.Status.Phase = phase })
	}
	restarted := pod(func(_ *corev1.Pod, c *corev1.ContainerStatus) { c.ContainerID = "c2" })
	deleted := pod(func(p *corev1.Pod, c *corev1.ContainerStatus) { p.DeletionTimestamp = &metav1.Time{Time: now} })
	deletedAndStopped := pod(func(p *corev1.Pod, c *corev1.ContainerStatus) {
		p.DeletionTimestamp = &metav1.Time{Time: now}
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	})
	stopped := func(policy corev1.RestartPolicy) *corev1.Pod {
		return pod(func(p *corev1.Pod, c *corev1.ContainerStatus) {
			p.Spec.RestartPolicy = policy
			c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		})
	}
	noStart := pod(func(_ *corev1.Pod, c *corev1.ContainerStatus) { c.State.Running.StartedAt = metav1.Time{} })
	for _, c := range []struct {
		name  string
		state State
		delay int32
		pod   *corev1.Pod
		next  step
		want  State
	}{
		{"it runs: asked", run(during), 0, pod(nil), ask, run(during)},
		{"nothing is known of it: waited for", run(during), 0, nil, wait, run(during)},
		{"it failed: the end", run(during), 0, ended(corev1.PodFailed), end, run(during)},
		{"it succeeded: the end", run(during), 0, ended(corev1.PodSucceeded), end, run(during)},
		{"another pod of its name: the end", run(during), 0, pod(func(p *corev1.Pod, _ *corev1.ContainerStatus) { p.UID = "2" }), end, run(during)},
		{"no status of the container: waited for", run(during), 0, pod(func(p *corev1.Pod, _ *corev1.ContainerStatus) { p.Status.ContainerStatuses = nil }), wait, run(during)},
		{"no container ID: waited for", run(during), 0, pod(func(_ *corev1.Pod, c *corev1.ContainerStatus) { c.ContainerID = "" }), wait, run(during)},
		{"another container, Before: anew", run(before), 0, restarted, ask, State{Key: key, Phase: before, ContainerID: "c2", Result: Failure}},
		{"another container, During: anew", result(run(during), Success), 0, restarted, ask, State{Key: key, Phase: during, ContainerID: "c2", Result: Success}},
		{"another container, After: anew", run(after), 0, restarted, ask, State{Key: key, Phase: after, ContainerID: "c2", Result: Unknown}},
		{"on hold: nothing", hold(run(during)), 0, pod(nil), wait, hold(run(during))},
		{"on hold, and another container: lost is lost", hold(run(during)), 0, restarted, wait, hold(run(during))},
		{"on hold, and it ended", hold(run(during)), 0, ended(corev1.PodFailed), end, hold(run(during))},
		{"being deleted, Before: asked as ever", run(before), 0, deleted, ask, run(before)},
		{"being deleted, During: the end, and nothing is lost", result(run(during), Failure), 0, deleted, end, run(during)},
		{"being deleted, After: the end, and nothing is lost", result(run(after), Unknown), 0, deleted, end, run(after)},
		{"being deleted and stopped, During: nothing is lost", run(during), 0, deletedAndStopped, end, run(during)},
		{"stopped, Before: not steady", run(before), 0, stopped(corev1.RestartPolicyAlways), wait, result(run(before), Failure)},
		{"stopped, During: lost", run(during), 0, stopped(corev1.RestartPolicyAlways), wait, hold(run(during))},
		{"stopped, After: it may heal", run(after), 0, stopped(corev1.RestartPolicyOnFailure), wait, result(run(after), Failure)},
		{"stopped for good: lost, and the end", run(during), 0, stopped(corev1.RestartPolicyNever), end, hold(run(during))},
		{"9.9 s after its start, delay 9: asked", run(during), 9, pod(nil), ask, run(during)},
		{"nobody says when it started: asked", run(during), 0, noStart, ask, run(during)},
		{"nobody says when it started, with a delay: asked", run(during), 3600, noStart, ask, run(during)},
		{"9.9 s after its start, delay 10: too early", run(during), 10, pod(nil), wait, run(during)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, next, _ := c.state.look(v1beta1.Probe{InitialDelaySeconds: c.delay}, c.pod, now)
			if next != c.next {
				t.Errorf("step %d, want %d", next, c.next)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

// rule P10: a reader of states gets the reason with each result, even if it missed the
// update.
func TestStatesHaveTheTextOfTheirResult(t *testing.T) {
	results := NewResults()
	key := Key{Probe: "shop"}
	for _, step := range []struct {
		result     Result
		text, want string
	}{
		{Success, "", ""}, {Failure, "no pod is ready", "no pod is ready"}, {Failure, "none is", "no pod is ready"}, {Success, "two are ready", "two are ready"},
	} {
		results.set(t.Context(), State{Key: key, Phase: v1beta1.ProbeDuring, Result: step.result}, step.text)
		if got := results.States()[0].Text; got != step.want {
			t.Errorf("after %s with %q the text is %q, want %q", step.result, step.text, got, step.want)
		}
	}
}
