// Package policy judges a disruption by the DisruptionPolicies of the cluster: which
// rules concern it at a time, which targets they deny, and how many they allow at once.
// It decides from plain values; only Watch reads a cluster. It denies what it cannot
// understand.
package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/window"
)

// Rule is a rule that concerns a disruption.
type Rule struct {
	v1beta1.PolicyRule
	// Policy is the name of the rule's policy, and PolicyUID the UID.
	Policy    string
	PolicyUID types.UID
	// targets selects the targets that the rule is about; nil means all.
	targets labels.Selector
	// unknown is true for a rule about requesters if the requester is unknown.
	unknown bool
	// text names a rule that is in no policy.
	text string
}

// NotOptedIn is the rule for a namespace whose owners have not opted in, where that is
// required: it denies everything.
func NotOptedIn(namespace string) Rule {
	return Rule{text: fmt.Sprintf("the namespace opt-in: namespace %s has no label %s=%s; to allow disruptions: kubectl label namespace %[1]s %[2]s=%[3]s",
		namespace, v1beta1.LabelDisruptions, v1beta1.DisruptionsAllowed)}
}

// Rules returns the rules that concern a disruption which runs or is created now, from
// its injection to its end, as far as that is known without its targets. The policies
// are in order, and so are the rules.
func Rules(policies []*v1beta1.DisruptionPolicy, d *v1beta1.Disruption, now time.Time) []Rule {
	created := d.CreationTimestamp.Time
	if created.IsZero() {
		created = now
	}
	from, until := d.Spec.TimeToInject(created), d.Spec.Expiry(created)
	if from.Before(now) {
		from = now
	}
	var rules []Rule
	who := v1beta1.RequesterOf(d)
	for _, p := range policies {
		for _, rule := range p.Spec.Rules {
			r := Rule{PolicyRule: rule, Policy: p.Name, PolicyUID: p.UID, unknown: who.User == "" && (rule.Requesters != nil || rule.ExceptRequesters != nil)}
			if !r.Concerns(d.Spec.Kinds(), d.Namespace, d.Spec.Level) || !r.concernsRequester(who) ||
				slices.Contains(r.ExceptEnvironments, d.Annotations[v1beta1.AnnotationEnvironment]) || !window.Touch(rule.Windows, from, until) {
				continue
			}
			if rule.TargetSelector != nil {
				selector, err := metav1.LabelSelectorAsSelector(rule.TargetSelector)
				if err != nil {
					selector = labels.Everything()
				}
				r.targets = selector
			}
			rules = append(rules, r)
		}
	}
	return rules
}

// Refusing returns the first rule that denies the disruption every target, whatever its
// targets are; nil if there is none.
func Refusing(rules []Rule) *Rule {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.AtMost == nil && r.targets == nil })
	if i < 0 {
		return nil
	}
	return &rules[i]
}

// Refusal names the rule that Refusing returns; empty if there is none.
func Refusal(rules []Rule) string {
	if r := Refusing(rules); r != nil {
		return r.Refusal()
	}
	return ""
}

// Refusal is the text for a disruption that the rule denies every target.
func (r Rule) Refusal() string { return "it is denied by " + r.String() }

// Concerns reports whether the rule is about disruptions of these kinds, in that
// namespace and of that level.
func (r Rule) Concerns(kinds v1beta1.Kinds, namespace string, level v1beta1.Level) bool {
	return (len(r.Kinds) == 0 || slices.ContainsFunc(kinds, func(k v1beta1.Kind) bool {
		return slices.ContainsFunc(r.Kinds, func(named v1beta1.PolicyKind) bool { return named.Is(k) })
	})) &&
		(r.Level == "" || r.Level == level) &&
		(len(r.Namespaces) == 0 || slices.Contains(r.Namespaces, namespace))
}

// concernsRequester reports whether the rule is about disruptions of this requester. A
// rule that names requesters is about every disruption with an unknown one.
func (r Rule) concernsRequester(who v1beta1.Requester) bool {
	return who.User == "" ||
		(r.Requesters == nil || who.Among(r.Requesters)) && (r.ExceptRequesters == nil || !who.Among(r.ExceptRequesters))
}

// About reports whether the rule is about a target with these labels.
func (r Rule) About(target map[string]string) bool {
	return r.targets == nil || r.targets.Matches(labels.Set(target))
}

// Selective is true for a rule that is about some targets only.
func (r Rule) Selective() bool { return r.targets != nil }

// Most is how many of the healthy targets that the rule is about may be disrupted at
// once.
func (r Rule) Most(healthy int) int {
	most := math.MaxInt32
	if r.AtMost == nil {
		return 0
	}
	if r.AtMost.Targets != nil {
		most = int(*r.AtMost.Targets)
	}
	if r.AtMost.Percent != nil {
		most = min(most, healthy*int(*r.AtMost.Percent)/100)
	}
	return most
}

// ID names the rule in the records of the targets that count for it.
func (r Rule) ID() string { return r.Policy + "/" + r.Name }

// String names the rule and its reason.
func (r Rule) String() string {
	if r.text != "" {
		return r.text
	}
	text := fmt.Sprintf("rule %q of DisruptionPolicy %q", r.Name, r.Policy)
	if r.AtMost != nil {
		text += " (" + r.limit() + ")"
	}
	if r.unknown {
		text += " (its requester is unknown: docs/requesters.md)"
	}
	if len(r.ExceptEnvironments) > 0 {
		text += fmt.Sprintf(" (its annotation %s is none of: %s)", v1beta1.AnnotationEnvironment, strings.Join(r.ExceptEnvironments, ", "))
	}
	if reason := strings.Join(strings.Fields(r.Reason), " "); reason != "" {
		text += ": " + reason
	}
	return text
}

// limit describes the limit of a rule, as text.
func (r Rule) limit() string {
	var most []string
	if r.AtMost.Targets != nil {
		most = append(most, fmt.Sprintf("%d targets", *r.AtMost.Targets))
	}
	if r.AtMost.Percent != nil {
		most = append(most, fmt.Sprintf("%d %% of those selected", *r.AtMost.Percent))
	}
	return "at most " + strings.Join(most, " and ") + " at once"
}
