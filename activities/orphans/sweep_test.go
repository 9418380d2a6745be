package orphans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apicluster"
	"github.com/squall-chaos/squall/workflows/contract"
)

func TestRemedyFor(t *testing.T) {
	object := func(finalizer bool, deleted bool, phase v1beta1.Phase) *v1beta1.Disruption {
		d := &v1beta1.Disruption{Status: v1beta1.DisruptionStatus{Phase: phase}}
		if finalizer {
			d.Finalizers = []string{v1beta1.DisruptionFinalizer}
		}
		if deleted {
			d.DeletionTimestamp = &metav1.Time{}
		}
		return d
	}
	for name, test := range map[string]struct {
		d       *v1beta1.Disruption
		pods    int
		records int
		running bool
		want    remedy
		live    bool
	}{
		"it goes on":                                 {object(true, false, v1beta1.PhaseHolding), 2, 2, true, remedyLeave, true},
		"it is being cleaned":                        {object(true, true, v1beta1.PhaseCleaning), 2, 2, true, remedyLeave, true},
		"it is stuck":                                {object(true, true, v1beta1.PhaseStuck), 1, 2, true, remedyLeave, true},
		"the finalizer is not on yet":                {object(false, false, ""), 0, 0, false, remedyLeave, true},
		"it has just begun, nothing is chosen":       {object(true, false, v1beta1.PhasePending), 0, 0, true, remedyLeave, true},
		"its workflow was terminated":                {object(true, false, v1beta1.PhaseHolding), 2, 2, false, remedyStart, true},
		"its workflow was terminated, records only":  {object(true, false, v1beta1.PhaseHolding), 0, 1, false, remedyStart, true},
		"force-deleted, the workflow does not know":  {nil, 2, 2, true, remedyEnd, true},
		"force-deleted, the workflow is lost":        {nil, 2, 2, false, remedyStart, true},
		"force-deleted, only a record is left":       {nil, 0, 1, false, remedyStart, true},
		"ripped off while a foreign finalizer holds": {object(false, true, v1beta1.PhaseHolding), 1, 1, true, remedyEnd, true},
		"finished, a chaos pod came late":            {object(false, false, v1beta1.PhaseFinished), 1, 0, false, remedyStart, true},
		"finished, the object stays":                 {object(false, false, v1beta1.PhaseFinished), 0, 0, false, remedyLeave, false},
		"finished, and a late report says that it is stuck": {func() *v1beta1.Disruption {
			d := object(false, false, v1beta1.PhaseStuck)
			d.Status.CleanedAt = &metav1.Time{}
			return d
		}(), 0, 0, false, remedyLeave, false},
		"refused, the object stays":                    {object(false, false, v1beta1.PhaseRejected), 0, 0, false, remedyLeave, false},
		"gone with all it had":                         {nil, 0, 0, false, remedyLeave, false},
		"gone with all it had, the workflow runs idle": {nil, 0, 0, true, remedyLeave, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := footprint{exists: test.d != nil, finalized: test.d != nil && finalized(test.d), pods: test.pods, records: test.records}
			if remedy := remedyFor(got, test.running); remedy != test.want {
				t.Errorf("remedyFor() = %s, want %s", remedy, test.want)
			}
			if got.live() != test.live {
				t.Errorf("live() = %t, want %t: marks on nodes would be judged wrongly", got.live(), test.live)
			}
		})
	}
}

