package targets

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// rulesFor returns the rules of one policy that concern a disruption of pods by CPU
// pressure in the namespace shop.
func rulesFor(t *testing.T, rules ...v1beta1.PolicyRule) []policy.Rule {
	t.Helper()
	d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v1beta1.DisruptionSpec{
		Level: v1beta1.LevelPod, Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}},
	}}
	p := &v1beta1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1beta1.DisruptionPolicySpec{Rules: rules}}
	found := policy.Rules([]*v1beta1.DisruptionPolicy{p}, d, time.Now())
	if len(found) != len(rules) {
		t.Fatalf("%d of %d rules are about the disruption", len(found), len(rules))
	}
	return found
}

func atMost(n int32) *v1beta1.PolicyLimit { return &v1beta1.PolicyLimit{Targets: &n} }

func tier(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": value}}
}

// pod is a candidate, and claimed a target that a disruption holds.
func pod(uid, tier string) Candidate {
	return Candidate{Target: v1beta1.InjectionTarget{Namespace: "shop", UID: types.UID(uid)}, Labels: map[string]string{"tier": tier}}
}

func claimed(uid string, limits ...string) Target {
	return Target{InjectionTarget: v1beta1.InjectionTarget{Namespace: "shop", UID: types.UID(uid)}, Limits: limits}
}

// claim is a shard of another disruption.
func claim(namespace, kinds string, targets ...Target) Shard {
	return Shard{Targets: targets, object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{v1beta1.LabelDisruptionNamespace: namespace}, Annotations: map[string]string{annotationKinds: kinds},
	}}}
}

