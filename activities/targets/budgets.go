package targets

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Budgets are the PodDisruptionBudgets, and the rules of policies, that limit how many
// targets a disruption may choose. A PodDisruptionBudget allows as many pods as its
// status does, less those that running disruptions hold. Squall subtracts these also
// where the status counts them already.
type Budgets []budget

// budget is one PodDisruptionBudget as it was read, or one rule.
type budget struct {
	name string
	// allowed is how many of pods may be disrupted, by the budget's status.
	allowed int
	// pods are the pods that the budget covers.
	pods map[types.UID]bool
	// rule is the rule of a policy, which bounds disruptions as a budget does; nil for a
	// PodDisruptionBudget. held are the targets of other disruptions that count for it.
	rule *policy.Rule
	held map[types.UID]bool
	// counted is true when allowed already excludes the targets of other disruptions.
	counted bool
}

// Budgets reads the budgets of the disruption's namespace live. A disruption that does
// not respect budgets has none. A budget whose status is older than its spec allows
// nothing.
func (s *Store) Budgets(ctx context.Context, d *v1beta1.Disruption) (Budgets, error) {
	if !d.Spec.RespectsBudgets() {
		return nil, nil
	}
	var budgets Budgets
	var selectors []labels.Selector
	var broken error
	err := kube.Pages(ctx, s.Kube.PolicyV1().PodDisruptionBudgets(d.Namespace).List, metav1.ListOptions{}, func(list *policyv1.PodDisruptionBudgetList) {
		for i := range list.Items {
			found := &list.Items[i]
			selector, err := metav1.LabelSelectorAsSelector(found.Spec.Selector)
			if err != nil {
				broken = fmt.Errorf("selector of PodDisruptionBudget %s/%s: %w", d.Namespace, found.Name, err)
			}
			budgets, selectors = append(budgets, budget{name: found.Name, allowed: allowed(found), pods: map[types.UID]bool{}}), append(selectors, selector)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the PodDisruptionBudgets of namespace %s: %w", d.Namespace, err)
	}
	if broken != nil {
		return nil, broken
	}
	if len(budgets) == 0 {
		return nil, nil
	}
	return budgets, s.cover(ctx, d.Namespace, budgets, selectors)
}

func allowed(b *policyv1.PodDisruptionBudget) int {
	if b.Status.ObservedGeneration < b.Generation {
		return 0
	}
	return int(b.Status.DisruptionsAllowed)
}

// cover records in each budget which pods of the namespace its selector matches.
func (s *Store) cover(ctx context.Context, namespace string, budgets Budgets, selectors []labels.Selector) error {
	if err := s.acquireList(ctx); err != nil {
		return err
	}
	defer s.releaseList()
	err := kube.Pages(ctx, s.Kube.CoreV1().Pods(namespace).List, metav1.ListOptions{Limit: s.pageSize}, func(pods *corev1.PodList) {
		for i := range pods.Items {
			for j, selector := range selectors {
				if selector.Matches(labels.Set(pods.Items[i].Labels)) {
					budgets[j].pods[pods.Items[i].UID] = true
				}
			}
		}
	})
	if err != nil {
		return fmt.Errorf("list the pods of namespace %s that PodDisruptionBudgets cover: %w", namespace, err)
	}
	return nil
}

// room is how many more pods each budget allows.
type room struct {
	budgets Budgets
	left    []int
	// taken are the pods that each budget counts already.
	taken []map[types.UID]bool
}

// without returns the room that is left while the held pods are disrupted. A rule
// counts the pods of its own held instead.
func (b Budgets) without(held map[types.UID]bool) *room {
	r := &room{budgets: b}
	for i, budget := range b {
		r.left, r.taken = append(r.left, budget.allowed), append(r.taken, map[types.UID]bool{})
		if budget.rule != nil || budget.counted {
			r.left[i] -= len(budget.held)
			maps.Copy(r.taken[i], budget.held)
			continue
		}
		for uid := range held {
			r.countFor(i, uid)
		}
	}
	return r
}

// beside returns the room that is left beside all claims.
func (b Budgets) beside(claims Claims) *room {
	r := b.without(claims.held)
	for _, target := range Active(claims.Own) {
		r.count(target.UID)
	}
	return r
}

// count counts a pod as disrupted; a second call for it does nothing.
func (r *room) count(uid types.UID) {
	for i := range r.budgets {
		r.countFor(i, uid)
	}
}

func (r *room) countFor(i int, uid types.UID) {
	if r.taken[i][uid] {
		return
	}
	r.taken[i][uid] = true
	if r.budgets[i].pods[uid] {
		r.left[i]--
	}
}

// full returns the index of the first budget without room for the pod, or -1.
func (r *room) full(uid types.UID) int {
	for i, budget := range r.budgets {
		if !r.taken[i][uid] && budget.pods[uid] && r.left[i] < 1 {
			return i
		}
	}
	return -1
}

// take counts a pod if every budget has room for it.
func (r *room) take(uid types.UID) bool {
	if r.full(uid) >= 0 {
		return false
	}
	r.count(uid)
	return true
}

// fit returns, in random order, as many usable candidates as all budgets allow
// together.
func (r *room) fit(candidates []Candidate) []Candidate {
	if len(r.budgets) == 0 {
		return candidates
	}
	shuffled := slices.Clone(candidates)
	rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	return slices.DeleteFunc(shuffled, func(c Candidate) bool { return !c.usable() || !r.take(c.Target.UID) })
}

// NoteBudgets writes into the selection how many candidates were left out because no
// budget has room for them.
func (s *Selection) NoteBudgets(healthy []Candidate, budgets Budgets, claims Claims) {
	held := budgets.beside(claims)
	left, names := held.leftOut(healthy, claims, func(c Candidate, full int) string {
		if full < 0 || claims.Holders[c.Target.UID] != "" || c.Operation != "" {
			return ""
		}
		return fmt.Sprintf("%s (allows %d, %d held by disruptions)", budgets[full].name, budgets[full].allowed, budgets[full].allowed-held.left[full])
	})
	if left > 0 {
		s.Budget = fmt.Sprintf("%d are left out, as a PodDisruptionBudget has no room: %s", left, names)
	}
}

// leftOut counts the candidates that could be chosen otherwise and for which why
// returns a name, and lists these names. why receives the first budget without room for
// the candidate, or -1.
func (r *room) leftOut(healthy []Candidate, claims Claims, why func(c Candidate, full int) string) (left int, names string) {
	tries := past(claims.Own, time.Now())
	reasons := map[string]bool{}
	for _, c := range healthy {
		if tries[c.Target.UID] >= notNow {
			continue
		}
		if name := why(c, r.full(c.Target.UID)); name != "" {
			left++
			reasons[name] = true
		}
	}
	return left, shortList(reasons)
}

// shortList joins the first namedHolders names in order, and adds how many more there
// are.
func shortList(set map[string]bool) string {
	names := slices.Sorted(maps.Keys(set))
	text := strings.Join(names[:min(len(names), namedHolders)], ", ")
	if more := len(names) - namedHolders; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