func TestOrphanedMarks(t *testing.T) {
	mark := func(uid types.UID) v1beta1.Mark {
		return v1beta1.Mark{Object: "journal of " + string(uid), Disruption: v1beta1.DisruptionRef{UID: uid}}
	}
	live := map[types.UID]*footprint{
		"holding": {exists: true}, "finished": {exists: true, finalized: true}, "pods": {pods: 1}, "records": {records: 1},
		"late": {exists: true, finalized: true, pods: 1},
	}
	for name, test := range map[string]struct {
		audit v1beta1.Audit
		all   map[types.UID]*footprint
		want  []types.UID
	}{
		"nothing":                                {v1beta1.Audit{}, live, nil},
		"live ones see to their own":             {v1beta1.Audit{Marks: []v1beta1.Mark{mark("holding"), mark("pods"), mark("records"), mark("late")}}, live, nil},
		"nobody knows the disruption":            {v1beta1.Audit{Marks: []v1beta1.Mark{mark("lost"), mark("holding")}}, live, []types.UID{"lost"}},
		"released, and the disruption is over":   {v1beta1.Audit{Marks: []v1beta1.Mark{mark("finished")}}, live, []types.UID{"finished"}},
		"two marks of one":                       {v1beta1.Audit{Marks: []v1beta1.Mark{mark("lost"), mark("lost")}}, live, []types.UID{"lost", "lost"}},
		"the report was cut":                     {v1beta1.Audit{Disruptions: []types.UID{"holding", "lost"}, More: 9}, live, []types.UID{"lost"}},
		"nameless beside a live disruption":      {v1beta1.Audit{Marks: []v1beta1.Mark{mark("")}}, live, nil},
		"nameless, and nothing lives":            {v1beta1.Audit{Marks: []v1beta1.Mark{mark("")}}, map[types.UID]*footprint{"finished": {exists: true, finalized: true}}, []types.UID{""}},
		"named twice, by mark and by disruption": {v1beta1.Audit{Marks: []v1beta1.Mark{mark("lost")}, Disruptions: []types.UID{"lost"}}, live, []types.UID{"lost"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []types.UID
			for _, m := range orphanedMarks(test.audit, test.all) {
				got = append(got, m.Disruption.UID)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("orphanedMarks() (-want +got):\n%s", diff)
			}
		})
	}
}

// temporal plays a Temporal: it knows which workflows run and what was done.
// test/survival uses the real one.
type temporal struct {
	mu   sync.Mutex
	runs map[string]bool
	did  []string
	// then is the deed of a workflow that was started or signalled to end. asked runs
	// before a question about a workflow is answered.
	then, asked func(id string)
}

func (f *temporal) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if f.asked != nil {
		f.asked(id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	runs, known := f.runs[id]
	if !known {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	status := enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	if runs {
		status = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: status}}, nil
}

func (f *temporal) SignalWorkflow(_ context.Context, id, _, signal string, _ any) error {
	return f.do(id, signal+" "+id)
}

func (f *temporal) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	if in, ok := args[0].(contract.Input); !ok || contract.WorkflowID(in.Disruption) != o.ID {
		return nil, fmt.Errorf("workflow %s with input %+v", o.ID, args)
	}
	if o.WorkflowIDReusePolicy != enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE {
		return nil, errors.New("after one that completed it would not run")
	}
	return nil, f.do(o.ID, "start "+o.ID)
}

func (f *temporal) do(id, what string) error {
	f.mu.Lock()
	f.did = append(f.did, what)
	f.mu.Unlock()
	if f.then != nil {
		f.then(id)
	}
	return nil
}

func (c *testCluster) withTemporal() *temporal {
	f := &temporal{runs: map[string]bool{}}
	c.sweep.Temporal = f
	return f
}

// ripOff removes a Disruption's finalizers by force.
func (c *testCluster) ripOff(ref v1beta1.DisruptionRef) {
	c.Helper()
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	c.Must(c.Plain.Patch(types.MergePatchType).Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Body(patch).Do(c.Context()).Error())
	c.Must(c.Plain.Delete().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Do(c.Context()).Error())
}

// cleanedUp plays the workflow of an orphan, in cleanup mode.
func (c *testCluster) cleanedUp(ref v1beta1.DisruptionRef) {
	for _, pod := range c.ChaosPodsOf(ref) {
		c.Must(c.force(&pod))
	}
	c.Must(c.Store.DeleteRecords(c.Context(), ref))
}

