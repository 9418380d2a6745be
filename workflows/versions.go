package workflows

// The changes of the workflow that histories of before must not know, in the order in
// which they came (docs/upgrades.md).
const (
	// What the bridge tells while a report is written is acted upon. Before, it was
	// forgotten, and a finalizer that was taken off by hand in that moment was seen at
	// the next try alone.
	changeSeenWhileTelling = "seen-while-telling"
	// While one shard is cleaned and waits, such as for a cleaner, the others are cleaned
	// of chaos pods that end. Before, these waited for it.
	changeEndedMeanwhile = "ended-meanwhile"
	// A deleted disruption that waits for its targets to be given back reports phase
	// Cleaning. Before, its status stayed as it was before the deletion.
	changeGivingBackShown = "giving-back-shown"
)
