//go:build e2e

package e2e

import (
	"context"
	"flag"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/histories"
)

// directory is where record stores what workflows went through, for the replay
// test of package workflows:
//
//	go test -tags e2e ./test/e2e -args -histories ../../workflows/testdata/histories/1
var directory = flag.String("histories", "", "`directory` to store histories of workflows in; empty: none")

// record stores the history of a disruption's workflow once it has completed.
func (s *space) record(name string, d *v1beta1.Disruption) {
	s.t.Helper()
	if *directory == "" {
		return
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	id := workflowID(d)
	if err := s.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
		s.t.Fatalf("wait for the workflow %s: %v", id, err)
	}
	all := &history.History{}
	events := s.temporal.GetWorkflowHistory(ctx, id, "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			s.t.Fatalf("read the history of %s: %v", id, err)
		}
		all.Events = append(all.Events, event)
	}
	if err := histories.Keep(*directory, histories.Cluster, name, all); err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("recorded %s: %d events", name, len(all.Events))
}

// workflowID is the workflow of a disruption, by the rule that is part of the
// contract with people: namespace, name, UID.
func workflowID(d *v1beta1.Disruption) string {
	return "disruption/" + d.Namespace + "/" + d.Name + "/" + string(d.UID)
}