func TestSweepRecords(t *testing.T) {
	long := strings.Repeat("long-name-", 6) + "123" // as long as a Disruption's name may be
	t.Run("a disruption that goes on is left alone", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		f := c.withTemporal()
		f.runs[contract.WorkflowID(ref)] = true
		if swept := apicluster.Do[SweptRecords](c.Cluster, c.env, c.sweep.SweepRecords, Patience{}); !cmp.Equal(swept, SweptRecords{}) || len(f.did) > 0 {
			t.Errorf("swept = %+v, did %v, want nothing", swept, f.did)
		}
	})
	t.Run("ripped off, its workflow runs: it is told to end", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(2, nil)
		ref := c.started(long, nil)
		c.ripOff(ref)
		f := c.withTemporal()
		f.runs[contract.WorkflowID(ref)] = true
		f.then = func(string) { c.cleanedUp(ref) }
		swept := apicluster.Do[SweptRecords](c.Cluster, c.env, c.sweep.SweepRecords, Patience{For: time.Minute})
		want := SweptRecords{ChaosPods: Tally{Found: 2, Cleaned: 2}, Records: Tally{Found: 2, Cleaned: 2},
			Cleaned: []Orphan{{Disruption: describe(ref), What: "2 chaos pods, 2 records"}}}
		if diff := cmp.Diff(want, swept); diff != "" || !cmp.Equal(f.did, []string{"end " + contract.WorkflowID(ref)}) {
			t.Errorf("did %v, swept (-want +got):\n%s", f.did, diff)
		}
	})
	t.Run("ripped off, its workflow is lost, the record too: started by the chaos pod's word", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref := c.started(long, nil)
		c.ripOff(ref)
		c.Must(c.Store.DeleteRecords(t.Context(), ref))
		f := c.withTemporal()
		f.then = func(string) { c.cleanedUp(ref) }
		swept := apicluster.Do[SweptRecords](c.Cluster, c.env, c.sweep.SweepRecords, Patience{For: time.Minute})
		if swept.ChaosPods.Cleaned != 1 || !cmp.Equal(f.did, []string{"start " + contract.WorkflowID(ref)}) {
			t.Errorf("did %v, swept %+v", f.did, swept)
		}
	})
	t.Run("it ends in good order while it is looked at: nothing is started", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		f := c.withTemporal()
		f.runs[contract.WorkflowID(ref)] = false
		f.asked = func(string) { c.cleanedUp(ref); c.ripOff(ref) }
		if swept := apicluster.Do[SweptRecords](c.Cluster, c.env, c.sweep.SweepRecords, Patience{}); !cmp.Equal(swept, SweptRecords{}) || len(f.did) > 0 {
			t.Errorf("swept = %+v, did %v, want nothing", swept, f.did) // T1
		}
	})
	t.Run("its workflow was terminated, and nothing helps: left, with a word", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(1, nil)
		ref := c.started("calm", nil)
		f := c.withTemporal()
		f.runs[contract.WorkflowID(ref)] = false
		swept := apicluster.Do[SweptRecords](c.Cluster, c.env, c.sweep.SweepRecords, Patience{})
		if swept.ChaosPods.Left != 1 || swept.Records.Left != 2 || len(swept.Left) != 1 || !strings.Contains(swept.Left[0].Why, contract.WorkflowID(ref)) {
			t.Errorf("swept = %+v, want one chaos pod and two records left, and the workflow named", swept)
		}
		if !cmp.Equal(f.did, []string{"start " + contract.WorkflowID(ref)}) {
			t.Errorf("did %v", f.did)
		}
	})
}

