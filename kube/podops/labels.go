// Package podops knows what PodOpsLifecycle writes on a pod: the labels by which
// controllers that operate pods, those that take their traffic away, and a
// driver that moves the pod from phase to phase understand one another. It calls
// no API server.
package podops

// Domain is what the labels of a lifecycle share. Before it stands what a label
// says, and after it, behind a slash, the id of the lifecycle.
const Domain = "podopslifecycle.kusionstack.io"

// The labels of one lifecycle: KEY/<id>.
const (
	// LabelOperationType says what kind of operation it is; who begins one sets it.
	LabelOperationType = "operation-type." + Domain
	// LabelUndo, with the type as its value, takes an operation back that has not
	// begun to change the pod.
	LabelUndo = "undo-operation-type." + Domain
	// LabelOperating is there from the beginning of an operation until it is
	// finished or undone.
	LabelOperating = "operating." + Domain
	// LabelOperate says that the pod may be operated on.
	LabelOperate = "operate." + Domain
	// LabelOperated says that the operation is done, and not yet followed by all
	// that comes after one.
	LabelOperated = "operated." + Domain
)

// The labels by which a driver keeps in mind how far the operation has come: before
// it, when it has passed what comes before, and after it.
const (
	LabelPreCheck   = "pre-check." + Domain
	LabelPreChecked = "pre-checked." + Domain
	LabelPreparing  = "preparing." + Domain

	LabelDoneType    = "done-operation-type." + Domain
	LabelPostCheck   = "post-check." + Domain
	LabelPostChecked = "post-checked." + Domain
	LabelCompleting  = "completing." + Domain

	// LabelPermission has the type behind the slash, and not the id.
	LabelPermission = "operation-permission." + Domain
)

// FinalizerPrefix begins the finalizers of those that serve a pod: as long as one of
// them is on it, the pod has their traffic.
const FinalizerPrefix = "prot." + Domain + "/"

// LabelAvailable is on a pod that is in service.
const LabelAvailable = Domain + "/service-available"

// What makes a pod one that a driver moves from phase to phase: a label with the
// value ManagedValue, and a readiness gate, which only the creation of a pod can
// add, with a condition in its status. A driver that finds no condition lets an operation begin
// at once, whoever still serves the pod.
const (
	LabelManaged  = "kusionstack.io/control"
	ManagedValue  = "true"
	ReadinessGate = "pod.kusionstack.io/service-ready"
)

// AnnotationAvailable is a JSON document that names the finalizers which are to be on
// a pod in service: those of all that bring traffic to it.
const AnnotationAvailable = "pod.kusionstack.io/available-conditions"

// LabelToDelete is on a pod that somebody wants to delete.
const LabelToDelete = "collaset.kusionstack.io/to-delete"
