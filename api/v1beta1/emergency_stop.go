package v1beta1

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EmergencyStop ends and cleans up all disruptions, and refuses new ones while it
// exists. Deleting it allows new disruptions; stopped ones stay stopped.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=estop,categories=chaos
// +kubebuilder:printcolumn:name=Clean,type=string,JSONPath=`.status.conditions[?(@.type=="Clean")].status`,description="True when nothing is left"
// +kubebuilder:printcolumn:name=Stopped,type=integer,JSONPath=`.status.stopped`
// +kubebuilder:printcolumn:name=Cleaning,type=integer,JSONPath=`.status.cleaning`
// +kubebuilder:printcolumn:name=Injectors,type=integer,JSONPath=`.status.injectors`
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type EmergencyStop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the reason for the stop.
	Spec EmergencyStopSpec `json:"spec,omitempty"`
	// Status is how far the cleaning is.
	Status EmergencyStopStatus `json:"status,omitempty"`
}

// EmergencyStopList is a list of emergency stops.
//
// +kubebuilder:object:root=true
type EmergencyStopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EmergencyStop `json:"items"`
}

// EmergencyStopSpec is the reason for the stop.
type EmergencyStopSpec struct {
	// Reason is shown to users of stopped and refused disruptions. At most 500
	// characters.
	//
	// +kubebuilder:validation:MaxLength=500
	Reason string `json:"reason,omitempty"`
}

// EmergencyStopStatus is written by the bridge alone. All numbers are 0 until its first
// look at the cluster.
type EmergencyStopStatus struct {
	// Stopped is how many disruptions that still exist were ended or refused by
	// this stop.
	//
	// +optional
	Stopped int `json:"stopped"`
	// Cleaning is how many disruptions have not ended yet, whatever ends them.
	//
	// +optional
	Cleaning int `json:"cleaning"`
	// Injectors is how many chaos pods may still disrupt a target, because their
	// injector has not ended.
	//
	// +optional
	Injectors int `json:"injectors"`
	// Conditions is Clean.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// EndingEmergencyStop is how the Ending of a stopped disruption begins.
const EndingEmergencyStop = "emergency stop "

// Ending is why a disruption ends that this stop ends or refuses: "emergency
// stop NAME: REASON", without the colon when no reason is given.
func (s *EmergencyStop) Ending() string {
	ending := EndingEmergencyStop + s.Name
	if reason := strings.Join(strings.Fields(s.Spec.Reason), " "); reason != "" {
		ending += ": " + reason
	}
	return ending
}

// Ended is true for the Ending of a disruption that this stop ended or refused,
// also when its reason was edited since.
func (s *EmergencyStop) Ended(ending string) bool {
	rest, found := strings.CutPrefix(ending, EndingEmergencyStop+s.Name)
	return found && (rest == "" || rest[0] == ':')
}

// FirstStop is the stop that applies to disruptions: the oldest, of equally old ones the
// first by name. Nil when there is none.
func FirstStop(stops []EmergencyStop) *EmergencyStop {
	var first *EmergencyStop
	for i := range stops {
		s := &stops[i]
		if first == nil || s.CreationTimestamp.Before(&first.CreationTimestamp) ||
			s.CreationTimestamp.Equal(&first.CreationTimestamp) && s.Name < first.Name {
			first = s
		}
	}
	return first
}

// Stopped is the Ending that an emergency stop gave the disruption for good, or empty.
func (d *Disruption) Stopped() string {
	for _, c := range d.Status.Conditions {
		if c.Type == ConditionStopped && c.Status == metav1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// AnnotationStopped is on a DisruptionScenario, DisruptionRollout or DisruptionCron that
// existed during an emergency stop. Its value is the time of the last such stop (RFC
// 3339) and, after a space, its reason. Runs that were due by then do not begin after the
// stop is deleted.
const AnnotationStopped = "chaos.squall.dev/stopped" // DisruptionScenario, DisruptionRollout, DisruptionCron: time and reason of the last emergency stop

// StoppedMark is the value of AnnotationStopped.
func StoppedMark(at time.Time, why string) string {
	return at.UTC().Format(time.RFC3339) + " " + why
}

// MetStop is the time and the reason of the last emergency stop during which o existed;
// zero for none. A malformed mark counts as a stop that lasts until the mark is removed.
func MetStop(o metav1.Object) (at time.Time, why string) {
	mark := o.GetAnnotations()[AnnotationStopped]
	if mark == "" {
		return time.Time{}, ""
	}
	when, why, _ := strings.Cut(mark, " ")
	at, err := time.Parse(time.RFC3339, when)
	if err != nil || why == "" {
		return time.Now().AddDate(1, 0, 0), fmt.Sprintf("annotation %s is %q, want a time and a reason", AnnotationStopped, mark)
	}
	return at, why
}
