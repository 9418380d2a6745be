package targets

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func covers(uids ...types.UID) map[types.UID]bool {
	set := map[types.UID]bool{}
	for _, uid := range uids {
		set[uid] = true
	}
	return set
}

// rule L13: how many pods several budgets allow beside those that are disrupted.
func TestRoomOfBudgets(t *testing.T) {
	web := budget{name: "web", allowed: 2, pods: covers("a", "b", "c", "d")}
	front := budget{name: "front", allowed: 1, pods: covers("c", "d")}
	for _, test := range []struct {
		name    string
		budgets Budgets
		held    map[types.UID]bool
		asked   []types.UID
		want    []types.UID
	}{
		{"no budget", nil, nil, []types.UID{"a", "b"}, []types.UID{"a", "b"}},
		{"a pod that none covers", Budgets{web}, nil, []types.UID{"x", "y", "z"}, []types.UID{"x", "y", "z"}},
		{"as many as it allows", Budgets{web}, nil, []types.UID{"a", "b", "c"}, []types.UID{"a", "b"}},
		{"less what is held", Budgets{web}, covers("d"), []types.UID{"a", "b"}, []types.UID{"a"}},
		{"more is held than it allows", Budgets{web}, covers("a", "b", "c"), []types.UID{"d"}, nil},
		{"what is held already costs nothing", Budgets{web}, covers("a", "b"), []types.UID{"a", "b", "c"}, []types.UID{"a", "b"}},
		{"what others hold elsewhere costs nothing", Budgets{web}, covers("x", "y"), []types.UID{"a", "b"}, []types.UID{"a", "b"}},
		{"two budgets: room in both", Budgets{web, front}, nil, []types.UID{"c", "d", "a", "b"}, []types.UID{"c", "a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			left := test.budgets.without(test.held)
			var got []types.UID
			for _, uid := range test.asked {
				if left.take(uid) {
					got = append(got, uid)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("taken (-want +got):\n%s", diff)
			}
		})
	}
}

// rule L13: disruptions that begin in the same moment take no more of a budget than it
// allows.
func TestDisruptionsTogetherKeepABudget(t *testing.T) {
	c := newCluster(t)
	c.targets(9, nil)
	const together, allowed = 4, 5
	healthy, err := c.Healthy(t.Context(), c.two("any"))
	c.must(err)
	web := budget{name: "web", allowed: allowed, pods: map[types.UID]bool{}}
	for _, candidate := range healthy {
		web.pods[candidate.Target.UID] = true
	}
	if len(web.pods) != 9 {
		t.Fatalf("%d candidates, want 9", len(web.pods))
	}
	held := c.together(together, func(d *v1beta1.Disruption) error {
		d.Spec.PodDisruptionBudget = v1beta1.BudgetsRespected
		_, err := c.Claim(t.Context(), d, Choice{}, healthy, Budgets{web})
		return err
	})
	if held > allowed || held == 0 {
		t.Errorf("%d disruptions that want two each hold %d pods, of %d that the budget allows", together, held, allowed)
	}
}

// together runs n disruptions that want two pods each and claim at the same time, and
// returns how many pods they hold then.
func (c *cluster) together(n int, claim func(*v1beta1.Disruption) error) int {
	c.Helper()
	done := make(chan error, n)
	var all []*v1beta1.Disruption
	for i := range n {
		d := c.two(fmt.Sprint("d", i))
		all = append(all, d)
		go func() { done <- claim(d) }()
	}
	for range n {
		c.must(<-done)
	}
	held := map[types.UID]bool{}
	for _, d := range all {
		shards, err := c.Shards(c.Context(), d.Ref())
		c.must(err)
		for _, target := range Active(shards) {
			held[target.UID] = true
		}
	}
	return len(held)
}

// rule L13
func TestWhatABudgetAllows(t *testing.T) {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 3, ObservedGeneration: 2}}
	if got := allowed(b); got != 3 {
		t.Errorf("allowed = %d, want 3", got)
	}
	b.Generation = 3
	if got := allowed(b); got != 0 {
		t.Errorf("allowed with a status of an older spec = %d, want 0", got)
	}
}