// Which of a, b and c a rule with a limit allows beside the disrupted ones; a and b are
// databases.
func TestRoomOfRules(t *testing.T) {
	node := Target{InjectionTarget: v1beta1.InjectionTarget{UID: "n"}}
	ended := claimed("x")
	ended.Ended = "gone"
	broken := claim("shop", "cpu-pressure")
	broken.broken = fmt.Errorf("no JSON")
	elsewhere := claim("cart", "cpu-pressure")
	elsewhere.broken = broken.broken
	half := v1beta1.PercentNumber(50)
	for _, test := range []struct {
		name   string
		rule   v1beta1.PolicyRule
		own    []Target
		others []Shard
		want   []types.UID
	}{
		{"two of three", v1beta1.PolicyRule{AtMost: atMost(2)}, nil, nil, []types.UID{"a", "b"}},
		{"none", v1beta1.PolicyRule{AtMost: atMost(0)}, nil, nil, nil},
		{"a half, rounded down", v1beta1.PolicyRule{AtMost: &v1beta1.PolicyLimit{Percent: &half}}, nil, nil, []types.UID{"a"}},
		{"databases only", v1beta1.PolicyRule{AtMost: atMost(1), TargetSelector: tier("db")}, nil, nil, []types.UID{"a", "c"}},
		{"less what another one holds", v1beta1.PolicyRule{AtMost: atMost(2)}, nil, []Shard{claim("shop", "cpu-pressure", claimed("x"))}, []types.UID{"a"}},
		{"more is held than it allows", v1beta1.PolicyRule{AtMost: atMost(1)}, nil, []Shard{claim("shop", "cpu-pressure", claimed("x"), claimed("y"))}, nil},
		{"what has ended costs nothing", v1beta1.PolicyRule{AtMost: atMost(1)}, nil, []Shard{claim("shop", "cpu-pressure", ended)}, []types.UID{"a"}},
		{"in the whole cluster", v1beta1.PolicyRule{AtMost: atMost(1)}, nil, []Shard{claim("cart", "dns-disruption", claimed("x"))}, nil},
		{"kinds that it is not about cost nothing", v1beta1.PolicyRule{AtMost: atMost(1), Kinds: []v1beta1.PolicyKind{"cpu-pressure"}}, nil,
			[]Shard{claim("shop", "dns-disruption", claimed("x"))}, []types.UID{"a"}},
		{"nor do namespaces", v1beta1.PolicyRule{AtMost: atMost(1), Namespaces: []string{"shop"}}, nil, []Shard{claim("cart", "cpu-pressure", claimed("x"))}, []types.UID{"a"}},
		{"nor does the other level", v1beta1.PolicyRule{AtMost: atMost(1), Level: v1beta1.LevelPod}, nil, []Shard{claim("shop", "cpu-pressure", node)}, []types.UID{"a"}},
		{"nor targets of which nobody noted that it counts them", v1beta1.PolicyRule{AtMost: atMost(1), TargetSelector: tier("db")}, nil,
			[]Shard{claim("shop", "cpu-pressure", claimed("x"))}, []types.UID{"a", "c"}},
		{"one that was noted", v1beta1.PolicyRule{AtMost: atMost(1), TargetSelector: tier("db")}, nil,
			[]Shard{claim("shop", "cpu-pressure", claimed("x", "p/r"))}, []types.UID{"c"}},
		{"one whose labels are seen now", v1beta1.PolicyRule{AtMost: atMost(1), TargetSelector: tier("db")}, nil,
			[]Shard{claim("shop", "cpu-pressure", claimed("b"))}, []types.UID{"b", "c"}},
		{"a kind that it is not about holds a candidate", v1beta1.PolicyRule{AtMost: atMost(1), Kinds: []v1beta1.PolicyKind{"cpu-pressure"}}, nil,
			[]Shard{claim("shop", "dns-disruption", claimed("a"))}, []types.UID{"a"}},
		{"own targets that are healthy no more", v1beta1.PolicyRule{AtMost: atMost(2)}, []Target{claimed("o")}, nil, []types.UID{"a"}},
		{"a record that cannot be read", v1beta1.PolicyRule{AtMost: atMost(3)}, nil, []Shard{broken}, nil},
		{"one of a namespace that it is not about", v1beta1.PolicyRule{AtMost: atMost(2), Namespaces: []string{"shop"}}, nil, []Shard{elsewhere}, []types.UID{"a", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.rule.Name = "r"
			healthy := []Candidate{pod("a", "db"), pod("b", "db"), pod("c", "web")}
			limits := Deny(rulesFor(t, test.rule), healthy)
			claims := Claims{Own: []Shard{{Targets: test.own}}, others: test.others}
			left := limits.at(claims).beside(claims)
			var got []types.UID
			for _, c := range healthy {
				if c.Denied == "" && left.take(c.Target.UID) {
					got = append(got, c.Target.UID)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("taken (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeniedTargetsAreNotChosen(t *testing.T) {
	healthy := []Candidate{pod("a", "db"), pod("b", "web"), pod("c", "web")}
	limits := Deny(rulesFor(t, v1beta1.PolicyRule{Name: "no-db", TargetSelector: tier("db")}, v1beta1.PolicyRule{Name: "one", AtMost: atMost(1)}), healthy)
	every := intstr.FromString("100%")
	next, _ := nextClaims(v1beta1.DisruptionSpec{Count: &every}, healthy, nil, nil, map[types.UID]bool{}, Holders{}, Budgets(nil).without(nil))
	chosen := uidsOf(next)
	slices.Sort(chosen)
	if diff := cmp.Diff([]types.UID{"b", "c"}, chosen); diff != "" {
		t.Errorf("chosen of all that no rule denies (-want +got):\n%s", diff)
	}
	claims := Claims{Own: []Shard{{Targets: []Target{claimed("b")}}}}
	selection := Selection{Desired: 3, Matching: 3, Selected: 1}
	selection.NoteDenied(healthy, limits, claims)
	want := `1 of 3 matching targets; 2 are denied by rule "no-db" of DisruptionPolicy "p", rule "one" of DisruptionPolicy "p" (at most 1 targets at once) (1 of 1 are disrupted)`
	if got := selection.String(); got != want {
		t.Errorf("the selection says\n%s\nwant\n%s", got, want)
	}
}

// Disruptions that begin in the same moment take no more together than a rule allows.
func TestDisruptionsTogetherKeepARule(t *testing.T) {
	c := newCluster(t)
	c.targets(9, nil)
	const together, allowed = 4, 5
	held := c.together(together, func(d *v1beta1.Disruption) error {
		healthy, err := c.Healthy(t.Context(), d)
		if err == nil {
			limits := Deny(rulesFor(t, v1beta1.PolicyRule{Name: "five", AtMost: atMost(allowed)}), healthy)
			_, err = c.Claim(t.Context(), d, Choice{}, healthy, limits)
		}
		return err
	})
	if held > allowed || held == 0 {
		t.Errorf("%d disruptions that want two each hold %d pods, of %d that the rule allows", together, held, allowed)
	}
}
