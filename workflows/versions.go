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
	// Only the shards that an observation names are cleaned while the disruption goes on.
	// Before, one chaos pod that ended had all of them cleaned.
	changeNamedShards = "named-shards"
	// A round of cleaning goes on in a new run when the history is long. Before, a round of
	// very many shards made the history longer than Temporal allows.
	changeRoundInParts = "round-in-parts"
	// A disruption whose watch of the injection did not answer reads from status whether
	// all targets were injected. Before, it warned at its end that not all were.
	changeInjectedRead = "injected-read"
)
