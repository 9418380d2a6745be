package sweep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/squall-chaos/squall/activities/orphans"
	"github.com/squall-chaos/squall/workflows/flow"
)

// newCluster plays a cluster with so many pages of nodes.
func newCluster(pages int, records error) (*testsuite.TestWorkflowEnvironment, *[]string) {
	var suite testsuite.WorkflowTestSuite
	env, asked := suite.NewTestWorkflowEnvironment(), &[]string{}
	env.RegisterActivity(&orphans.Activities{})
	env.OnActivity(a.SweepRecords, mock.Anything, mock.Anything).Return(func(context.Context, orphans.Patience) (orphans.SweptRecords, error) {
		*asked = append(*asked, "records")
		return orphans.SweptRecords{ChaosPods: orphans.Tally{Found: 2, Cleaned: 2}, Records: orphans.Tally{Found: 1, Cleaned: 1}}, records
	})
	env.OnActivity(a.SweepNodes, mock.Anything, mock.Anything).Return(func(_ context.Context, p orphans.NodePage) (orphans.SweptNodes, error) {
		*asked = append(*asked, "nodes from "+p.From)
		swept := orphans.SweptNodes{Nodes: int(p.Size), Audited: int(p.Size) - 1, Marks: orphans.Tally{Found: 2, Cleaned: 1, Left: 1}}
		if page := len(*asked) - 1; page < pages {
			swept.Next = fmt.Sprintf("page %d", page+1)
		}
		for i := range 3 {
			swept.Left = append(swept.Left, orphans.Orphan{Node: fmt.Sprint("node-", i), What: "io.max", Why: "a|b"})
		}
		swept.Cleaned = swept.Left[:1]
		swept.Skipped = []orphans.Orphan{{Node: "away", What: "all of the node", Why: "the node is not ready"}}
		return swept, nil
	})
	return env, asked
}

func TestSweep(t *testing.T) {
	t.Run("all pages, one after the other, counted", func(t *testing.T) {
		env, asked := newCluster(25, nil)
		env.ExecuteWorkflow(Workflow)
		var s Result
		if err := env.GetWorkflowResult(&s); err != nil {
			t.Fatal(err)
		}
		if len(*asked) != 26 || (*asked)[1] != "nodes from " || (*asked)[25] != "nodes from page 25" {
			t.Errorf("asked %v, want the records and 25 pages", *asked)
		}
		want := "looked at 4975 of 5000 nodes: 53 orphans (2 chaos pods, 1 record, 50 marks on nodes), 28 cleaned, 25 left for the next sweep"
		if diff := cmp.Diff(want, s.Summary); diff != "" {
			t.Errorf("summary (-want +got):\n%s", diff)
		}
		if len(s.Left) != flow.MaxNamed || len(s.Skipped) != 25 || len(s.Cleaned) != 25 {
			t.Errorf("names %d left, %d skipped, %d cleaned, want %d, 25 and 25: a history has room for so many",
				len(s.Left), len(s.Skipped), len(s.Cleaned), flow.MaxNamed)
		}
		if page := details(s); !strings.Contains(page, "- node node-0, io.max: a|b\n") || !strings.Contains(page, "- node away") || !strings.Contains(page, "### Cleaned") {
			t.Errorf("page a person reads:\n%s", page)
		}
	})
	t.Run("nothing found", func(t *testing.T) {
		if got, want := (&Result{Nodes: 1, Audited: 1}).sentence(), "looked at 1 of 1 node: nothing is there that no disruption owns"; got != want {
			t.Errorf("sentence() = %q, want %q", got, want)
		}
	})
	t.Run("the records cannot be looked through: it fails and says why", func(t *testing.T) {
		env, _ := newCluster(1, temporal.NewNonRetryableApplicationError("configmaps is forbidden", "", errors.New("no")))
		env.ExecuteWorkflow(Workflow)
		if err := env.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "configmaps is forbidden") {
			t.Errorf("workflow error = %v", err)
		}
	})
}
