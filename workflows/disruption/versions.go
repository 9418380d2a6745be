package disruption

// The changes of the workflow that older histories do not have, in the order in which
// they came (docs/upgrades.md).
const (
	// An observation that arrives while a report is written is acted upon. Before, it was
	// dropped, and a finalizer that was removed by hand at that moment was noticed only at
	// the next attempt.
	changeSeenWhileReporting = "seen-while-telling"
	// While one shard is cleaned and waits, such as for a cleaner, the others are cleaned
	// of chaos pods that end. Before, these waited for it.
	changeEndedMeanwhile = "ended-meanwhile"
	// A deleted disruption that waits until its targets are in service again reports phase
	// Cleaning. Before, its status stayed as it was before the deletion.
	changeReturnShown = "giving-back-shown"
	// While the disruption lasts, only the shards that an observation names are cleaned.
	// Before, one chaos pod that ended caused a cleaning of all.
	changeNamedShards = "named-shards"
	// If the history is long, a new run continues a round of cleaning. Before, a round of
	// very many shards made the history longer than Temporal allows.
	changeRoundInParts = "round-in-parts"
	// A disruption whose watch of the injection did not answer reads from status whether
	// all targets were injected. Before, it warned at its end that not all were.
	changeInjectedRead = "injected-read"
	// While targets come and go, one watch of the injection follows several choices of
	// targets, and what ended is cleaned within the workflow's task. Before, each choice had
	// a watch, and each cleaning an activity.
	changeChurnTogether = "churn-together"
)
