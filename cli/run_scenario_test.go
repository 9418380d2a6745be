package main

import (
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
)

// runs begins squall run of the planned scenario.
func (l *live) runs(change func(*console.Streams), options ...string) *watched {
	l.t.Helper()
	w := l.running(strings.Replace(plannedScenario, "{name: day}", "{name: day, finalizers: ["+v1beta1.DisruptionFinalizer+"]}", 1), change, options...)
	l.Eventually("the scenario is created", func() bool {
		return l.Plain.Get().Namespace(l.Shop).Resource("disruptionscenarios").Name("day").Do(l.Context()).Error() == nil
	})
	return w
}

// child creates the disruption of a scenario's first step that has an index.
func (w *watched) child(s *v1beta1.DisruptionScenario, index int) v1beta1.DisruptionRef {
	w.t.Helper()
	ref := w.Disruption(s.ChildName(0, index), nil)
	w.Must(w.Plain.Patch(types.MergePatchType).Namespace(w.Shop).Resource("disruptions").Name(ref.Name).
		Body([]byte(`{"metadata":{"ownerReferences":[{"apiVersion":"` + v1beta1.GroupVersion.String() + `","kind":"DisruptionScenario","name":"day","uid":"` + string(s.UID) + `","controller":true}]}}`)).Do(w.Context()).Error())
	return ref
}

// remove deletes the scenario, which lets another one have its name.
func (w *watched) remove() {
	w.t.Helper()
	w.Must(w.Plain.Delete().Namespace(w.Shop).Resource("disruptionscenarios").Name("day").Do(w.Context()).Error())
	w.finalizeScenario("day")
}

func TestRunOfAScenario(t *testing.T) {
	l := newLive(t)
	for _, test := range []struct {
		name, status string
		code         int
		want         string
	}{
		{"passed", `{"phase":"Finished","verdict":"Passed","message":"All steps are done."}`, console.ExitOK, "Passed: "},
		{"failed", `{"phase":"Finished","verdict":"Failed","message":"No further step is done: step burn is Failed."}`, console.ExitFailed, "step burn is Failed"},
		{"inconclusive", `{"phase":"Finished","verdict":"Inconclusive","message":"All steps are done."}`, console.ExitInconclusive, "3. look: to come"},
		{"rejected", `{"phase":"Rejected","message":"spec.steps[0] is wrong"}`, console.ExitError, "nothing was begun: spec.steps[0] is wrong"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := l.in(t).runs(nil)
			w.scenarioBecomes("day", `{"phase":"Waiting","step":"calm","steps":[{"name":"calm","phase":"Waiting","startedAt":"2026-11-20T12:00:00Z"}]}`)
			w.prints("step 1 of 3, calm: Waiting")
			w.scenarioBecomes("day", test.status)
			w.ends(test.code, test.want)
			w.remove()
		})
	}
}

// The person who approves a step sees the command for it.
func TestRunOfAScenarioShowsWhatHappens(t *testing.T) {
	w := newLive(t).runs(nil)
	s := w.getScenario("day")
	_, err := w.Client.CoreV1().Events(w.Shop).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "day.1", Namespace: w.Shop},
		InvolvedObject: corev1.ObjectReference{Kind: v1beta1.KindDisruptionScenario, Namespace: w.Shop, Name: "day", UID: s.UID},
		Reason:         "ApprovalAwaited", Message: "look: is the shop open",
	}, metav1.CreateOptions{})
	w.Must(err)
	w.prints("ApprovalAwaited: look: is the shop open")
	w.scenarioBecomes("day", suspended)
	w.prints("to approve: squall -n " + w.Shop + " approve day look")
	w.want(w.squall("approve", "day", "look"), console.ExitOK)
	w.scenarioBecomes("day", `{"phase":"Finished","verdict":"Passed","message":"All steps are done."}`)
	w.ends(console.ExitOK, "Passed: "+w.Shop+"/day: All steps are done.")
	w.want(w.squall("run", "-"), console.ExitError)
	w.want(do(t.Context(), plannedScenario, "run", "-", "-n", w.Shop), console.ExitError, "scenario "+w.Shop+"/day exists already", "stop scenario/day")
	w.finalizeScenario("day")
}

// A narrow terminal cuts the line of progress, and never the command that approves.
func TestRunOfAScenarioAt80Columns(t *testing.T) {
	w := newLive(t).runs(func(s *console.Streams) { s.Terminal, s.ErrTerminal, s.Width = true, true, func() int { return 80 } })
	w.scenarioBecomes("day", suspended)
	w.prints("\x1b[Kto approve: squall -n " + w.Shop + " approve day look\n")
	w.scenarioBecomes("day", `{"phase":"Finished","verdict":"Passed","message":"All steps are done."}`)
	w.ends(console.ExitOK, "Passed: ")
	w.remove()
}

func TestRunOfAScenarioIsEnded(t *testing.T) {
	l := newLive(t)
	t.Run("by a signal", func(t *testing.T) {
		w := l.in(t).runs(nil)
		w.scenarioBecomes("day", suspended)
		w.interrupts <- syscall.SIGTERM
		w.Eventually("it is being deleted", func() bool { return w.getScenario("day").DeletionTimestamp != nil })
		w.finalizeScenario("day")
		w.ends(console.ExitAborted, "scenario "+l.Shop+"/day is being ended", "it was deleted before its last step")
	})
	t.Run("by a disruption that is stuck", func(t *testing.T) {
		w := l.in(t).runs(nil)
		ref := w.child(w.getScenario("day"), 0)
		w.becomes(ref, func(s *v1beta1.DisruptionStatus) { s.Phase, s.IsStuckOnRemoval = v1beta1.PhaseStuck, true })
		w.ends(console.ExitStuck, "1 of its disruptions could not be cleaned up", ref.Name)
		w.finalize(ref)
		w.remove()
	})
	t.Run("never, when nobody waits", func(t *testing.T) {
		l := l.in(t)
		l.want(do(t.Context(), plannedScenario, "run", "-", "--detach"), console.ExitOK, "scenario "+l.Shop+"/day is created")
		l.want(l.squall("__complete", "status", "sc"), console.ExitOK, "scenario/\n")
		l.want(l.squall("__complete", "status", "scenario/"), console.ExitOK, "scenario/day\n")
	})
}
