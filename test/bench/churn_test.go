package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

// Another tenant's targets are chosen rivals times before the first pod is replaced, and
// as often after the last.
const rivals = 15

// churning is a workload all of whose pods are disrupted, and whose pods come and go.
type churning struct {
	bench
	d     *v1beta1.Disruption
	label string
	// names are those of the pods that are there, the oldest first.
	names         []string
	made, batches int
}

// churnResult is what the replacement of many pods has cost.
type churnResult struct {
	batch, replaced         int
	events                  int64
	runs                    int
	eventsFirst, eventsLast float64 // for each replaced pod, in the first and the last tenth
	each                    time.Duration
	first, last             []time.Duration // the choice of another tenant
	records                 int             // of the disruption, at the end
	cleaned                 time.Duration
}

func (r churnResult) perPod() float64 { return float64(r.events) / float64(r.replaced) }

// churn replaces n pods of a workload of standing ones, for each number of pods that are
// replaced at once.
func (b bench) churn(n, standing int, batches string) {
	b.Helper()
	var all []churnResult
	for word := range strings.SplitSeq(batches, ",") {
		batch, err := strconv.Atoi(word)
		if err != nil || batch < 1 || batch > standing {
			b.Fatalf("-batch %s: %q is no number from 1 to %d", batches, word, standing)
		}
		all = append(all, b.churnOnce(n, standing, batch))
	}
	lines, costs := []line{}, table{title: fmt.Sprintf("%s pods of a workload of %d come and go in one disruption", thousands(int64(n)), standing),
		head: []string{"replaced at once", "events a pod", "first tenth", "last tenth", "runs", "records", "a batch takes", "to clean"}}
	rival := table{title: "Another tenant's disruption of one pod, create to `Injected`: median (shortest to longest)",
		head: []string{"replaced at once", "before", "after", "ratio"}}
	for _, r := range all {
		at := fmt.Sprintf("%d at once", r.batch)
		lines = append(lines,
			line{what: "history events for each replaced pod, " + at, value: r.perPod(), most: 10},
			line{what: "another tenant's choice, after over before, " + at, value: median(r.last).Seconds() / median(r.first).Seconds(), most: 1.2})
		costs.add(fmt.Sprint(r.batch), quantity(r.perPod(), ""), quantity(r.eventsFirst, ""), quantity(r.eventsLast, ""),
			fmt.Sprint(r.runs), fmt.Sprint(r.records), took(r.each), took(r.cleaned))
		rival.add(fmt.Sprint(r.batch), spread(r.first), spread(r.last), fmt.Sprintf("%.2f", median(r.last).Seconds()/median(r.first).Seconds()))
	}
	publish(b, section{name: "churn", lines: lines, tables: []table{costs, rival}, notes: []string{b.where()}})
}

func (b bench) churnOnce(n, standing, batch int) churnResult {
	b.Helper()
	b.Targets(1) // of the other tenant
	b.fresh()
	c := churning{bench: b, label: fmt.Sprintf("churn-%d", batch)}
	c.pods(standing)
	c.d = b.disruption(1)
	whole, bound := intstr.FromString("100%"), 1_000_000
	c.d.Spec.Count, c.d.Spec.MaxLostTargets, c.d.Spec.Selector = &whole, &bound, map[string]string{"app": c.label}
	c.d.Spec.Duration = &v1beta1.Duration{Duration: 100 * time.Hour}
	b.Create(c.d)
	c.whole(standing)
	r := churnResult{batch: batch, first: c.rivals()}
	before := c.events()
	tenth := max(n/10/batch, 1) * batch
	began, paused := time.Now(), time.Duration(0)
	for r.replaced < n {
		c.replace(min(batch, n-r.replaced), standing)
		r.replaced += batch
		c.batches++
		if r.replaced%tenth < batch || r.replaced >= n {
			looked := time.Now()
			r.tenth(c.events()-before, min(tenth, n))
			before += r.grown(c.events() - before)
			logf("%s of %s pods replaced, %d at once: %.1f events a pod, %d chaos pods", thousands(int64(r.replaced)), thousands(int64(n)), batch, r.perPod(), b.Kubelets.There(b.Chaos))
			paused += time.Since(looked)
		}
	}
	r.each = (time.Since(began) - paused) / time.Duration(c.batches)
	r.last = c.rivals()
	r.runs, r.records = c.runs(), c.records()
	c.end(&r)
	return r
}

