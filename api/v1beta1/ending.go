package v1beta1

import (
	"cmp"
	"strings"
)

// EndingClass is the ending of a disruption in one word, by which its workflow
// is found in Temporal.
type EndingClass string

// The classes of endings.
const (
	ClassExpired       EndingClass = "Expired"
	ClassDeleted       EndingClass = "Deleted"
	ClassEmergencyStop EndingClass = "EmergencyStop"
	ClassAborted       EndingClass = "Aborted"
	ClassNotSteady     EndingClass = "NotSteady"
	ClassFailed        EndingClass = "Failed"
	ClassCancelled     EndingClass = "Cancelled"
	// ClassRejected is of a spec that can never run.
	ClassRejected EndingClass = "Rejected"
	// ClassCleanedUp is of a workflow that only cleaned up what an earlier one began.
	ClassCleanedUp EndingClass = "CleanedUp"
)

// ClassOf returns the class of an Ending; empty while the disruption goes on.
func ClassOf(ending string) EndingClass {
	switch {
	case ending == "":
		return ""
	case ending == EndingExpired:
		return ClassExpired
	case ending == EndingDeleted, ending == EndingNeverBegan:
		return ClassDeleted
	case ending == EndingCancelled:
		return ClassCancelled
	case strings.HasPrefix(ending, EndingEmergencyStop):
		return ClassEmergencyStop
	case strings.HasPrefix(ending, EndingAborted):
		return ClassAborted
	case strings.HasPrefix(ending, EndingNotSteady):
		return ClassNotSteady
	case strings.HasPrefix(ending, EndingFailed):
		return ClassFailed
	}
	return ClassCleanedUp
}

// EndingOfRun is why a settled Disruption ended, as the history of its parent shows it.
func (d *Disruption) EndingOfRun() string {
	switch {
	case d.Status.Phase.Over():
		return cmp.Or(d.Status.Ending, strings.ToLower(string(d.Status.Phase)))
	case d.Status.Phase == "": // the first report of a workflow sets the phase
		return cmp.Or(d.Status.Ending, EndingNeverBegan)
	}
	return cmp.Or(d.Status.Ending, EndingDeleted)
}
