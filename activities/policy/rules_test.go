package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// monday is a moment at which it is half past ten in Berlin.
var monday = time.Date(2026, 11, 23, 9, 30, 0, 0, time.UTC)

func disruption() *v1beta1.Disruption {
	return &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "slow", CreationTimestamp: metav1.NewTime(monday)},
		Spec: v1beta1.DisruptionSpec{
			Level: v1beta1.LevelPod, Duration: &v1beta1.Duration{Duration: time.Hour},
			Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}, DiskPressure: &v1beta1.DiskPressure{}},
		},
	}
}

func policies(rules ...v1beta1.PolicyRule) []*v1beta1.DisruptionPolicy {
	return []*v1beta1.DisruptionPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1beta1.DisruptionPolicySpec{Rules: rules}}}
}

func ptr(n int32) *int32 { return &n }

func TestRules(t *testing.T) {
	night := []v1beta1.PolicyWindow{{From: "22:00", To: "06:00"}}
	for _, test := range []struct {
		name  string
		rule  v1beta1.PolicyRule
		about bool
	}{
		{"nothing said: everything", v1beta1.PolicyRule{}, true},
		{"one of its kinds", v1beta1.PolicyRule{Kinds: []v1beta1.PolicyKind{"node-failure", "disk-pressure"}}, true},
		{"one of its faults, by field", v1beta1.PolicyRule{Kinds: []v1beta1.PolicyKind{"nodeFailure", "diskPressure"}}, true},
		{"another fault, by field", v1beta1.PolicyRule{Kinds: []v1beta1.PolicyKind{"nodeFailure"}}, false},
		{"another kind", v1beta1.PolicyRule{Kinds: []v1beta1.PolicyKind{"node-failure"}}, false},
		{"its level", v1beta1.PolicyRule{Level: v1beta1.LevelPod}, true},
		{"the other level", v1beta1.PolicyRule{Level: v1beta1.LevelNode}, false},
		{"its namespace", v1beta1.PolicyRule{Namespaces: []string{"cart", "shop"}}, true},
		{"another namespace", v1beta1.PolicyRule{Namespaces: []string{"cart"}}, false},
		{"its kind in another namespace", v1beta1.PolicyRule{Kinds: []v1beta1.PolicyKind{"cpu-pressure"}, Namespaces: []string{"cart"}}, false},
		{"another time", v1beta1.PolicyRule{Windows: night}, false},
		{"one of two times", v1beta1.PolicyRule{Windows: append(night, v1beta1.PolicyWindow{From: "09:00", To: "10:00"})}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.rule.Name = "r"
			rules := Rules(policies(test.rule), disruption(), monday)
			if about := len(rules) == 1; about != test.about {
				t.Errorf("the rule is about it: %t, want %t", about, test.about)
			}
			if refused := Refusal(rules) != ""; refused != test.about {
				t.Errorf("refused = %t, want %t", refused, test.about)
			}
		})
	}
}

// A disruption is judged from its injection on, as long as it lasts.
func TestRulesAreAboutTheTimeOfInjection(t *testing.T) {
	later := disruption()
	later.Spec.Triggers = &v1beta1.DisruptionTriggers{Inject: v1beta1.DisruptionTrigger{NotBefore: metav1.NewTime(monday.Add(3 * time.Hour))}}
	noon := policies(v1beta1.PolicyRule{Name: "noon", Windows: []v1beta1.PolicyWindow{{From: "12:00", To: "14:00"}}})
	if Refusal(Rules(noon, disruption(), monday)) != "" {
		t.Error("one that is over before the window is refused")
	}
	if Refusal(Rules(noon, later, monday)) == "" {
		t.Error("one that injects in the window is not refused")
	}
	if Refusal(Rules(noon, later, monday.Add(5*time.Hour))) != "" {
		t.Error("the window is over and the rule is still about it")
	}
	unborn := disruption()
	unborn.CreationTimestamp = metav1.Time{}
	if Refusal(Rules(noon, unborn, monday.Add(2*time.Hour))) == "" {
		t.Error("one that would be created now is not refused")
	}
}

