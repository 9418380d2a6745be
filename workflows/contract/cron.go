package contract

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// CronWorkflowType is the registered name of the workflow that carries out one
// run of a DisruptionCron.
const CronWorkflowType = "DisruptionCron"

// CronRef names a DisruptionCron for good.
type CronRef struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Cluster is the cluster that it is of, by the UID of the namespace
	// kube-system. Empty where nobody may read that.
	Cluster types.UID `json:"cluster,omitempty"`
}

// String is namespace/name.
func (c CronRef) String() string { return c.Namespace + "/" + c.Name }

// CronInput starts the workflow of a run.
type CronInput struct {
	Cron CronRef `json:"cron"`
}

// CronScheduleID is the schedule of a DisruptionCron: one per UID. Temporal puts
// a time behind it for the IDs of the workflows that the schedule starts.
func CronScheduleID(ref CronRef) string {
	return fmt.Sprintf("cron/%s/%s/%s", ref.Namespace, ref.Name, ref.UID)
}

// RunsCron is true for the ID of a workflow that the schedule of ref started.
func RunsCron(ref CronRef, workflow string) bool {
	return strings.HasPrefix(workflow, CronScheduleID(ref)+"-")
}
