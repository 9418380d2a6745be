package ui

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// inHistory are the decisions that the workflow's history keeps.
func (s *story) inHistory() (all []contract.Resume) {
	s.t.Helper()
	events := s.temporal.GetWorkflowHistory(s.t.Context(), s.workflow, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			s.t.Fatalf("read the history of %s: %v", s.workflow, err)
		}
		accepted := event.GetWorkflowExecutionUpdateAcceptedEventAttributes()
		if accepted == nil {
			continue
		}
		var resume contract.Resume
		if err := converter.GetDefaultDataConverter().FromPayloads(accepted.AcceptedRequest.Input.Args, &resume); err != nil {
			s.t.Fatalf("read the update in event %d: %v", event.EventId, err)
		}
		all = append(all, resume)
	}
	return all
}

// watchStatus receives the decisions in the disruption's last status, once the
// disruption is gone.
func (s *story) watchStatus() <-chan []contract.Resume {
	s.t.Helper()
	stream, err := s.kube.Discovery().RESTClient().Get().AbsPath(s.path()).Param("watch", "true").Stream(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	last := make(chan []contract.Resume, 1)
	go func() {
		defer close(last)
		defer stream.Close()
		for decoder := json.NewDecoder(stream); ; {
			var event struct {
				Type   string
				Object v1beta1.Disruption
			}
			if decoder.Decode(&event) != nil {
				return
			}
			if event.Type != "DELETED" || event.Object.UID != s.disruption.UID {
				continue
			}
			var all []contract.Resume
			for _, r := range event.Object.Status.Resumes {
				all = append(all, contract.Resume{Action: r.Action, Targets: r.Targets, By: r.By, Reason: r.Reason})
			}
			last <- all
			return
		}
	}()
	return last
}

func wantDecisions(t *testing.T, where string, want, got []contract.Resume) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions in the %s (-want +got):\n%s", where, diff)
	}
}

// cleanUp leaves nothing behind, also of a test that failed half-way: neither
// the disruption nor what its killed injector left on the node.
func (s *story) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_ = s.kube.Discovery().RESTClient().Delete().AbsPath(s.path(s.disruption.Name)).Do(ctx).Error()
	eventually(s.t, func() string {
		d, err := s.read(ctx, s.disruption.Name)
		if err != nil {
			return err.Error()
		}
		if d == nil {
			return ""
		}
		_, _ = s.temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
			WorkflowID: s.workflow, UpdateName: contract.UpdateResume, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{contract.Resume{Action: contract.ActionRelease, By: "test/ui", Reason: "the test ends"}},
		})
		return "the disruption is still there after the test"
	})
	if s.bad.Name != "" {
		s.onNode(ctx, s.t, s.bad.Spec.NodeName, probeImage, "/probe", "restore", "--disruption", string(s.disruption.UID))
		s.onNode(ctx, s.t, s.bad.Spec.NodeName, probeImage, "/injector", "clean", "--disruption", string(s.disruption.UID))
	}
}
