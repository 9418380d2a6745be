package v1beta1

import "strings"

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
	case ending == EndingDeleted:
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
