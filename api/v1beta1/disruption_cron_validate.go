package v1beta1

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// DefaultStartTolerance is the default of a DisruptionCron's delayedStartTolerance.
	DefaultStartTolerance = 5 * time.Minute
	mostCronName          = 47
	mostJitter            = time.Hour
)

// Default fills in what the CRD's schema fills in when an object is created, and
// nothing else. Calling it again changes nothing.
func (c *DisruptionCron) Default() {
	if c.Spec.DelayedStartTolerance == nil {
		c.Spec.DelayedStartTolerance = &Duration{Duration: DefaultStartTolerance}
	}
	c.Spec.DisruptionTemplate.setDefaults()
}

// timeZoneName are the characters of a time zone's name. Programs with a list of time
// zones check whether the zone exists.
var timeZoneName = regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)

// Validate returns everything that is wrong with the form of the DisruptionCron. The
// CRD's schema holds the same rules. The package api/schedule judges the meaning of the
// schedule.
func (c *DisruptionCron) Validate() field.ErrorList {
	var errs field.ErrorList
	if len(c.Name) > mostCronName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name,
			fmt.Sprintf("metadata.name is part of the name of every run, disruption-cron-NAME: use at most %d characters, not %d", mostCronName, len(c.Name))))
	}
	return append(errs, c.Spec.validate(field.NewPath("spec"))...)
}

func (s DisruptionCronSpec) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Schedule == "" {
		errs = append(errs, field.Required(path.Child("schedule"), `want five fields, such as "0 12 * * mon-fri", or @daily`))
	}
	errs = append(errs, length(path.Child("schedule"), s.Schedule, 0, 256)...)
	zone := path.Child("timeZone")
	errs = append(errs, length(zone, s.TimeZone, 0, 64)...)
	if s.TimeZone != "" && (s.TimeZone == "Local" || !timeZoneName.MatchString(s.TimeZone)) {
		errs = append(errs, field.Invalid(zone, s.TimeZone, "want the name of a time zone, such as Europe/Berlin"))
	}
	if start := strings.TrimSpace(s.Schedule); s.TimeZone != "" && (strings.HasPrefix(start, "TZ=") || strings.HasPrefix(start, "CRON_TZ=")) {
		errs = append(errs, field.Invalid(zone, s.TimeZone, "schedule begins with a time zone: remove it, or remove timeZone"))
	}
	if s.Jitter != nil && (s.Jitter.Duration < 0 || s.Jitter.Duration > mostJitter) {
		errs = append(errs, field.Invalid(path.Child("jitter"), s.Jitter.String(), "want a duration of 0 to 1h"))
	}
	errs = append(errs, s.DelayedStartTolerance.validateDelay(path.Child("delayedStartTolerance"))...)
	errs = append(errs, s.TargetResource.validate(path.Child("targetResource"))...)
	errs = append(errs, s.Reporting.validate(path.Child("reporting"))...)
	return append(errs, validateTemplate(path.Child("disruptionTemplate"), s.DisruptionTemplate)...)
}

// validateTemplate judges the spec of future Disruptions: as that of a Disruption, except
// that its selectors may be empty.
func validateTemplate(path *field.Path, s DisruptionSpec) field.ErrorList {
	errs := s.validate(path)
	if s.Level == LevelNode {
		errs = append(errs, field.Invalid(path.Child("level"), s.Level, "targetResource stands for pods: set level to pod, or remove it"))
	}
	if s.Triggers != nil && (!s.Triggers.Inject.NotBefore.IsZero() || !s.Triggers.CreatePods.NotBefore.IsZero()) {
		errs = append(errs, field.Invalid(path.Child("triggers"), field.OmitValueType{},
			"notBefore is one moment, and the template is for many runs: use offset"))
	}
	errs = append(errs, (&Disruption{Spec: s}).validateExpiry(path)...)
	return append(errs, s.validateSize(path)...)
}
