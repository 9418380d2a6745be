package v1beta1

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Duration is a length of time: in JSON a Go duration string such as "90s" or
// "1h30m", or a number of nanoseconds. It is written as a string.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:rule=`type(self) == int || self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))?$')`,message="want a number with a unit, such as \"90s\" or \"1h30m\"",messageExpression=`self + ': want a number with a unit, such as "90s" or "1h30m"'`
type Duration struct {
	time.Duration `json:"-"`
}

// UnmarshalJSON reads a duration string or a number of nanoseconds.
func (d *Duration) UnmarshalJSON(data []byte) error {
	var nanoseconds int64
	if err := json.Unmarshal(data, &nanoseconds); err == nil {
		d.Duration = time.Duration(nanoseconds)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("duration %s: want a string such as \"5m\" or a number of nanoseconds", data)
	}
	if text == "" {
		d.Duration = 0
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("duration %q: want a number with a unit, such as \"90s\" or \"1h30m\"", text)
	}
	d.Duration = parsed
	return nil
}

// MarshalJSON writes the duration as a string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// validateDelay wants a duration of 0 or more, and none that was meant in another
// unit. nil is 0.
func (d *Duration) validateDelay(path *field.Path) field.ErrorList {
	switch {
	case d == nil || d.Duration == 0:
		return nil
	case d.Duration < 0:
		return field.ErrorList{field.Invalid(path, d.String(), "want a duration of 0 or more")}
	}
	return d.validateLeast(path, time.Millisecond, "10s")
}

// validateLeast wants at least so much, such as the example. nil is no duration.
func (d *Duration) validateLeast(path *field.Path, least time.Duration, example string) field.ErrorList {
	if d == nil || d.Duration >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(path, d.String(), tooShort(d.Duration, least, example))}
}

// tooShort is why a duration is refused. A number of less than a millisecond was meant in
// another unit: YAML's 10 is 10ns.
func tooShort(d, least time.Duration, example string) string {
	if d > 0 && d < time.Millisecond {
		return fmt.Sprintf("%dns is shorter than %s; a number without a unit is nanoseconds: write %ds", d, least, d)
	}
	return fmt.Sprintf("%s is shorter than %s: want a duration such as %s", d, least, example)
}