// tenth notes what a tenth of the pods has cost.
func (r *churnResult) tenth(events int64, pods int) {
	r.eventsLast = float64(events) / float64(pods)
	if r.events == 0 {
		r.eventsFirst = r.eventsLast
	}
}

func (r *churnResult) grown(events int64) int64 {
	r.events += events
	return events
}

func (c *churning) pods(n int) (made []string) {
	c.Helper()
	for range n {
		made = append(made, fmt.Sprintf("%s-%06d", c.label, c.made))
		c.made++
	}
	c.Each(n, 32, func(i int) error {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: made[i], Labels: map[string]string{"app": c.label}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%02d", i%50), Containers: []corev1.Container{{Name: "main", Image: "web"}}},
		}
		_, err := c.Kube.CoreV1().Pods(c.Shop).Create(c.Context(), pod, metav1.CreateOptions{})
		return err
	})
	c.names = append(c.names, made...)
	return made
}

// replace deletes the oldest pods, creates others, and waits until these are disrupted.
func (c *churning) replace(n, standing int) {
	c.Helper()
	old := slices.Clone(c.names[:n])
	c.names = slices.Delete(c.names, 0, n)
	c.Each(n, 32, func(i int) error {
		return c.Kube.CoreV1().Pods(c.Shop).Delete(c.Context(), old[i], metav1.DeleteOptions{})
	})
	c.pods(n)
	c.whole(standing)
}

// whole waits until all pods that are there are disrupted, and no other.
func (c *churning) whole(standing int) {
	c.Helper()
	want := fmt.Sprintf("%d/%[1]d", standing)
	world.Eventually(c, c.Patience, "all pods are injected, "+want, func() bool {
		if !c.See(c.d) || c.d.Status.InjectionStatus != v1beta1.Injected || c.d.Status.Targets != want {
			return false
		}
		return !slices.ContainsFunc(c.names, func(name string) bool {
			return c.d.Status.TargetInjections[name][v1beta1.KindCPUPressure].InjectionStatus != v1beta1.Injected
		})
	})
}

// rivals is how long another tenant waits for the choice and the injection of one pod.
func (c *churning) rivals() (all []time.Duration) {
	c.Helper()
	c.Meter.Settled(c)
	for range rivals {
		d := c.disruption(1)
		began := time.Now()
		c.Create(d)
		c.Injected(d)
		all = append(all, time.Since(began))
		c.Delete(d)
	}
	return all
}

// executions are the runs of the disruption's workflow, and the events of all.
func (c *churning) executions() (runs int, events int64) {
	c.Helper()
	current, err := c.Workflows.DescribeWorkflowExecution(c.Context(), world.WorkflowOf(c.d), "")
	c.Must(err)
	now := current.GetWorkflowExecutionInfo()
	runs, events = 1, now.GetHistoryLength()
	var next []byte
	for more := true; more; more = len(next) > 0 {
		answer, err := c.Workflows.ListWorkflow(c.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: fmt.Sprintf("WorkflowId = %q AND ExecutionStatus != 'Running'", world.WorkflowOf(c.d)), NextPageToken: next,
		})
		c.Must(err)
		for _, run := range answer.GetExecutions() {
			if run.GetExecution().GetRunId() != now.GetExecution().GetRunId() {
				runs, events = runs+1, events+run.GetHistoryLength()
			}
		}
		next = answer.GetNextPageToken()
	}
	return runs, events
}

func (c *churning) events() int64 {
	_, events := c.executions()
	return events
}

func (c *churning) runs() int {
	runs, _ := c.executions()
	return runs
}

func (c *churning) records() int {
	c.Helper()
	list, err := c.Kube.CoreV1().ConfigMaps(c.Chaos).List(c.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID + "=" + string(c.d.UID)})
	c.Must(err)
	return len(list.Items)
}

// end deletes the disruption and its workload.
func (c *churning) end(r *churnResult) {
	c.Helper()
	began := time.Now()
	c.Delete(c.d)
	r.cleaned = time.Since(began)
	c.History(c.d) // today's code takes the same decisions again
	c.Each(len(c.names), 32, func(i int) error {
		return c.Kube.CoreV1().Pods(c.Shop).Delete(c.Context(), c.names[i], metav1.DeleteOptions{})
	})
}
