package survival

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

var record = flag.Bool("record", false, "write the history of a sweep, for the replay tests of package workflows")

// poll is how often the bridge asks Temporal for changes without a notification: a
// fifth of the default, so that the tests wait less.
const poll = 3 * time.Second

// some is how many targets these disruptions have, and middle how many chaos pods
// of them are made, or gone, when something is killed in the middle.
const some, middle = 30, 10

// broken is how the name of a target begins whose injector fails to clean, and
// whose cleaners fail too.
const broken = "broken-"

// survival is the world, and the worker and the bridge that run in it.
type survival struct {
	*world.World
	worker, bridge *world.Program
	// gate holds the worker in the middle of its work.
	gate *world.Gate
}

// begin starts a world with n targets; settings are the worker's.
func begin(t *testing.T, n int, settings ...string) survival {
	t.Helper()
	w := world.Start(t)
	gate := w.Gate()
	s := survival{w, w.Worker(append(settings, gate.Setting())...).Start(), w.Bridge("SQUALL_POLL_INTERVAL=" + poll.String()).Start(), gate}
	w.Targets(n)
	return s
}

// in is the same for a part of the test.
func (w survival) in(t *testing.T) survival { return survival{w.In(t), w.worker, w.bridge, w.gate} }

// amid waits until n chaos pods are there, and the worker behind the gate is held.
func (w survival) amid(gate *world.Gate, n int) {
	w.Helper()
	world.Eventually(w, w.Patience, fmt.Sprintf("%d chaos pods are there", n), func() bool {
		return gate.Passed() == middle && w.Kubelets.There(w.Chaos) == n
	})
}

// TestSurvival takes away, by SIGKILL, what the disruptions live on.
func TestSurvival(t *testing.T) {
	s := begin(t, some)
	s.Kubelets.Exits(func(pod *corev1.Pod) world.Exit {
		if strings.HasPrefix(pod.Labels[v1beta1.LabelTarget], broken) {
			return world.Exit{Code: 1, Message: "it cannot clean"}
		}
		return world.Clean(pod)
	})
	for _, part := range []struct {
		name string
		test func(survival)
	}{
		{"Temporal is away at the creation and at the deletion", survival.awayAtBothEnds},
		{"Temporal is away at the expiry", survival.awayAtTheExpiry},
		{"all are killed, Temporal first, then last", func(w survival) { w.allKilled("outside", "Temporal worker bridge", "bridge worker Temporal") }},
		{"all are killed, Temporal between", func(w survival) { w.allKilled("between", "worker Temporal bridge", "bridge Temporal worker") }},
		{"all are killed, Temporal last, then first", func(w survival) { w.allKilled("inside", "worker bridge Temporal", "Temporal bridge worker") }},
		{"of two workers and two bridges those that act are killed", survival.twoOfEach},
		{"a person terminates the workflow of a disruption that lives", survival.terminated},
		{"a person sends bad resumes to a stuck one, terminates it, and releases it", survival.badResumes},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(s.in(t)) })
	}
}

// rules T1, T5, T8
func (w survival) awayAtBothEnds() {
	w.Temporal.Kill()
	d := w.Create(w.Disruption("away", some))
	w.shows(d, "TemporalUnreachable")
	if n := w.Kubelets.There(w.Chaos); n > 0 {
		w.Errorf("%d chaos pods without a workflow", n)
	}
	w.Temporal.Start()
	w.Injected(d)
	w.shows(d, "TemporalReached")

	w.Temporal.Kill()
	w.Must(w.Disruptions.Delete(w.Context(), d))
	w.shows(d, "TemporalUnreachable")
	w.Temporal.Start()
	w.Vanishes(d)
	if result := w.Completed(d); result.Ending != "deleted" || result.Targets != some {
		w.Errorf("result = %+v, want %d targets, deleted", result, some)
	}
	w.OneRun(d)
}

// rule T8: the injectors end at their own deadline, played here and real
// in test/e2e; nothing else of the disruption moves until Temporal is back.
func (w survival) awayAtTheExpiry() {
	d := w.Disruption("expiring", some)
	d.Spec.Duration = &v1beta1.Duration{Duration: 45 * time.Second}
	w.Create(d)
	w.Injected(d)
	w.Temporal.Kill()
	if time.Now().After(d.Status.ExpiryTime.Time) {
		patience.Blame(w, "it expired before Temporal was away")
		w.FailNow()
	}
	w.shows(d, "TemporalUnreachable")
	<-time.After(time.Until(d.Status.ExpiryTime.Time)) // the time itself is what must pass
	w.Must(w.Kubelets.EndAll(w.Context(), w.Chaos))
	w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
	if d.Status.Phase != v1beta1.PhaseHolding || len(d.Finalizers) == 0 {
		w.Errorf("without Temporal it went on to %s with finalizers %v", d.Status.Phase, d.Finalizers)
	}
	w.Temporal.Start()
	world.Eventually(w, 2*time.Minute, "it finishes", func() bool {
		w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return d.Status.Phase == v1beta1.PhaseFinished && len(d.Finalizers) == 0
	})
	if result := w.Completed(d); result.Ending != "expired" {
		w.Errorf("result = %+v, want expired", result)
	}
	w.OneRun(d)
	w.Delete(d)
}

