package scale

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// some is how many targets these disruptions have: enough that killing hits
// them in the middle.
const some = 60

// TestSurvival takes away, by SIGKILL, what the disruptions live on.
func TestSurvival(t *testing.T) {
	w := newWorld(t)
	w.targets(some, 0)
	for _, part := range []struct {
		name string
		test func(*world)
	}{
		{"Temporal is away at the creation and at the deletion", (*world).awayAtBothEnds},
		{"Temporal is away at the expiry", (*world).awayAtTheExpiry},
		{"all are killed, Temporal first", func(w *world) { w.allKilled("temporal-first", w.server.Kill, w.worker.kill, w.bridge.kill) }},
		{"all are killed, Temporal last", func(w *world) { w.allKilled("temporal-last", w.bridge.kill, w.worker.kill, w.server.Kill) }},
		{"a person terminates the workflow of a disruption that lives", (*world).terminated},
		{"a person sends bad resumes to a stuck one, terminates it, and releases it", (*world).badResumes},
	} {
		t.Run(part.name, func(t *testing.T) {
			here := *w
			here.T = t
			part.test(&here)
		})
	}
}

// acceptance T1, T5, T8
func (w *world) awayAtBothEnds() {
	w.server.Kill()
	d := w.disrupt("away", some, map[string]string{"app": "web"})
	w.shows(d, "TemporalUnreachable")
	if n := w.kubelets.count(w.chaos, everyPod); n > 0 {
		w.Errorf("%d chaos pods without a workflow", n)
	}
	w.server.Start()
	w.injected(d, fmt.Sprintf("%d/%d", some, some))
	w.shows(d, "TemporalReached")

	w.server.Kill()
	w.must(w.disruptions.Delete(w.Context(), d))
	w.shows(d, "TemporalUnreachable")
	w.server.Start()
	w.vanishes(d)
	if result := w.completed(d); result.Ending != "deleted" || result.Targets != some {
		w.Errorf("result = %+v, want %d targets, deleted", result, some)
	}
	w.oneRun(d)
}

