package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// TestEveryTrialIsAskedForItsWorkflow: a trial whose finalizer was not seen still
// has a workflow, unless it was deleted before any program knew of it.
func TestEveryTrialIsAskedForItsWorkflow(t *testing.T) {
	const (
		none      = enums.WORKFLOW_EXECUTION_STATUS_UNSPECIFIED
		running   = enums.WORKFLOW_EXECUTION_STATUS_RUNNING
		completed = enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	)
	unseen, taken := trial{}, trial{begun: true}
	printed := trial{status: v1beta1.DisruptionStatus{Phase: v1beta1.PhaseFinished}}
	for name, c := range map[string]struct {
		trial  trial
		status enums.WorkflowExecutionStatus
		err    error
		why    string // empty: nothing is wrong
		begun  bool
	}{
		"taken up, and its workflow completed":          {taken, completed, nil, "", true},
		"taken up, and its workflow runs on":            {taken, running, nil, "Running", true},
		"taken up, and there is no workflow":            {taken, none, nil, "Unspecified", true},
		"never seen taken up, and it completed":         {unseen, completed, nil, "", true},
		"never seen taken up, and its workflow runs on": {unseen, running, nil, "Running", true},
		"never taken up, and there is no workflow":      {unseen, none, nil, "", false},
		"it told a phase, and there is no workflow":     {printed, none, nil, "Unspecified", true},
		"Temporal does not answer":                      {unseen, none, errors.New("no connection"), "no connection", true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			why, begun := c.trial.ask(ctx, func(context.Context, trial) (enums.WorkflowExecutionStatus, error) { return c.status, c.err })
			if begun != c.begun || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("why = %q, begun = %t, want %q, %t", why, begun, c.why, c.begun)
			}
		})
	}
}

// TestJournalsThatCannotBeReadAreNoCleanNode: only a node whose journals were read
// is clean.
func TestJournalsThatCannotBeReadAreNoCleanNode(t *testing.T) {
	const uid = "b7b0b5a8"
	root := t.TempDir()
	fresh := filepath.Join(root, "fresh")
	held := filepath.Join(root, "held")
	broken := filepath.Join(root, "broken")
	for path, content := range map[string]string{
		fresh + "/other": "",
		held + "/journal/" + uid + "_a_network.json": "{}",
		held + "/journal/" + uid + "_a_network.lock": "",
		broken + "/journal":                          "not a directory",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		squall       string
		held, healed bool
		err          bool
	}{
		"before the first injection":     {squall: fresh, healed: true},
		"a journal is there":             {squall: held, held: true},
		"the directory cannot be read":   {squall: broken, err: true},
		"the node's disk is not there":   {squall: filepath.Join(root, "away"), err: true},
		"nobody knows where the node is": {squall: "", err: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := node{name: "node-1", squall: c.squall}
			got, err := n.holds(uid + "_")
			if got != c.held || (err != nil) != c.err || n.healed(uid+"_") != c.healed {
				t.Errorf("holds = %t, %v, healed = %t; want %t, an error %t, %t", got, err, n.healed(uid+"_"), c.held, c.err, c.healed)
			}
			nodes, err := (&cluster{nodes: []node{n}}).journalsOf(uid)
			if (len(nodes) > 0) != c.held || (err != nil) != c.err {
				t.Errorf("journalsOf = %v, %v", nodes, err)
			}
		})
	}
}
