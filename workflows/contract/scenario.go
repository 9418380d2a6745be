package contract

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// ScenarioWorkflowType is the registered name of the workflow that carries out a
// DisruptionScenario.
const ScenarioWorkflowType = "DisruptionScenario"

// Messages that the workflow of a scenario takes, beside SignalEnd.
const (
	// SignalSettled means that a disruption of the scenario has ended. It carries nothing:
	// the workflow reads its disruptions.
	SignalSettled = "settled"
	// SignalApprove and UpdateApprove carry an Approval. The update is checked and
	// answered.
	SignalApprove = "approve"
	UpdateApprove = "approve"
)

// ScenarioRef identifies a DisruptionScenario.
type ScenarioRef struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Cluster is the UID of the namespace kube-system in its cluster; empty if the bridge
	// may not read that.
	Cluster types.UID `json:"cluster,omitempty"`
}

// String is namespace/name.
func (s ScenarioRef) String() string { return s.Namespace + "/" + s.Name }

// ScenarioInput starts the workflow of a scenario.
type ScenarioInput struct {
	Scenario ScenarioRef `json:"scenario"`
}

// Approval approves a step that waits for a person.
type Approval struct {
	// Step is the name of the step.
	Step string `json:"step"`
	// By is who approves.
	By string `json:"by"`
}

// ScenarioWorkflowID is the ID of a scenario's workflow: one per UID.
func ScenarioWorkflowID(ref ScenarioRef) string {
	return fmt.Sprintf("scenario/%s/%s/%s", ref.Namespace, ref.Name, ref.UID)
}

// ParseScenarioWorkflowID is the inverse of ScenarioWorkflowID; ok is false for any other
// ID.
func ParseScenarioWorkflowID(id string) (ref ScenarioRef, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "scenario" {
		return ref, false
	}
	return ScenarioRef{Namespace: parts[1], Name: parts[2], UID: types.UID(parts[3])}, true
}
