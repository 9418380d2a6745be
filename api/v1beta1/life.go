package v1beta1

import "slices"

// Ref identifies the disruption.
func (d *Disruption) Ref() DisruptionRef {
	return DisruptionRef{Namespace: d.Namespace, Name: d.Name, UID: d.UID}
}

// Ending is true once a disruption in this phase never injects again: it is
// cleaned, waits for a person's decision, or is over.
func (p Phase) Ending() bool {
	return p == PhaseCleaning || p == PhaseStuck || p.Over()
}

// Over is true for the phases that no other follows. The workflow writes them before it
// removes the finalizer. A disruption that is gone without such a phase was not finalized
// by its workflow.
func (p Phase) Over() bool {
	return p == PhaseFinished || p == PhaseRejected
}

// Ending is true once the disruption never injects again, even if its workflow does not
// know yet: its phase is final or a clean-up, it is being deleted, or an emergency stop
// has ended it.
func (d *Disruption) Ending() bool {
	return d.Status.Phase.Ending() || d.DeletionTimestamp != nil || d.Stopped() != ""
}

// Settled is true for a disruption that needs no workflow any more: its finalizer is
// removed, and it is over or being deleted. A new disruption has no finalizer yet and is
// not settled.
func (d *Disruption) Settled() bool {
	if slices.Contains(d.Finalizers, DisruptionFinalizer) {
		return false
	}
	return d.Status.Phase.Over() || d.DeletionTimestamp != nil
}
