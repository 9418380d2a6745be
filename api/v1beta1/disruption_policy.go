package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DisruptionPolicy blocks disruptions in this cluster, regardless of RBAC. Squall
// checks it when it selects targets; running disruptions continue.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=dipol,categories=chaos
// +kubebuilder:printcolumn:name=Rule,type=string,JSONPath=`.spec.rules[0].name`,description="the first rule; squall list policies shows all"
// +kubebuilder:printcolumn:name=Kinds,type=string,JSONPath=`.spec.rules[0].kinds`,description="of the first rule; empty for all"
// +kubebuilder:printcolumn:name=AtMost,type=string,JSONPath=`.spec.rules[0].atMost`,description="targets at once that the first rule allows; empty for none"
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.spec.rules[0].reason`,priority=1
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type DisruptionPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the list of rules.
	Spec DisruptionPolicySpec `json:"spec"`
}

// KindDisruptionPolicy is the kind of a policy.
const KindDisruptionPolicy = "DisruptionPolicy"

// DisruptionPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type DisruptionPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DisruptionPolicy `json:"items"`
}

// DisruptionPolicySpec is the list of rules.
type DisruptionPolicySpec struct {
	// Rules deny disruptions. Any matching rule denies; no rule allows.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Rules []PolicyRule `json:"rules"`
}

// PolicyRule denies a disruption that matches all of its fields. An empty field matches
// everything.
type PolicyRule struct {
	// Name of the rule, shown in every refusal.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Reason is shown in every refusal. At most 500 characters.
	//
	// +kubebuilder:validation:MaxLength=500
	Reason string `json:"reason,omitempty"`
	// Kinds are faults; a disruption matches if it has at least one of them.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=set
	Kinds []PolicyKind `json:"kinds,omitempty"`
	// Level is the level of the disruption.
	Level Level `json:"level,omitempty"`
	// Namespaces are the names of the disruption's namespace that match.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
	// Requesters are the users and groups whose disruptions the rule denies. The rule
	// also denies disruptions without a known requester.
	Requesters *PolicyRequesters `json:"requesters,omitempty"`
	// ExceptRequesters are requesters whose disruptions the rule does not deny. A
	// disruption without a known requester is no exception.
	ExceptRequesters *PolicyRequesters `json:"exceptRequesters,omitempty"`
	// ExceptEnvironments are values of the annotation chaos.squall.dev/environment for
	// which the rule does not deny. A disruption without it is no exception.
	//
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	ExceptEnvironments []string `json:"exceptEnvironments,omitempty"`
	// TargetSelector selects by labels the pods, or at level node the nodes, that the
	// rule protects. Other targets may still be selected.
	TargetSelector *metav1.LabelSelector `json:"targetSelector,omitempty"`
	// Windows are the times that the rule is about: a disruption that would run in one
	// of them, from its injection to its end.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Windows []PolicyWindow `json:"windows,omitempty"`
	// AtMost is how many targets may be disrupted at once, by all disruptions that
	// match the rule. Without it, the rule allows none.
	AtMost *PolicyLimit `json:"atMost,omitempty"`
}

// PolicyKind is a fault: the name of its field in the spec, such as nodeFailure, or the
// value of its label, such as node-failure.
type PolicyKind string

// Is reports whether k names the fault, by its field or by its label value.
func (k PolicyKind) Is(kind Kind) bool { return string(k) == string(kind) || string(k) == kind.Field() }

// PolicyRequesters are people and programs, by what the API server knows of them.
//
// +kubebuilder:validation:MinProperties=1
type PolicyRequesters struct {
	// Users by name, such as system:serviceaccount:argocd:argocd-application-controller.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	Users []string `json:"users,omitempty"`
	// Groups by name. A member of any of them matches.
	//
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	Groups []string `json:"groups,omitempty"`
}

// PolicyWindow is a time that recurs.
type PolicyWindow struct {
	// TimeZone is the name of the zone in which From and To are meant, such as
	// Europe/Berlin. Default UTC.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self == '' || (self != 'Local' && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0)`,message="want the name of a time zone, such as Europe/Berlin",messageExpression=`'"' + self + '": want the name of a time zone, such as Europe/Berlin'`
	TimeZone string `json:"timeZone,omitempty"`
	// Days are those on which the window begins. Empty means every day.
	//
	// +kubebuilder:validation:MaxItems=7
	// +listType=set
	Days []PolicyDay `json:"days,omitempty"`
	// From is when it begins, hour and minute, such as 09:00. Default 00:00.
	//
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	From string `json:"from,omitempty"`
	// To is when it ends. Where it is not after From that is on the next day.
	// Default 00:00.
	//
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	To string `json:"to,omitempty"`
}

// PolicyDay is a day of the week.
//
// +kubebuilder:validation:Enum=Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday
type PolicyDay string

// PolicyLimit is how many targets may be disrupted at once. With both fields the
// smaller number counts.
//
// +kubebuilder:validation:MinProperties=1
type PolicyLimit struct {
	// Targets in the whole cluster. 0 allows none.
	//
	// +kubebuilder:validation:Minimum=0
	Targets *int32 `json:"targets,omitempty"`
	// Percent of the pods, or nodes, that the disruption's own selector selects and
	// that are healthy, rounded down.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 100)",message="want 0 to 100 percent",messageExpression="string(self) + ': want 0 to 100 percent'"
	Percent *PercentNumber `json:"percent,omitempty"`
}
