package start

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

var ref = v1beta1.DisruptionRef{Namespace: "shop", Name: "half", UID: "u1"}

// recorder plays Temporal: it records its calls, and answers err.
type recorder struct {
	err     error
	started client.StartWorkflowOptions
	input   any
	signals []any
}

func (r *recorder) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	r.started, r.input = o, args[0]
	return nil, r.err
}

func (r *recorder) SignalWorkflow(_ context.Context, id, _, signal string, arg any) error {
	r.signals = append(r.signals, id, signal, arg)
	return r.err
}

// Attributes at the start of the workflow find it in Temporal's list.
func TestStarts(t *testing.T) {
	d := &v1beta1.Disruption{}
	d.Namespace, d.Name, d.UID = ref.Namespace, ref.Name, ref.UID
	d.Spec.CPUPressure = &v1beta1.CPUPressure{}
	for _, test := range []struct {
		name  string
		start func(Temporal) error
		reuse enumspb.WorkflowIdReusePolicy
		kinds []string
	}{
		{"a disruption", func(r Temporal) error { return Start(t.Context(), r, d) },
			enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY, []string{"cpu-pressure"}},
		{"cleaning, once", func(r Temporal) error { return StartCleaning(t.Context(), r, ref, StayCompleted) },
			enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY, nil},
		{"cleaning, also after a workflow that completed", func(r Temporal) error { return StartCleaning(t.Context(), r, ref, RunAgain) },
			enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &recorder{}
			if err := test.start(r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(contract.Input{Disruption: ref}, r.input); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
			if r.started.ID != "disruption/shop/half/u1" || r.started.WorkflowIDReusePolicy != test.reuse ||
				r.started.WorkflowIDConflictPolicy != enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING || r.started.TaskQueue != contract.TaskQueue {
				t.Errorf("options = %+v", r.started)
			}
			phase, _ := r.started.TypedSearchAttributes.GetKeyword(AttributePhase)
			namespace, _ := r.started.TypedSearchAttributes.GetKeyword(AttributeNamespace)
			kinds, _ := r.started.TypedSearchAttributes.GetKeywordList(AttributeKinds)
			if phase != "Pending" || namespace != "shop" || !cmp.Equal(kinds, test.kinds) {
				t.Errorf("search attributes: phase %q, namespace %q, kinds %q", phase, namespace, kinds)
			}
			if r.started.StaticSummary == "" {
				t.Error("the workflow's page says nothing of what it is")
			}
		})
	}
}

// Rule S4: an input names its cluster if that is known, and none otherwise.
func TestAnInputNamesItsCluster(t *testing.T) {
	r := &recorder{}
	if err := StartCleaning(t.Context(), In("c1", r), ref, StayCompleted); err != nil {
		t.Fatal(err)
	}
	want := ref
	want.Cluster = "c1"
	if diff := cmp.Diff(contract.Input{Disruption: want}, r.input); diff != "" || r.started.ID != contract.WorkflowID(ref) {
		t.Errorf("workflow %s, input (-want +got):\n%s", r.started.ID, diff)
	}
}

func TestMessages(t *testing.T) {
	id := "disruption/shop/half/u1"
	observation := contract.Observation{Hash: "h"}
	for _, test := range []struct {
		name string
		send func(Temporal) error
		want []any
	}{
		{"the object is being deleted", func(r Temporal) error { return End(t.Context(), r, ref, "") }, []any{id, "end", nil}},
		{"it was stopped", func(r Temporal) error { return End(t.Context(), r, ref, "stop") }, []any{id, "end", contract.End{Reason: "stop"}}},
		{"something was seen", func(r Temporal) error { return Observe(t.Context(), r, ref, observation) }, []any{id, "observed", observation}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &recorder{}
			if err := test.send(r); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, r.signals); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	away := serviceerror.NewUnavailable("refused")
	completed := serviceerror.NewWorkflowExecutionAlreadyStarted("", "", "")
	gone := serviceerror.NewNotFound("workflow execution already completed")
	for _, test := range []struct {
		name   string
		answer error
		do     func(Temporal) error
		want   error
	}{
		{"a workflow that has completed is not started", completed, func(r Temporal) error { return StartCleaning(t.Context(), r, ref, StayCompleted) }, ErrCompleted},
		{"none runs that could be told", gone, func(r Temporal) error { return End(t.Context(), r, ref, "") }, ErrNotRunning},
		{"nobody answers a start", away, func(r Temporal) error { return StartCleaning(t.Context(), r, ref, StayCompleted) }, away},
		{"nobody answers a message", away, func(r Temporal) error { return End(t.Context(), r, ref, "") }, away},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.do(&recorder{err: test.answer}); !errors.Is(err, test.want) {
				t.Errorf("error = %v, want %v", err, test.want)
			}
		})
	}
}
