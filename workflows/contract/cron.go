package contract

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Registered names of the workflow that carries out one run: of a DisruptionCron, or of a
// DisruptionRollout.
const (
	CronWorkflowType    = "DisruptionCron"
	RolloutWorkflowType = "DisruptionRollout"
)

// CronRef identifies a DisruptionCron or a DisruptionRollout.
type CronRef struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Cluster is the UID of the namespace kube-system in its cluster; empty if the bridge
	// may not read that.
	Cluster types.UID `json:"cluster,omitempty"`
	// Kind is DisruptionRollout, or empty for a DisruptionCron.
	Kind string `json:"kind,omitempty"`
}

// String is namespace/name.
func (c CronRef) String() string { return c.Namespace + "/" + c.Name }

// Rollout is true for a DisruptionRollout.
func (c CronRef) Rollout() bool { return c.Kind == v1beta1.KindDisruptionRollout }

// CronInput starts the workflow of a run.
type CronInput struct {
	Cron CronRef `json:"cron"`
	// Release is the release that the run of a rollout is for.
	Release *Release `json:"release,omitempty"`
}

// Release is a change of a workload's containers.
type Release struct {
	// Number counts the releases that the rollout has seen.
	Number int64 `json:"number"`
	// SeenAt is when the bridge saw it, in whole seconds.
	SeenAt time.Time `json:"seenAt"`
	// Containers and InitContainers are hashes of the containers.
	Containers     string `json:"containers"`
	InitContainers string `json:"initContainers"`
}

// CronScheduleID is the ID of a DisruptionCron's schedule: one per UID. Temporal appends
// a time to it for the IDs of the workflows that the schedule starts.
func CronScheduleID(ref CronRef) string {
	return fmt.Sprintf("cron/%s/%s/%s", ref.Namespace, ref.Name, ref.UID)
}

// RolloutWorkflowID is the ID of the workflow for a release: one for each.
func RolloutWorkflowID(ref CronRef, r Release) string {
	return fmt.Sprintf("%s%d-%.12s", rolloutPrefix(ref), r.Number, r.Containers)
}

// ParseRolloutWorkflowID returns the rollout of RolloutWorkflowID; ok is false for any other ID.
func ParseRolloutWorkflowID(id string) (ref CronRef, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 5 || parts[0] != "rollout" {
		return ref, false
	}
	return CronRef{Namespace: parts[1], Name: parts[2], UID: types.UID(parts[3]), Kind: v1beta1.KindDisruptionRollout}, true
}

func rolloutPrefix(ref CronRef) string {
	return fmt.Sprintf("rollout/%s/%s/%s/", ref.Namespace, ref.Name, ref.UID)
}

// RunsCron is true for the ID of a workflow that the schedule of ref started, or, for a
// rollout, that is for one of its releases.
func RunsCron(ref CronRef, workflow string) bool {
	if ref.Rollout() {
		return strings.HasPrefix(workflow, rolloutPrefix(ref))
	}
	return strings.HasPrefix(workflow, CronScheduleID(ref)+"-")
}
