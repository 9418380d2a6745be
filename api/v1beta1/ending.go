package v1beta1

import "strings"

// EndingClass is the ending of a disruption in one word, by which its workflow
// is found in Temporal: Expired, Deleted, EmergencyStop, Aborted, NotSteady,
// Failed or Cancelled. CleanedUp is a workflow that only cleaned up what an
// earlier one began. Empty while the disruption goes on.
func EndingClass(ending string) string {
	switch {
	case ending == "":
		return ""
	case ending == EndingExpired:
		return "Expired"
	case ending == EndingDeleted:
		return "Deleted"
	case ending == EndingCancelled:
		return "Cancelled"
	}
	for _, class := range []struct{ begins, name string }{
		{EndingEmergencyStop, "EmergencyStop"}, {EndingAborted, "Aborted"}, {EndingNotSteady, "NotSteady"}, {EndingFailed, "Failed"},
	} {
		if strings.HasPrefix(ending, class.begins) {
			return class.name
		}
	}
	return "CleanedUp"
}