func TestSweepNodes(t *testing.T) {
	lost := v1beta1.DisruptionRef{Namespace: "shop", Name: "lost", UID: "5a5a26f0-0000-4000-8000-000000000001"}
	page := NodePage{Size: 200}
	noSweepers := func(c *testCluster) {
		c.Helper()
		list, err := c.Client.CoreV1().Pods(c.Chaos).List(c.Context(), metav1.ListOptions{LabelSelector: v1beta1.LabelSweep})
		c.Must(err)
		if len(list.Items) > 0 {
			c.Errorf("%d commands on nodes are left, want none", len(list.Items))
		}
	}
	t.Run("orphans are cleaned, what lives is left alone, two pods per clean node", func(t *testing.T) {
		c := newCluster(t)
		c.MakeTargets(1, nil)
		live := c.started("calm", nil)
		n := c.WithNodes("sweep-a", "sweep-b")
		n.Marks["sweep-a"] = []v1beta1.Mark{markOf(lost, "journal"), markOf(lost, "io.max 8:0"), markOf(live, "journal")}
		n.Marks["sweep-b"] = []v1beta1.Mark{markOf(live, "journal")}
		swept := apicluster.Do[SweptNodes](c.Cluster, c.env, c.sweep.SweepNodes, page)
		want := SweptNodes{Nodes: 2, Audited: 2, Marks: Tally{Found: 2, Cleaned: 2}, Cleaned: []Orphan{
			{Disruption: describe(lost), Node: "sweep-a", What: "io.max 8:0"}, {Disruption: describe(lost), Node: "sweep-a", What: "journal"}}}
		if diff := cmp.Diff(want, swept); diff != "" {
			t.Errorf("swept (-want +got):\n%s", diff)
		}
		clean := "sweep-a: clean --disruption " + string(lost.UID)
		slices.Sort(n.Ran)
		if diff := cmp.Diff([]string{"sweep-a: audit", "sweep-a: audit", "sweep-a: audit", clean, "sweep-b: audit"}, n.Ran); diff != "" {
			t.Errorf("ran on nodes (-want +got):\n%s", diff)
		}
		noSweepers(c)
	})
	t.Run("a hundred orphans on one node are cleaned by one pod", func(t *testing.T) {
		c := newCluster(t)
		n := c.WithNodes("sweep-l")
		for i := range 100 {
			many := v1beta1.DisruptionRef{UID: types.UID(fmt.Sprintf("5a5a26f0-0000-4000-8000-%012d", i))}
			n.Marks["sweep-l"] = append(n.Marks["sweep-l"], markOf(many, "journal"))
		}
		swept := apicluster.Do[SweptNodes](c.Cluster, c.env, c.sweep.SweepNodes, page)
		if swept.Marks != (Tally{Found: 100, Cleaned: 100}) || len(n.Ran) != 4 {
			t.Errorf("marks %+v by %d commands, want 100 by three audits and one clean", swept.Marks, len(n.Ran))
		}
	})
	t.Run("what cannot be cleaned is said with the cleaner's words", func(t *testing.T) {
		c := newCluster(t)
		n := c.WithNodes("sweep-c")
		n.Stubborn, n.Marks["sweep-c"] = "sweep-c", []v1beta1.Mark{markOf(lost, "io.max 8:0")}
		swept := apicluster.Do[SweptNodes](c.Cluster, c.env, c.sweep.SweepNodes, page)
		want := []Orphan{{Disruption: describe(lost), Node: "sweep-c", What: "io.max 8:0", Why: "write io.max: busy; io.max 8:0"}}
		if diff := cmp.Diff(want, swept.Left); diff != "" || swept.Marks != (Tally{Found: 1, Left: 1}) {
			t.Errorf("marks %+v, left (-want +got):\n%s", swept.Marks, diff)
		}
		for name, want := range map[string]int64{"squall_orphans_found_total{mark}": 1, "squall_orphans_cleaned_total{mark}": 0, "squall_orphans_left_total{mark}": 1} {
			if got := c.Counts.Of(name); got != want {
				t.Errorf("metric %s = %d, want %d", name, got, want)
			}
		}
	})
	t.Run("a disruption that ends in good order meanwhile is no orphan", func(t *testing.T) {
		c := newCluster(t)
		n := c.WithNodes("sweep-d")
		n.Marks["sweep-d"] = []v1beta1.Mark{markOf(lost, "journal")}
		n.Looked = func(_ string, times int) {
			if times == 2 {
				n.Marks["sweep-d"] = nil
			}
		}
		if swept := apicluster.Do[SweptNodes](c.Cluster, c.env, c.sweep.SweepNodes, page); swept.Marks != (Tally{}) || len(n.Ran) != 2 {
			t.Errorf("marks %+v, ran %v, want no orphan after a second look", swept.Marks, n.Ran)
		}
	})
	t.Run("a disruption that begins meanwhile is no orphan", func(t *testing.T) {
		c := newCluster(t)
		n := c.WithNodes("sweep-h")
		n.Marks["sweep-h"] = []v1beta1.Mark{markOf(lost, "journal")}
		n.Looked = func(_ string, times int) {
			if times == 2 {
				n.Marks["sweep-h"] = append(n.Marks["sweep-h"], markOf(v1beta1.DisruptionRef{Namespace: "shop", Name: "new", UID: "5a5a26f0-0000-4000-8000-00000000000f"}, "journal"))
			}
		}
		swept := apicluster.Do[SweptNodes](c.Cluster, c.env, c.sweep.SweepNodes, page)
		if clean := "sweep-h: clean --disruption " + string(lost.UID); swept.Marks != (Tally{Found: 1, Cleaned: 1}) || !slices.Contains(n.Ran, clean) {
			t.Errorf("marks %+v, ran %v, want nothing but %q", swept.Marks, n.Ran, clean)
		}
	})
	t.Run("nodes that do not answer are skipped and named", func(t *testing.T) {
		c := newCluster(t)
		n := c.WithNodes("sweep-e", "sweep-f", "sweep-g")
		n.Mute = "sweep-f"
		away, err := c.Client.CoreV1().Nodes().Get(t.Context(), "sweep-e", metav1.GetOptions{})
		c.Must(err)
		n.SetReady(away, corev1.ConditionUnknown)
		swept := apicluster.Do[SweptNodes](c.Cluster, c.env, c.sweep.SweepNodes, page)
		if swept.Nodes != 3 || swept.Audited != 1 || len(swept.Skipped) != 2 {
			t.Fatalf("swept = %+v, want two of three nodes skipped", swept)
		}
		if s := swept.Skipped[0]; s.Node != "sweep-e" || s.Why != "the node is not ready" {
			t.Errorf("skipped %+v", s)
		}
		if s := swept.Skipped[1]; s.Node != "sweep-f" || !strings.Contains(s.Why, "exec format error") {
			t.Errorf("skipped %+v", s)
		}
		if got := c.Counts.Of(metric.SweepNodesSkipped.Name); got != 2 {
			t.Errorf("metric of skipped nodes = %d, want 2", got)
		}
	})
	t.Run("page after page, every node once", func(t *testing.T) {
		c := newCluster(t)
		n := c.WithNodes("sweep-h", "sweep-i", "sweep-j")
		page, total := NodePage{Size: 2}, 0
		for range 2 {
			swept := apicluster.Do[SweptNodes](c.Cluster, c.env, c.sweep.SweepNodes, page)
			total, page.From = total+swept.Audited, swept.Next
		}
		slices.Sort(n.Ran)
		if diff := cmp.Diff([]string{"sweep-h: audit", "sweep-i: audit", "sweep-j: audit"}, n.Ran); diff != "" || page.From != "" || total != 3 {
			t.Errorf("%d audited, next page %q, ran (-want +got):\n%s", total, page.From, diff)
		}
	})
	t.Run("the pods of a sweep that died are taken away", func(t *testing.T) {
		c := newCluster(t)
		c.withTemporal()
		dead, err := c.Builds().NodeCommand(chaospod.Owner{Name: "another-run", Labels: map[string]string{v1beta1.LabelSweep: "another-run"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "sweep-k", UID: "u"}}, []string{"audit"})
		c.Must(err)
		_, err = c.Client.CoreV1().Pods(c.Chaos).Create(t.Context(), dead, metav1.CreateOptions{})
		c.Must(err)
		apicluster.Do[SweptRecords](c.Cluster, c.env, c.sweep.SweepRecords, Patience{})
		noSweepers(c)
	})
}

func markOf(ref v1beta1.DisruptionRef, object string) v1beta1.Mark {
	return v1beta1.Mark{Object: object, Disruption: ref, Kind: v1beta1.KindDiskPressure}
}
