package v1beta1

// Labels on every chaos pod and on every record Squall keeps about a
// disruption. Ownership is by UID: names can be used again, UIDs cannot.
const (
	LabelDisruptionUID       = "chaos.squall.dev/disruption-uid"
	LabelDisruptionName      = "chaos.squall.dev/disruption-name"
	LabelDisruptionNamespace = "chaos.squall.dev/disruption-namespace"
	LabelDisruptionKind      = "chaos.squall.dev/disruption-kind"
	LabelTarget              = "chaos.squall.dev/target"
	LabelTargetUID           = "chaos.squall.dev/target-uid"
	LabelShard               = "chaos.squall.dev/shard"
	// LabelCleaner is on a pod that cleans for a chaos pod that failed to.
	LabelCleaner = "chaos.squall.dev/cleaner"
	// LabelSweep is on a pod with which a sweep looks at a node or cleans it;
	// its value is the run of the sweep. Such a pod is no chaos pod and has none
	// of the labels above.
	LabelSweep = "chaos.squall.dev/sweep"
)

// A pod whose start may be disturbed carries LabelDisruptOnInit, with the value
// OnInitValue: the bridge gives it an init container, OnInitContainer, which holds
// the pod's own containers back until it is disturbed, or until a time is over that
// the annotation may set, a Go duration such as "30s".
const (
	LabelDisruptOnInit      = "chaos.squall.dev/disrupt-on-init"
	OnInitValue             = "true"
	AnnotationOnInitTimeout = "chaos.squall.dev/disrupt-on-init-timeout"
	OnInitContainer         = "squall-wait"
)

// A namespace carries LabelDisruptions, with the value DisruptionsAllowed, once
// its owners agree that it is disrupted. Where the operator enforces it nothing is
// disrupted from a namespace without.
const (
	LabelDisruptions   = "chaos.squall.dev/disruptions"
	DisruptionsAllowed = "allowed"
)

// OnInitCommand is the subcommand of the injector that OnInitContainer runs.
const OnInitCommand = "wait"

// Finalizers. The first is on a Disruption until no chaos pod is left
// (rules 4-6); the second on a chaos pod until its outcome is known
// (rules 26, 38-44).
const (
	DisruptionFinalizer = "finalizer.chaos.squall.dev"
	ChaosPodFinalizer   = "finalizer.chaos.squall.dev/chaos-pod"
)

// A node that a disruption has cordoned carries both: the label, by which such
// nodes are listed, and for each disruption an annotation whose name ends with
// its UID and whose value is its namespace/name.
const (
	LabelCordoned    = "chaos.squall.dev/cordoned"
	AnnotationCordon = "cordon.chaos.squall.dev/"
)