// allKilled kills in one order while it injects, and in another while it cleans.
// rules T1, T5
func (w survival) allKilled(name, injecting, cleaning string) {
	w.gate.HoldAfter(middle, w.CreatesChaosPod)
	d := w.Create(w.Disruption(name, some))
	w.amid(w.gate, middle)
	w.killAndStart(injecting)
	w.Injected(d)
	if n := w.Kubelets.There(w.Chaos); n != some {
		w.Errorf("%d chaos pods for %d targets", n, some)
	}
	w.gate.HoldAfter(middle, w.ReleasesChaosPod)
	w.Must(w.Disruptions.Delete(w.Context(), d))
	w.amid(w.gate, some-middle)
	w.killAndStart(cleaning)
	w.Vanishes(d)
	if result := w.Completed(d); result.Ending != "deleted" {
		w.Errorf("result = %+v, want deleted", result)
	}
	w.OneRun(d)
	w.History(d)
}

func (w survival) killAndStart(order string) {
	kills := map[string]func(){"Temporal": w.Temporal.Kill, "worker": w.worker.Kill, "bridge": w.bridge.Kill}
	for _, part := range strings.Fields(order) {
		kills[part]()
	}
	w.gate.Drop()
	w.bridge.Start()
	w.worker.Start()
	w.Temporal.Start()
}

// twoOfEach: the worker and the bridge that act are killed in the middle, and the
// others, which were idle or shared the work, go on alone. rules T1, T5
func (w survival) twoOfEach() {
	w.bridge.Kill()
	defer w.bridge.Start()
	elected := []string{"SQUALL_LEADER_ELECTION=true", "SQUALL_LEADER_ELECTION_NAMESPACE=" + w.Chaos}
	leader := w.Bridge(elected...).Start()
	world.Eventually(w, time.Minute, "the first bridge leads", func() bool {
		lease, err := w.Kube.CoordinationV1().Leases(w.Chaos).Get(w.Context(), "squall-crdbridge", metav1.GetOptions{})
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	})
	second := w.Bridge(elected...).Start()
	defer second.Kill()
	gates := map[*world.Program]*world.Gate{w.worker: w.gate}
	gate := w.Gate()
	colleague := w.Worker(gate.Setting()).Start()
	gates[colleague] = gate
	defer colleague.Kill()
	defer func() { w.worker.Kill(); w.worker.Start() }()

	for _, gate := range gates {
		gate.HoldAfter(middle, w.CreatesChaosPod)
	}
	d := w.Create(w.Disruption("two-of-each", some))
	world.Eventually(w, w.Patience, "one of the workers has made some chaos pods", func() bool { return w.gate.Passed() == middle || gate.Passed() == middle })
	acting, other := w.worker, colleague
	if gate.Passed() == middle {
		acting, other = colleague, w.worker
	}
	acting.Kill()
	leader.Kill()
	if n := w.Kubelets.There(w.Chaos); n >= some {
		w.Errorf("all %d chaos pods are there when the worker that makes them is dead, want some", n)
	}
	gates[acting].Drop()
	gates[other].Open()
	w.Injected(d)
	if n := w.Kubelets.There(w.Chaos); n != some {
		w.Errorf("%d chaos pods for %d targets", n, some)
	}
	gates[other].HoldAfter(middle, w.ReleasesChaosPod)
	w.Must(w.Disruptions.Delete(w.Context(), d)) // the second bridge signals it once the lease has run out
	w.amid(gates[other], some-middle)
	acting.Start()
	other.Kill()
	w.Vanishes(d)
	w.NothingLeft(d)
	if result := w.Completed(d); result.Ending != "deleted" {
		w.Errorf("result = %+v, want deleted", result)
	}
	w.OneRun(d)
	w.History(d)
}

// terminated (rule T1): nothing deletes the disruption and nothing changes in the
// cluster; it is still cleaned.
func (w survival) terminated() {
	d := w.Create(w.Disruption("terminated", some))
	w.Injected(d)
	w.Must(w.Workflows.TerminateWorkflow(w.Context(), world.WorkflowOf(d), "", "by hand"))
	began := time.Now()
	world.Eventually(w, poll+time.Minute, "it is cleaned", func() bool {
		w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return d.Status.Phase == v1beta1.PhaseFinished
	})
	w.Logf("cleaned %.1fs after it was terminated", time.Since(began).Seconds())
	if result := w.Completed(d); !strings.Contains(result.Ending, "an earlier workflow") {
		w.Errorf("result = %+v, want that an earlier workflow began it", result)
	}
	w.Delete(d)
}