// rule D5: by the name and the groups of the requester. A rule that names requesters is
// about every disruption with an unknown one.
func TestRulesAboutRequesters(t *testing.T) {
	ann := v1beta1.Requester{User: "ann", Groups: []string{"shop", "system:authenticated"}}
	by := func(users, groups string) *v1beta1.PolicyRequesters {
		return &v1beta1.PolicyRequesters{Users: strings.Fields(users), Groups: strings.Fields(groups)}
	}
	for name, test := range map[string]struct {
		rule              v1beta1.PolicyRule
		ann, bob, unknown bool
	}{
		"everybody":                   {v1beta1.PolicyRule{}, true, true, true},
		"a user":                      {v1beta1.PolicyRule{Requesters: by("ann carl", "")}, true, false, true},
		"a group":                     {v1beta1.PolicyRule{Requesters: by("", "ops shop")}, true, false, true},
		"a user or a group":           {v1beta1.PolicyRule{Requesters: by("bob", "shop")}, true, true, true},
		"others":                      {v1beta1.PolicyRule{Requesters: by("shop", "ann")}, false, false, true},
		"all but a user":              {v1beta1.PolicyRule{ExceptRequesters: by("ann", "")}, false, true, true},
		"all but a group":             {v1beta1.PolicyRule{ExceptRequesters: by("", "shop")}, false, true, true},
		"a group without one of them": {v1beta1.PolicyRule{Requesters: by("bob", "shop"), ExceptRequesters: by("ann", "")}, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				who  v1beta1.Requester
				want bool
			}{{ann, test.ann}, {v1beta1.Requester{User: "bob"}, test.bob}, {v1beta1.Requester{}, test.unknown}} {
				d := disruption()
				d.Annotations = c.who.Annotations()
				if got := Refusal(Rules(policies(test.rule), d, monday)); (got != "") != c.want {
					t.Errorf("of %q: refusal %q, want one: %t", c.who.User, got, c.want)
				} else if named := name != "everybody"; strings.Contains(got, "its requester is unknown") != (named && c.who.User == "") {
					t.Errorf("of %q: refusal %q, want it to say whether that is known", c.who.User, got)
				}
			}
		})
	}
}

// rule D6: a rule about environments is about disruptions without an environment.
func TestRulesAboutEnvironments(t *testing.T) {
	rule := v1beta1.PolicyRule{Name: "ours", ExceptEnvironments: []string{"test", "staging"}, Reason: "see the wiki"}
	for environment, refused := range map[string]bool{"": true, "prod": true, "test,staging": true, "staging": false, "test": false} {
		d := disruption()
		if environment != "" {
			d.Annotations = map[string]string{v1beta1.AnnotationEnvironment: environment}
		}
		want := ""
		if refused {
			want = `it is denied by rule "ours" of DisruptionPolicy "prod" (its annotation chaos.squall.dev/environment is none of: test, staging): see the wiki`
		}
		if got := Refusal(Rules(policies(rule), d, monday)); got != want {
			t.Errorf("meant for %q: %q, want %q", environment, got, want)
		}
	}
}

func TestRefusalNamesTheRule(t *testing.T) {
	rules := Rules(policies(
		v1beta1.PolicyRule{Name: "few", AtMost: &v1beta1.PolicyLimit{Targets: ptr(0)}},
		v1beta1.PolicyRule{Name: "some", TargetSelector: &metav1.LabelSelector{}},
		v1beta1.PolicyRule{Name: "none", Reason: "sale week,\n see the calendar"},
	), disruption(), monday)
	if got, want := Refusal(rules), `it is denied by rule "none" of DisruptionPolicy "prod": sale week, see the calendar`; got != want {
		t.Errorf("Refusal() = %q, want %q", got, want)
	}
	if got := Refusal(rules[:2]); got != "" {
		t.Errorf("Refusal() = %q for rules that depend on targets, want none", got)
	}
}

func TestRulesAboutSomeTargets(t *testing.T) {
	rules := Rules(policies(
		v1beta1.PolicyRule{Name: "tier", TargetSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "db"}}},
		v1beta1.PolicyRule{Name: "broken", TargetSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}}}},
		v1beta1.PolicyRule{Name: "all"},
	), disruption(), monday)
	var got []string
	for _, rule := range rules {
		for _, tier := range []string{"db", "web"} {
			if rule.About(map[string]string{"tier": tier}) {
				got = append(got, rule.Name+" "+tier)
			}
		}
	}
	if diff := cmp.Diff([]string{"tier db", "broken db", "broken web", "all db", "all web"}, got); diff != "" {
		t.Errorf("about (-want +got):\n%s", diff)
	}
}

func TestMost(t *testing.T) {
	for _, test := range []struct {
		limit   *v1beta1.PolicyLimit
		healthy int
		most    int
		text    string
	}{
		{nil, 10, 0, ""},
		{&v1beta1.PolicyLimit{Targets: ptr(3)}, 10, 3, "at most 3 targets at once"},
		{&v1beta1.PolicyLimit{Percent: new(v1beta1.PercentNumber(50))}, 5, 2, "at most 50 % of those selected at once"},
		{&v1beta1.PolicyLimit{Percent: new(v1beta1.PercentNumber(20))}, 4, 0, "at most 20 % of those selected at once"},
		{&v1beta1.PolicyLimit{Targets: ptr(3), Percent: new(v1beta1.PercentNumber(50))}, 100, 3, "at most 3 targets and 50 % of those selected at once"},
		{&v1beta1.PolicyLimit{Targets: ptr(30), Percent: new(v1beta1.PercentNumber(10))}, 100, 10, "at most 30 targets and 10 % of those selected at once"},
		{&v1beta1.PolicyLimit{Targets: ptr(0)}, 100, 0, "at most 0 targets at once"},
	} {
		r := Rule{PolicyRule: v1beta1.PolicyRule{AtMost: test.limit}}
		if got := r.Most(test.healthy); got != test.most || !strings.Contains(r.String(), test.text) {
			t.Errorf("%+v of %d: %d, %q, want %d and %q", test.limit, test.healthy, got, r, test.most, test.text)
		}
	}
}
