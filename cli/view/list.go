package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// List is a table of disruptions, those that wait for a person first.
type List struct {
	Now time.Time
	// Namespaces adds a column, Wide adds effect, ending and workflow.
	Namespaces, Wide bool
	// NoHeaders leaves the header out of Body.
	NoHeaders bool
}

// Body returns the rows to print of a table that begins with its header.
func (l List) Body(rows [][]Cell) [][]Cell {
	if l.NoHeaders {
		return rows[1:]
	}
	return rows
}

// Rows are the header and a row for each disruption.
func (l List) Rows(disruptions []v1beta1.Disruption) [][]Cell {
	sorted := slices.Clone(disruptions)
	slices.SortStableFunc(sorted, func(a, b v1beta1.Disruption) int {
		return cmp.Or(cmp.Compare(urgency(&a), urgency(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	rows := [][]Cell{l.row("NAMESPACE", "NAME", Cell{"PHASE", Quiet}, []string{"KINDS", "TARGETS", "INJECTION", "EXPIRES", "AGE"}, []string{"EFFECT", "ENDING", "WORKFLOW"}, Quiet)}
	for i := range sorted {
		d := &sorted[i]
		workflow := ""
		if d.Status.Workflow != nil {
			workflow = d.Status.Workflow.ID
		}
		rows = append(rows, l.row(d.Namespace, d.Name, Phase(d),
			[]string{d.Spec.Kinds().String(), d.Status.Targets, string(d.Status.InjectionStatus), l.expires(d), l.ago(d.CreationTimestamp)},
			[]string{reasonOf(d, v1beta1.ConditionEffectVerified), d.Status.Ending, workflow}, Plain))
	}
	return rows
}

func (l List) row(namespace, name string, phase Cell, texts, wide []string, tone Tone) []Cell {
	cells := []Cell{{name, tone}, phase}
	if l.Namespaces {
		cells = append([]Cell{{namespace, tone}}, cells...)
	}
	if l.Wide {
		texts = append(slices.Clone(texts), wide...)
	}
	for _, text := range texts {
		cells = append(cells, Cell{text, tone})
	}
	return cells
}

// urgency sorts disruptions that wait for a person before running ones, and those before
// ended ones.
func urgency(d *v1beta1.Disruption) int {
	switch {
	case Stuck(d):
		return 0
	case Unorchestrated(d) != "":
		return 1
	case d.Status.Phase.Over():
		return 3
	}
	return 2
}

// Stuck is true for a disruption that waits for a person's decision.
func Stuck(d *v1beta1.Disruption) bool {
	return d.Status.IsStuckOnRemoval || d.Status.Phase == v1beta1.PhaseStuck
}

// Phase is the phase of a disruption, in one word.
func Phase(d *v1beta1.Disruption) Cell {
	phase := d.Status.Phase
	switch {
	case Stuck(d):
		if phase != v1beta1.PhaseStuck {
			return Cell{string(phase) + ",Stuck", Bad}
		}
		return Cell{string(phase), Bad}
	case Unorchestrated(d) != "":
		return Cell{cmp.Or(string(phase), "Waiting") + "," + reasonOf(d, v1beta1.ConditionOrchestrated), Careful}
	case phase == v1beta1.PhaseRejected:
		return Cell{string(phase), Bad}
	case d.DeletionTimestamp != nil && !phase.Ending():
		return Cell{"Deleting", Careful}
	case phase == v1beta1.PhaseHolding:
		return Cell{string(phase), Good}
	case phase == v1beta1.PhaseFinished:
		return Cell{string(phase), Quiet}
	}
	return Cell{cmp.Or(string(phase), "New"), Plain}
}

func (l List) expires(d *v1beta1.Disruption) string {
	if d.Status.ExpiryTime == nil || d.Status.Phase.Ending() {
		return ""
	}
	left := d.Status.ExpiryTime.Sub(l.Now)
	if left <= 0 {
		return "now"
	}
	return "in " + duration.HumanDuration(left)
}

func (l List) ago(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(l.Now.Sub(t.Time))
}

// condition is the disruption's condition of that type, nil when it has none.
func condition(d *v1beta1.Disruption, name string) *metav1.Condition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == name {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

func reasonOf(d *v1beta1.Disruption, name string) string {
	if c := condition(d, name); c != nil {
		return c.Reason
	}
	return ""
}

// Unorchestrated is why the disruption is not carried out; empty when it is.
func Unorchestrated(d *v1beta1.Disruption) string {
	if c := condition(d, v1beta1.ConditionOrchestrated); c != nil && c.Status == metav1.ConditionFalse {
		return strings.TrimSpace(c.Reason + ": " + c.Message)
	}
	return ""
}
