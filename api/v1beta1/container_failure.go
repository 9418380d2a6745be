package v1beta1

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ContainerFailure ends the target's containers by a signal to their first process: once,
// or every interval. Kubernetes restarts them according to the pod's restartPolicy. Pod
// level only, and no other kind beside it.
type ContainerFailure struct {
	// Forced sends SIGKILL; otherwise SIGTERM, which a process may ignore.
	// Default false.
	Forced bool `json:"forced,omitempty"`
	// Interval is the time after which the containers are ended again, at least 5s and
	// shorter than duration. Each target is disrupted at most maxRuns times. Nothing,
	// the default, ends them once.
	//
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 5000000000 : (self != '' && (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || duration(self) >= duration('5s')))",message="want at least 5s",messageExpression="type(self) != int ? (self == '' ? '0s' : self) + ' is shorter than 5s: want a duration such as 1m' : (self > 0 && self < 1000000 ? string(self) + 'ns is shorter than 5s; a number without a unit is nanoseconds: write ' + string(self) + 's' : string(self) + 'ns is shorter than 5s: want a duration such as 1m')"
	// +nullable
	Interval *Duration `json:"interval,omitempty"`
}

// leastInterval is the shortest time between two ends of a container.
const leastInterval = 5 * time.Second

// RepeatsNothing is the error about an interval that is as long as the disruption.
const RepeatsNothing = "containerFailure.interval is not shorter than duration, so nothing would be repeated: shorten it, or lengthen duration"

func (f *ContainerFailure) validate(path *field.Path) field.ErrorList {
	return f.Interval.validateLeast(path.Child("interval"), leastInterval, "1m")
}

// validateInterval refuses an interval after which nothing can be repeated.
func (s DisruptionSpec) validateInterval(path *field.Path) field.ErrorList {
	if s.ContainerFailure == nil || s.ContainerFailure.Interval == nil {
		return nil
	}
	at, interval := path.Child("containerFailure", "interval"), *s.ContainerFailure.Interval
	var errs field.ErrorList
	if s.MaxRuns != nil && *s.MaxRuns == 1 {
		errs = append(errs, field.Invalid(at, interval.String(), "maxRuns 1 leaves nothing to repeat: raise it, or remove containerFailure.interval"))
	}
	if interval.Duration >= s.lasts() {
		errs = append(errs, field.Invalid(at, interval.String(), RepeatsNothing))
	}
	return errs
}