// acceptance T8: the injectors end at their own deadline, played here and real
// in test/e2e; nothing else of the disruption moves until Temporal is back.
func (w *world) awayAtTheExpiry() {
	d := w.disrupt("expiring", some, map[string]string{"app": "web"}, func(s *v1beta1.DisruptionSpec) {
		s.Duration = &v1beta1.Duration{Duration: 45 * time.Second}
	})
	w.injected(d, fmt.Sprintf("%d/%d", some, some))
	w.server.Kill()
	w.shows(d, "TemporalUnreachable")
	<-time.After(time.Until(d.Status.ExpiryTime.Time)) // the time itself is what must pass
	w.must(w.kubelets.endAll(w.Context(), w.chaos))
	w.must(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
	if d.Status.Phase != v1beta1.PhaseHolding || len(d.Finalizers) == 0 {
		w.Errorf("without Temporal it went on to %s with finalizers %v", d.Status.Phase, d.Finalizers)
	}
	w.server.Start()
	eventually(w.T, 2*time.Minute, "it finishes", func() bool {
		w.must(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return d.Status.Phase == v1beta1.PhaseFinished && len(d.Finalizers) == 0
	})
	if result := w.completed(d); result.Ending != "expired" {
		w.Errorf("result = %+v, want expired", result)
	}
	w.oneRun(d)
	w.delete(d)
}

// allKilled kills in this order while it injects, and again while it cleans,
// and starts in the other. acceptance T1, T5
func (w *world) allKilled(name string, kills ...func()) {
	d := w.disrupt(name, some, map[string]string{"app": "web"})
	eventually(w.T, time.Minute, "some chaos pods are made", func() bool { return w.kubelets.count(w.chaos, everyPod) > 0 })
	w.killAndStart(kills)
	w.injected(d, fmt.Sprintf("%d/%d", some, some))
	if n := w.kubelets.count(w.chaos, everyPod); n != some {
		w.Errorf("%d chaos pods for %d targets", n, some)
	}
	w.must(w.disruptions.Delete(w.Context(), d))
	eventually(w.T, time.Minute, "cleaning begins", func() bool {
		return w.kubelets.count(w.chaos, everyPod) < some || w.kubelets.count(w.chaos, isDeleted) > 0
	})
	w.killAndStart(kills)
	w.vanishes(d)
	if result := w.completed(d); result.Ending != "deleted" {
		w.Errorf("result = %+v, want deleted", result)
	}
	w.oneRun(d)
	w.history(d)
}

func (w *world) killAndStart(kills []func()) {
	for _, kill := range kills {
		kill()
	}
	w.bridge.start()
	w.worker.start()
	w.server.Start()
}

// acceptance T1: nobody deletes the disruption and nothing changes in the
// cluster; it is cleaned all the same.
func (w *world) terminated() {
	d := w.disrupt("terminated", some, map[string]string{"app": "web"})
	w.injected(d, fmt.Sprintf("%d/%d", some, some))
	w.must(w.temporal.TerminateWorkflow(w.Context(), workflowOf(d), "", "by hand"))
	began := time.Now()
	eventually(w.T, 2*time.Minute, "it is cleaned", func() bool {
		w.must(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return d.Status.Phase == v1beta1.PhaseFinished
	})
	w.Logf("cleaned %.1fs after it was terminated", time.Since(began).Seconds())
	if result := w.completed(d); !strings.Contains(result.Ending, "an earlier workflow") {
		w.Errorf("result = %+v, want that an earlier workflow began it", result)
	}
	w.delete(d)
}

// badResumes: what is refused is refused with the reason, and nothing is
// written: no event of the history, no version of the Disruption.
func (w *world) badResumes() {
	pod := target(broken+"till", "till", 7)
	_, err := w.kube.CoreV1().Pods(w.shop).Create(w.Context(), pod, metav1.CreateOptions{})
	w.must(err)
	d := w.disrupt("stuck", 1, map[string]string{"app": "till"})
	w.injected(d, "1/1")
	w.refuses(d, contract.Resume{Action: contract.ActionRetry}, "not stuck")
	w.must(w.disruptions.Delete(w.Context(), d))
	w.isStuck(d)
	w.refuses(d, contract.Resume{Action: "skip"}, `action must be "retry" or "release"`)
	w.refuses(d, contract.Resume{Action: contract.ActionRetry, Targets: []string{"nobody"}}, `target "nobody" is not stuck; stuck are: broken-till`)
	w.refuses(d, contract.Resume{Action: contract.ActionRelease, By: "ann"}, `"reason" (why)`)
	w.refuses(d, contract.Resume{Action: contract.ActionRelease, Reason: "scrap"}, `"by" (who decides)`)

	w.must(w.temporal.TerminateWorkflow(w.Context(), workflowOf(d), "", "by hand"))
	eventually(w.T, time.Minute, "its successor is stuck, too, and takes a release", func() bool {
		return w.resume(d, contract.Resume{Action: contract.ActionRelease, By: "ann", Reason: "scrap"}) == nil
	})
	w.vanishes(d)
	if result := w.completed(d); result.LetGo != 1 {
		w.Errorf("result = %+v, want one released", result)
	}
}

func (w *world) isStuck(d *v1beta1.Disruption) {
	w.Helper()
	eventually(w.T, time.Minute, d.Name+" is stuck", func() bool {
		w.must(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return d.Status.IsStuckOnRemoval
	})
}

func (w *world) refuses(d *v1beta1.Disruption, r contract.Resume, want string) {
	w.Helper()
	w.rests(d)
	before, version := w.events(d), d.ResourceVersion
	if err := w.resume(d, r); err == nil || !strings.Contains(err.Error(), want) {
		w.Errorf("resume %+v = %v, want %q", r, err, want)
	}
	w.must(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
	if after := w.events(d); after != before || d.ResourceVersion != version {
		w.Errorf("resume %+v: %d events and version %s became %d and %s", r, before, version, after, d.ResourceVersion)
	}
}

// rests waits until the workflow of d does nothing but wait.
func (w *world) rests(d *v1beta1.Disruption) {
	w.Helper()
	eventually(w.T, time.Minute, "the workflow rests", func() bool {
		answer, err := w.temporal.DescribeWorkflowExecution(w.Context(), workflowOf(d), "")
		w.must(err)
		return len(answer.PendingActivities) == 0 && answer.PendingWorkflowTask == nil
	})
	w.must(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
}

func (w *world) events(d *v1beta1.Disruption) int64 {
	w.Helper()
	events, _ := w.length(d)
	return events
}

func (w *world) resume(d *v1beta1.Disruption, r contract.Resume) error {
	update, err := w.temporal.UpdateWorkflow(w.Context(), temporalclient.UpdateWorkflowOptions{
		WorkflowID: workflowOf(d), UpdateName: contract.UpdateResume, Args: []any{r}, WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return update.Get(w.Context(), nil)
}

// shows waits until `kubectl get` shows the word in the disruption's row.
func (w *world) shows(d *v1beta1.Disruption, word string) {
	w.Helper()
	var row string
	eventually(w.T, time.Minute, "kubectl get shows "+word, func() bool {
		table := &metav1.Table{}
		raw, err := w.kube.Discovery().RESTClient().Get().SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
			AbsPath("/apis/chaos.squall.dev/v1beta1/namespaces", d.Namespace, "disruptions", d.Name).DoRaw(w.Context())
		w.must(err)
		w.must(json.Unmarshal(raw, table))
		row = fmt.Sprint(table.Rows[0].Cells)
		return strings.Contains(row, word)
	})
	w.must(w.disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
	if c := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionOrchestrated); c == nil || c.Reason != word || c.Message == "" {
		w.Errorf("kubectl get shows %s and the condition is %+v", row, c)
	}
}

func everyPod(*corev1.Pod) bool { return true }

func isDeleted(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }
