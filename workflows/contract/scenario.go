package contract

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// ScenarioWorkflowType is the registered name of the workflow that carries out a
// DisruptionScenario.
const ScenarioWorkflowType = "DisruptionScenario"

// Messages the workflow of a scenario takes, beside SignalEnd.
const (
	// SignalSettled says that a disruption of the scenario is over. It carries
	// nothing: whoever is told looks.
	SignalSettled = "settled"
	// SignalApprove and UpdateApprove carry an Approval. The update is checked and
	// answered.
	SignalApprove = "approve"
	UpdateApprove = "approve"
)

// ScenarioRef names a DisruptionScenario for good.
type ScenarioRef struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Cluster is the cluster that it is of, by the UID of the namespace
	// kube-system. Empty where nobody may read that.
	Cluster types.UID `json:"cluster,omitempty"`
}

// String is namespace/name.
func (s ScenarioRef) String() string { return s.Namespace + "/" + s.Name }

// ScenarioInput starts the workflow of a scenario.
type ScenarioInput struct {
	Scenario ScenarioRef `json:"scenario"`
}

// Approval lets a step that waits for a person go on.
type Approval struct {
	// Step is its name.
	Step string `json:"step"`
	// By is who approves.
	By string `json:"by"`
}

// ScenarioWorkflowID is the workflow of a scenario: one per UID.
func ScenarioWorkflowID(ref ScenarioRef) string {
	return fmt.Sprintf("scenario/%s/%s/%s", ref.Namespace, ref.Name, ref.UID)
}

// ParseScenarioWorkflowID is ScenarioWorkflowID backwards; ok is false for any other ID.
func ParseScenarioWorkflowID(id string) (ref ScenarioRef, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "scenario" {
		return ref, false
	}
	return ScenarioRef{Namespace: parts[1], Name: parts[2], UID: types.UID(parts[3])}, true
}
