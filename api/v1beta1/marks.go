package v1beta1

// Labels on every chaos pod and on every record Squall keeps about a
// disruption. Ownership is by UID: names can be used again, UIDs cannot.
const (
	LabelDisruptionUID       = "chaos.squall.dev/disruption-uid"       // chaos pod, record, cleaner pod: UID of its disruption
	LabelDisruptionName      = "chaos.squall.dev/disruption-name"      // chaos pod, record, cleaner pod: name of its disruption
	LabelDisruptionNamespace = "chaos.squall.dev/disruption-namespace" // chaos pod, record, cleaner pod: namespace of its disruption
	LabelDisruptionKind      = "chaos.squall.dev/disruption-kind"      // chaos pod: its fault, such as `network-disruption`
	LabelTarget              = "chaos.squall.dev/target"               // chaos pod: name of its target, shortened if necessary
	LabelTargetUID           = "chaos.squall.dev/target-uid"           // chaos pod: UID of its target
	LabelShard               = "chaos.squall.dev/shard"                // chaos pod, record: number of the record with its targets
	// LabelCleaner is on a pod that cleans for a chaos pod that failed to.
	LabelCleaner = "chaos.squall.dev/cleaner" // cleaner pod: `true`
	// LabelSweep is on a pod with which a sweep searches or cleans a node; its value is the
	// run of the sweep. Such a pod is no chaos pod and has none of the labels above.
	LabelSweep = "chaos.squall.dev/sweep" // sweep pod: run of the sweep that created it
)

// A pod that may be disrupted at its start carries LabelDisruptOnInit, with the value
// OnInitValue. The bridge gives it an init container, OnInitContainer, which holds the
// pod's own containers back until it is disrupted or a time is over. The annotation may
// set that time, as a Go duration such as "30s".
const (
	LabelDisruptOnInit      = "chaos.squall.dev/disrupt-on-init" // pod; written by you: `true` lets it wait for a disruption at its start
	OnInitValue             = "true"
	AnnotationOnInitTimeout = "chaos.squall.dev/disrupt-on-init-timeout" // pod; written by you: how long it waits at its start, such as `30s`
	OnInitContainer         = "squall-wait"
)

// A namespace carries LabelDisruptions, with the value DisruptionsAllowed, once its
// owners agree that it is disrupted. If the operator enforces the opt-in, no target is
// disrupted from a namespace without it.
const (
	LabelDisruptions   = "chaos.squall.dev/disruptions" // namespace; written by you: `allowed` is the opt-in to disruptions
	DisruptionsAllowed = "allowed"
)

// OnInitCommand is the subcommand of the injector that OnInitContainer runs.
const OnInitCommand = "wait"

// Finalizers. The first is on a Disruption until no chaos pod is left
// (rules 4-6); the second on a chaos pod until its outcome is known
// (rules 26, 38-44).
const (
	DisruptionFinalizer = "finalizer.chaos.squall.dev"           // Disruption: kept until no chaos pod is left
	ChaosPodFinalizer   = "finalizer.chaos.squall.dev/chaos-pod" // chaos pod: kept until its outcome is known
)

// A node that a disruption has cordoned carries both: the label, by which such
// nodes are listed, and for each disruption an annotation whose name ends with
// its UID and whose value is its namespace/name.
const (
	LabelCordoned    = "chaos.squall.dev/cordoned" // node: a disruption has cordoned it
	AnnotationCordon = "cordon.chaos.squall.dev/"  // node: ends with the UID of the disruption that cordoned it; its namespace and name
)
