package targets

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Deny marks the candidates that a rule forbids to disrupt, and records which rules
// count each candidate. It returns the rules that bound how many are disrupted at once.
func Deny(rules []policy.Rule, healthy []Candidate) Budgets {
	var limits Budgets
	for _, rule := range rules {
		about := map[types.UID]bool{}
		for i := range healthy {
			c := &healthy[i]
			switch {
			case !rule.About(c.Labels):
				continue
			case rule.AtMost == nil && c.Denied == "":
				c.Denied, c.deniedBy = rule.String(), &rule
			case rule.AtMost != nil && rule.Selective():
				c.limits = append(c.limits, rule.ID())
			}
			about[c.Target.UID] = true
		}
		if rule.AtMost == nil {
			continue
		}
		limits = append(limits, budget{name: rule.String(), rule: &rule, allowed: rule.Most(len(about)), pods: about})
	}
	return limits
}

// at returns the budgets, with the targets that count for each rule at the moment of
// the claims. PodDisruptionBudgets stay as they are.
func (b Budgets) at(claims Claims) Budgets {
	now := slices.Clone(b)
	for i := range now {
		if now[i].rule != nil {
			now[i].see(claims)
		}
	}
	return now
}

func (b *budget) see(claims Claims) {
	b.pods, b.held = maps.Clone(b.pods), map[types.UID]bool{}
	about := b.pods
	for _, target := range Active(claims.Own) {
		if !b.rule.Selective() || slices.Contains(target.Limits, b.rule.ID()) {
			b.pods[target.UID] = true
		}
	}
	for _, shard := range claims.others {
		namespace := shard.object.Labels[v1beta1.LabelDisruptionNamespace]
		kinds := v1beta1.ParseKinds(shard.object.Annotations[annotationKinds])
		if shard.broken != nil {
			if b.rule.Concerns(kinds, namespace, v1beta1.LevelPod) || b.rule.Concerns(kinds, namespace, v1beta1.LevelNode) {
				b.allowed = 0 // what it holds is unknown
			}
			continue
		}
		for _, target := range shard.Targets {
			level := v1beta1.LevelPod
			if target.Namespace == "" {
				level = v1beta1.LevelNode
			}
			if !target.Active() || !b.rule.Concerns(kinds, namespace, level) {
				continue
			}
			if about[target.UID] || !b.rule.Selective() || slices.Contains(target.Limits, b.rule.ID()) {
				b.held[target.UID] = true
			}
		}
	}
}

// NoteDenied writes into the selection which rules allow fewer targets, and how many
// candidates they leave out.
func (s *Selection) NoteDenied(healthy []Candidate, limits Budgets, claims Claims) {
	held := limits.at(claims).beside(claims)
	applied := map[string]policy.Rule{}
	left, names := held.leftOut(healthy, claims, func(c Candidate, full int) string {
		if c.deniedBy != nil {
			applied[c.deniedBy.ID()] = *c.deniedBy
		}
		if c.Denied != "" || full < 0 || claims.Holders[c.Target.UID] != "" || c.Operation != "" {
			return c.Denied
		}
		rule := limits[full].rule
		applied[rule.ID()] = *rule
		return fmt.Sprintf("%s (%d of %d are disrupted)", limits[full].name, held.budgets[full].allowed-held.left[full], held.budgets[full].allowed)
	})
	if left > 0 {
		s.Denied = fmt.Sprintf("%d are denied by %s", left, names)
	}
	for _, id := range slices.Sorted(maps.Keys(applied)) {
		s.DeniedBy = append(s.DeniedBy, applied[id])
	}
}
