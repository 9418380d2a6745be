package v1beta1

import "slices"

// Ref names the disruption for good.
func (d *Disruption) Ref() DisruptionRef {
	return DisruptionRef{Namespace: d.Namespace, Name: d.Name, UID: d.UID}
}

// Ending is true once a disruption in this phase never injects again: it is
// cleaned, waits for a person's decision, or is over.
func (p Phase) Ending() bool {
	return p == PhaseCleaning || p == PhaseStuck || p.Over()
}

// Over is true for the phases that no other follows. The workflow writes them
// before it takes the finalizer off, so a disruption that is gone without
// having been over was not let go by its workflow.
func (p Phase) Over() bool {
	return p == PhaseFinished || p == PhaseRejected
}

// Ending is true once the disruption never injects again, whether its workflow
// has heard of that or not: its phase says so, it is being deleted, or an
// emergency stop has ended it.
func (d *Disruption) Ending() bool {
	return d.Status.Phase.Ending() || d.DeletionTimestamp != nil || d.Stopped() != ""
}

// Settled is true for a disruption that needs no workflow any more: its
// finalizer is off, and it is over or being deleted. A new disruption has no
// finalizer yet and is not settled.
func (d *Disruption) Settled() bool {
	if slices.Contains(d.Finalizers, DisruptionFinalizer) {
		return false
	}
	return d.Status.Phase.Over() || d.DeletionTimestamp != nil
}
