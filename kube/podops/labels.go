// Package podops knows the labels that PodOpsLifecycle writes on a pod. By these labels
// three programs cooperate: controllers that operate pods, service controllers that
// remove their traffic, and a driver that moves the pod from phase to phase. It calls
// no API server.
package podops

// Domain is the common part of the labels of a lifecycle. The meaning of a label stands
// before it. The id of the lifecycle stands after it, behind a slash.
const Domain = "podopslifecycle.kusionstack.io"

// The labels of one lifecycle: KEY/<id>.
const (
	// LabelOperationType is the type of the operation; the program that begins the
	// operation sets it.
	LabelOperationType = "operation-type." + Domain
	// LabelUndo, with the type as its value, cancels an operation that has not begun to
	// change the pod.
	LabelUndo = "undo-operation-type." + Domain
	// LabelOperating is on the pod from the beginning of an operation until it is finished
	// or undone.
	LabelOperating = "operating." + Domain
	// LabelOperate permits the operation on the pod.
	LabelOperate = "operate." + Domain
	// LabelOperated marks an operation that is done while its last phases still run.
	LabelOperated = "operated." + Domain
)

// The labels in which a driver keeps the progress of the operation: before it, when it
// has passed the checks before it, and after it.
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

// FinalizerPrefix begins the finalizers of service controllers: as long as the pod has
// one of them, it has their traffic.
const FinalizerPrefix = "prot." + Domain + "/"

// LabelAvailable is on a pod that is in service.
const LabelAvailable = Domain + "/service-available"

// A driver moves a pod from phase to phase if the pod has a label with the value
// ManagedValue, and a readiness gate with a condition in its status. Only the creation
// of a pod can add a gate. A driver that finds no condition permits an operation at
// once, even if the pod is still served.
const (
	LabelManaged  = "kusionstack.io/control"
	ManagedValue  = "true"
	ReadinessGate = "pod.kusionstack.io/service-ready"
)

// AnnotationAvailable is a JSON document with the finalizers that a pod in service must
// have: those of all its service controllers.
const AnnotationAvailable = "pod.kusionstack.io/available-conditions"

// LabelToDelete is on a pod with a request to delete it.
const LabelToDelete = "collaset.kusionstack.io/to-delete"
