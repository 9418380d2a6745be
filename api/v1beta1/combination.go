package v1beta1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Combination is a rule about kinds, or their parameters, that cannot be combined with
// each other or with a field of the spec. It has two forms: for Validate and for the API
// server. crdgen writes the second into the CRD, crdtest compares the two.
//
// +kubebuilder:object:generate=false
type Combination struct {
	// Rule is the CEL expression on the spec that is true for a valid spec.
	Rule string
	// Message describes the mistake and the fix.
	Message string
	// FieldPath is the field of the spec that is refused, empty for the spec.
	FieldPath string
	// broken is the contrary of Rule.
	broken func(DisruptionSpec) bool
}

// Combinations are the rules about kinds that follow from the table of kinds.
func Combinations() []Combination {
	alone, podOnly := rowsThat(func(r KindRow) bool { return r.Alone }), rowsThat(func(r KindRow) bool { return r.PodOnly })
	wholePod, late := rowsThat(func(r KindRow) bool { return r.WholePod }), rowsThat(func(r KindRow) bool { return !r.OnInit })
	early := rowsThat(func(r KindRow) bool { return r.OnInit })
	return []Combination{
		{
			Rule:    kindTable.isSet(), // not a list of all: the API server evaluates it at each write, also of status
			Message: "no kind is asked for: set at least one of " + kindTable.fields(),
			broken:  func(s DisruptionSpec) bool { return !kindTable.anyOf(s) },
		},
		{
			Rule:    fmt.Sprintf("!(%s) || %s.exists_one(k, k)", alone.isSet(), kindTable.presence()),
			Message: alone.fields() + " end their targets and stand alone: put every other kind into a disruption of its own",
			broken:  func(s DisruptionSpec) bool { return alone.anyOf(s) && len(s.Requested()) > 1 },
		},
		{
			Rule:      fmt.Sprintf("!has(self.level) || self.level != 'node' || !(%s)", podOnly.isSet()),
			Message:   podOnly.fields() + " act on pods only: set level to pod",
			FieldPath: "level",
			broken:    func(s DisruptionSpec) bool { return s.Level == LevelNode && podOnly.anyOf(s) },
		},
		{
			Rule: fmt.Sprintf("!has(self.containers) || self.containers.size() == 0 || "+
				"!((has(self.level) && self.level == 'node') || %s || (has(self.onInit) && self.onInit))", wholePod.isSet()),
			Message:   "containers cannot be chosen at level node, with " + strings.Join(wholePod.names(), ", ") + " or onInit: remove containers",
			FieldPath: "containers",
			broken: func(s DisruptionSpec) bool {
				return len(s.Containers) > 0 && (s.Level == LevelNode || s.OnInit || wholePod.anyOf(s))
			},
		},
		{
			Rule: fmt.Sprintf("!has(self.onInit) || !self.onInit || "+
				"((!has(self.level) || self.level != 'node') && !(%s))", late.isSet()),
			Message:   "onInit works at level pod with " + early.fields() + " only",
			FieldPath: "onInit",
			broken:    func(s DisruptionSpec) bool { return s.OnInit && (s.Level == LevelNode || late.anyOf(s)) },
		},
		{
			Rule:      fmt.Sprintf("!has(self.pulse) || !(%s)", alone.isSet()),
			Message:   alone.fields() + " cannot pulse: remove pulse",
			FieldPath: "pulse",
			broken:    func(s DisruptionSpec) bool { return s.Pulse != nil && alone.anyOf(s) },
		},
		podResolver, upwards, leastOfNode, pulsesNever,
	}
}

func (s DisruptionSpec) validateCombination(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, c := range Combinations() {
		at := path
		if c.FieldPath != "" {
			at = path.Child(c.FieldPath)
		}
		if c.broken(s) {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, c.Message))
		}
	}
	return errs
}

func rowsThat(are func(KindRow) bool) kindRows {
	return slices.DeleteFunc(slices.Clone(kindTable), func(r KindRow) bool { return !are(r) })
}

// kindRows are some rows of the table of kinds.
type kindRows []KindRow

// anyOf is true when at least one of the kinds is asked for.
func (rows kindRows) anyOf(s DisruptionSpec) bool {
	return slices.ContainsFunc(rows, func(r KindRow) bool { return r.params(s.Faults) != nil })
}

func (rows kindRows) names() []string {
	var names []string
	for _, row := range rows {
		names = append(names, row.Field)
	}
	return names
}

// fields lists the kinds' fields in a sentence: "a, b and c".
func (rows kindRows) fields() string {
	names := rows.names()
	end := len(names) - 1
	if end < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:end], ", ") + " and " + names[end]
}

// isSet is the CEL expression that is true when at least one of the kinds is
// asked for.
func (rows kindRows) isSet() string { return strings.Join(rows.has(), " || ") }

// presence is the CEL list of whether each kind is asked for.
func (rows kindRows) presence() string { return "[" + strings.Join(rows.has(), ", ") + "]" }

func (rows kindRows) has() []string {
	var terms []string
	for _, row := range rows {
		terms = append(terms, "has(self."+row.Field+")")
	}
	return terms
}