// badResumes: what is refused is refused with the reason, and nothing is
// written: no event of the history, no version of the Disruption.
func (w survival) badResumes() {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: broken + "till", Labels: map[string]string{"app": "till"}},
		Spec:       corev1.PodSpec{NodeName: "node-07", Containers: []corev1.Container{{Name: "main", Image: "till"}}},
	}
	_, err := w.Kube.CoreV1().Pods(w.Shop).Create(w.Context(), pod, metav1.CreateOptions{})
	w.Must(err)
	d := w.Disruption("stuck", 1)
	d.Spec.Selector = map[string]string{"app": "till"}
	w.Create(d)
	w.Injected(d)
	w.refuses(d, contract.Resume{Action: contract.ActionRetry}, "not stuck")
	w.Must(w.Disruptions.Delete(w.Context(), d))
	w.isStuck(d)
	w.refuses(d, contract.Resume{Action: "skip"}, `action must be "retry" or "release"`)
	w.refuses(d, contract.Resume{Action: contract.ActionRetry, Targets: []string{"nobody"}}, `target "nobody" is not stuck; stuck are: broken-till`)
	w.refuses(d, contract.Resume{Action: contract.ActionRelease, By: "ann"}, `"reason" (why)`)
	w.refuses(d, contract.Resume{Action: contract.ActionRelease, Reason: "scrap"}, `"by" (who decides)`)

	w.Must(w.Workflows.TerminateWorkflow(w.Context(), world.WorkflowOf(d), "", "by hand"))
	world.Eventually(w, time.Minute, "its successor is stuck, too, and takes a release", func() bool {
		return w.resume(d, contract.Resume{Action: contract.ActionRelease, By: "ann", Reason: "scrap"}) == nil
	})
	w.Vanishes(d)
	if result := w.Completed(d); result.ReleasedPods != 1 {
		w.Errorf("result = %+v, want one released", result)
	}
}

func (w survival) isStuck(d *v1beta1.Disruption) {
	w.Helper()
	world.Eventually(w, time.Minute, d.Name+" is stuck", func() bool {
		w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return d.Status.IsStuckOnRemoval
	})
}

// refuses asks again after a conflicting write, such as the bridge's last
// observation. The writes of a refusal itself happen every time.
func (w survival) refuses(d *v1beta1.Disruption, r contract.Resume, want string) {
	w.Helper()
	world.Eventually(w, time.Minute, fmt.Sprintf("resume %+v is refused and nothing is written", r), func() bool {
		w.rests(d)
		before, version := w.events(d), d.ResourceVersion
		if err := w.resume(d, r); err == nil || !strings.Contains(err.Error(), want) {
			w.Fatalf("resume %+v = %v, want %q", r, err, want)
		}
		w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
		return w.events(d) == before && d.ResourceVersion == version
	})
}

// rests waits until the workflow of d does nothing but wait.
func (w survival) rests(d *v1beta1.Disruption) {
	w.Helper()
	world.Eventually(w, time.Minute, "the workflow rests", func() bool {
		answer, err := w.Workflows.DescribeWorkflowExecution(w.Context(), world.WorkflowOf(d), "")
		w.Must(err)
		return len(answer.PendingActivities) == 0 && answer.PendingWorkflowTask == nil
	})
	w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
}

func (w survival) events(d *v1beta1.Disruption) int64 {
	w.Helper()
	events, _ := w.Length(d)
	return events
}

func (w survival) resume(d *v1beta1.Disruption, r contract.Resume) error {
	update, err := w.Workflows.UpdateWorkflow(w.Context(), temporalclient.UpdateWorkflowOptions{
		WorkflowID: world.WorkflowOf(d), UpdateName: contract.UpdateResume, Args: []any{r}, WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return update.Get(w.Context(), nil)
}

// shows waits until `kubectl get` shows the word in the disruption's row.
func (w survival) shows(d *v1beta1.Disruption, word string) {
	w.Helper()
	var row string
	world.Eventually(w, time.Minute, "kubectl get shows "+word, func() bool {
		table := &metav1.Table{}
		raw, err := w.Kube.Discovery().RESTClient().Get().SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
			AbsPath("/apis/chaos.squall.dev/v1beta1/namespaces", d.Namespace, "disruptions", d.Name).DoRaw(w.Context())
		w.Must(err)
		w.Must(json.Unmarshal(raw, table))
		row = fmt.Sprint(table.Rows[0].Cells)
		return strings.Contains(row, word)
	})
	w.Must(w.Disruptions.Get(w.Context(), client.ObjectKeyFromObject(d), d))
	if c := meta.FindStatusCondition(d.Status.Conditions, v1beta1.ConditionOrchestrated); c == nil || c.Reason != word || c.Message == "" {
		w.Errorf("kubectl get shows %s and the condition is %+v", row, c)
	}
}
