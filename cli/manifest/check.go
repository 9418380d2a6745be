package manifest

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/squall-chaos/squall/api/promql"
	"github.com/squall-chaos/squall/api/schedule"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Rules are the facts beside the document that validation depends on.
type Rules struct {
	// Now replaces the moment of creation, by which triggers are judged.
	Now time.Time
	// ChaosNamespace is the namespace of chaos pods, where no disruption may be.
	ChaosNamespace string
}

// Check adds to each document the problems that its reader does not find: by the rules of
// admission and of the workflow. A disruption without problems gets its defaults.
func Check(documents []Document, rules Rules) {
	for i := range documents {
		d := &documents[i]
		switch {
		case d.Disruption != nil:
			d.Problems = append(d.Problems, rules.disruption(d.Disruption)...)
		case d.DisruptionCron != nil:
			d.Problems = append(d.Problems, rules.cron(d.DisruptionCron)...)
		case d.DisruptionRollout != nil:
			d.DisruptionRollout.Default()
			d.Problems = append(d.Problems, sentences(slices.Concat(rules.placed(d.DisruptionRollout.ObjectMeta), d.DisruptionRollout.Validate(),
				queries(d.DisruptionRollout.Spec.DisruptionTemplate.SteadyState, field.NewPath("spec", "disruptionTemplate"))))...)
		case d.DisruptionScenario != nil:
			d.DisruptionScenario.Default()
			d.Problems = append(d.Problems, sentences(slices.Concat(rules.placed(d.DisruptionScenario.ObjectMeta), d.DisruptionScenario.Validate(),
				scenarioQueries(d.DisruptionScenario.Spec)))...)
		case d.EmergencyStop != nil:
			d.Problems = append(d.Problems, rules.emergencyStop(d.EmergencyStop)...)
		case d.Policy != nil: // the API server checks the rest
			d.Problems = append(d.Problems, sentences(named(d.Policy.ObjectMeta))...)
		}
	}
}

func (r Rules) disruption(d *v1beta1.Disruption) []string {
	d.Default()
	created := d.DeepCopy()
	if created.CreationTimestamp.IsZero() {
		created.CreationTimestamp = metav1.NewTime(r.Now)
	}
	return sentences(slices.Concat(r.placed(d.ObjectMeta), created.Validate(), queries(d.Spec.SteadyState, field.NewPath("spec"))))
}

// queries judges the queries of prometheus probes, which the API server does not parse.
// path is the one of the spec that has the steady state.
func queries(s *v1beta1.SteadyState, path *field.Path) (errs field.ErrorList) {
	if s == nil {
		return nil
	}
	for i, probe := range s.Probes {
		if probe.Prometheus == nil || probe.Prometheus.Query == "" {
			continue
		}
		if err := promql.Check(probe.Prometheus.Query); err != nil {
			at := path.Child("steadyState", "probes").Index(i).Child("prometheus", "query")
			errs = append(errs, field.Invalid(at, probe.Prometheus.Query, err.Error()))
		}
	}
	return errs
}

// scenarioQueries judges those of a scenario and of its templates.
func scenarioQueries(s v1beta1.DisruptionScenarioSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := queries(s.SteadyState, path)
	for i, step := range s.Steps {
		for j, d := range step.Disruptions {
			errs = append(errs, queries(d.Template.SteadyState, path.Child("steps").Index(i).Child("disruptions").Index(j).Child("template"))...)
		}
	}
	return errs
}

// cron adds the problems of the schedule to those of its form. A run may begin a minute
// after the last unless an operator wants more.
func (r Rules) cron(c *v1beta1.DisruptionCron) []string {
	c.Default()
	errs := slices.Concat(r.placed(c.ObjectMeta), c.Validate(), queries(c.Spec.DisruptionTemplate.SteadyState, field.NewPath("spec", "disruptionTemplate")))
	if c.Spec.Schedule != "" {
		if err := schedule.Judge(c.Spec, r.Now, schedule.LeastPause); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "schedule"), field.OmitValueType{}, err.Error()))
		}
	}
	return sentences(errs)
}

// placed judges name and namespace.
func (r Rules) placed(meta metav1.ObjectMeta) field.ErrorList {
	errs := named(meta)
	if meta.Namespace == "" {
		return errs
	}
	at := field.NewPath("metadata", "namespace")
	for _, why := range validation.IsDNS1123Label(meta.Namespace) {
		errs = append(errs, field.Invalid(at, meta.Namespace, why))
	}
	if meta.Namespace == r.ChaosNamespace {
		errs = append(errs, field.Invalid(at, meta.Namespace,
			"it is the namespace of the chaos pods, which are never in that of a target: name the namespace of the targets"))
	}
	return errs
}

func (r Rules) emergencyStop(s *v1beta1.EmergencyStop) []string {
	errs := named(s.ObjectMeta)
	if n := utf8.RuneCountInString(s.Spec.Reason); n > 500 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "reason"), fmt.Sprintf("%d characters", n), "want at most 500 characters"))
	}
	return sentences(errs)
}

func named(meta metav1.ObjectMeta) field.ErrorList {
	at := field.NewPath("metadata", "name")
	if meta.Name == "" && meta.GenerateName == "" {
		return field.ErrorList{field.Required(at, "want a name, such as lossy-network")}
	}
	var errs field.ErrorList
	for _, why := range validation.IsDNS1123Subdomain(meta.Name) {
		if meta.Name != "" {
			errs = append(errs, field.Invalid(at, meta.Name, why))
		}
	}
	return errs
}

// sentences are the errors, each once. Where a field takes only some values, the sentence
// suggests the nearest one.
func sentences(errs field.ErrorList) []string {
	var texts []string
	for _, err := range errs {
		text := err.Error()
		if err.Type == field.ErrorTypeNotSupported {
			text += didYouMean(fmt.Sprint(err.BadValue), quoted(err.Detail))
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// quoted returns the parts of text between quotes.
func quoted(text string) []string {
	var parts []string
	start := -1
	for i, r := range text {
		switch {
		case r != '"':
		case start < 0:
			start = i + 1
		default:
			parts = append(parts, text[start:i])
			start = -1
		}
	}
	return parts
}
