package v1beta1

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	mostScenarioName    = 37
	mostSteps           = 32
	mostStepName        = 51 // approved-by.NAME is the name of an annotation, of at most 63 characters
	mostStepDisruptions = 8
	longestWait         = 24 * time.Hour
	mostWholeSeconds    = 3600
)

// stepName is what the name of a step may be.
var stepName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// Default fills in what the CRD's schema fills in when an object is created, and
// nothing else. Calling it again changes nothing.
func (s *DisruptionScenario) Default() {
	for i := range s.Spec.Steps {
		for j := range s.Spec.Steps[i].Disruptions {
			s.Spec.Steps[i].Disruptions[j].Template.setDefaults()
		}
	}
}

// Validate returns everything that is wrong with the scenario. The CRD's schema holds the
// rules on steps. Of the rules on templates it holds those that need no CEL: decision
// 0009.
func (s *DisruptionScenario) Validate() field.ErrorList {
	var errs field.ErrorList
	if len(s.Name) > mostScenarioName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), s.Name,
			fmt.Sprintf("metadata.name is part of the name of every disruption, disruption-scenario-NAME-S-D: use at most %d characters, not %d", mostScenarioName, len(s.Name))))
	}
	spec := field.NewPath("spec")
	path := spec.Child("steps")
	errs = append(errs, items(path, len(s.Spec.Steps), 1, mostSteps)...)
	seen := map[string]bool{}
	for i, step := range s.Spec.Steps {
		if seen[step.Name] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("name"), step.Name))
		}
		seen[step.Name] = true
		errs = append(errs, step.validate(path.Index(i))...)
		errs = append(errs, step.When.validate(path.Index(i).Child("when"), s.Spec.Steps[:i])...)
	}
	errs = append(errs, s.Spec.SteadyState.validateWhole(spec.Child("steadyState"))...)
	return append(errs, s.Spec.Reporting.validate(spec.Child("reporting"))...)
}

// validateWhole judges the steady state of a whole scenario. It has no targets of its
// own, and its workflow records every answer of the probes before and after.
func (s *SteadyState) validateWhole(path *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	errs := s.validate(path, LevelPod)
	for i, probe := range s.Probes {
		if probe.perTarget() {
			errs = append(errs, field.Invalid(path.Child("probes").Index(i).Child("scope"), probe.Scope,
				"the scenario as a whole has no targets: use scope Once, or give the probe to a template"))
		}
	}
	if s.ControlGroup != nil {
		errs = append(errs, field.Invalid(path.Child("controlGroup"), s.ControlGroup.String(), "the scenario as a whole has no targets: remove it, or give it to a template"))
	}
	for _, bound := range []struct {
		name    string
		seconds int32
	}{{"gateTimeoutSeconds", s.GateTimeoutSeconds}, {"recoveryTimeoutSeconds", s.RecoveryTimeoutSeconds}} {
		if bound.seconds > mostWholeSeconds {
			errs = append(errs, field.Invalid(path.Child(bound.name), bound.seconds, fmt.Sprintf("at most %d for a scenario", mostWholeSeconds)))
		}
	}
	return errs
}

func (s ScenarioStep) validate(path *field.Path) field.ErrorList {
	errs := length(path.Child("name"), s.Name, 1, mostStepName)
	errs = append(errs, pattern(path.Child("name"), s.Name, stepName, "want small letters, digits and dashes, such as slow-network")...)
	is := 0
	for _, given := range []bool{s.Disruptions != nil, s.Wait != nil, s.Approval != nil} {
		if given {
			is++
		}
	}
	if is != 1 {
		errs = append(errs, field.Invalid(path, s.Name, "want exactly one of disruptions, wait and approval"))
	}
	errs = append(errs, oneOf(path.Child("onFailure"), string(s.OnFailure), "", string(OnFailureStop), string(OnFailureContinue))...)
	if s.OnFailure != "" && s.Disruptions == nil {
		errs = append(errs, field.Invalid(path.Child("onFailure"), s.OnFailure, "only disruptions have a verdict: remove it"))
	}
	if s.Wait != nil && (s.Wait.Duration < time.Second || s.Wait.Duration > longestWait) {
		errs = append(errs, field.Invalid(path.Child("wait"), s.Wait.String(), "want a duration of 1s to 24h"))
	}
	if s.Approval != nil {
		errs = append(errs, length(path.Child("approval", "message"), s.Approval.Message, 1, 1024)...)
	}
	if s.Disruptions != nil {
		errs = append(errs, items(path.Child("disruptions"), len(s.Disruptions), 1, mostStepDisruptions)...)
	}
	for i, d := range s.Disruptions {
		errs = append(errs, d.validate(path.Child("disruptions").Index(i).Child("template"))...)
	}
	return append(errs, s.validateOverlap(path.Child("disruptions"))...)
}

// validate judges a condition by the steps before it.
func (c *ScenarioCondition) validate(path *field.Path, before []ScenarioStep) field.ErrorList {
	if c == nil {
		return nil
	}
	errs := items(path.Child("verdict"), len(c.Verdict), 1, 4)
	for i, verdict := range c.Verdict {
		errs = append(errs, oneOf(path.Child("verdict").Index(i), string(verdict),
			string(VerdictPassed), string(VerdictInconclusive), string(VerdictFailed), string(VerdictAborted))...)
		if slices.Contains(c.Verdict[:i], verdict) {
			errs = append(errs, field.Duplicate(path.Child("verdict").Index(i), verdict))
		}
	}
	at := slices.IndexFunc(before, func(s ScenarioStep) bool { return s.Name == c.Step && s.Disruptions != nil })
	switch {
	case at < 0:
		errs = append(errs, field.Invalid(path.Child("step"), c.Step, "when names no step of disruptions that comes before"))
	case !slices.Contains(c.Verdict, VerdictPassed) && before[at].OnFailure != OnFailureContinue:
		errs = append(errs, field.Invalid(path, c.Step,
			"this step is never done: the one it depends on ends the scenario unless it is Passed; give that one onFailure: Continue"))
	}
	return errs
}

// validate judges the spec of a future Disruption, whose begin is not known.
func (d ScenarioDisruption) validate(path *field.Path) field.ErrorList {
	s := d.Template
	var errs field.ErrorList
	if len(s.Selector) == 0 && len(s.AdvancedSelector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"),
			"selector and advancedSelector are both empty: name the labels of the targets"))
	}
	if s.Triggers != nil && (!s.Triggers.Inject.NotBefore.IsZero() || !s.Triggers.CreatePods.NotBefore.IsZero()) {
		errs = append(errs, field.Invalid(path.Child("triggers"), field.OmitValueType{},
			"notBefore is a fixed time, and the step may begin later: use offset"))
	}
	errs = append(errs, s.validate(path)...)
	errs = append(errs, (&Disruption{Spec: s}).validateExpiry(path)...)
	return append(errs, s.validateSize(path)...)
}
