// Package contract names what other programs may know of a Disruption's workflow: its ID,
// its task queues and the messages it takes. The bridge and the command line import this
// and workflows/start, and nothing else of the workflow.
package contract

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// WorkflowType is the registered name of the workflow.
const WorkflowType = "Disruption"

// SweepWorkflowType is the registered name of the workflow that searches for what no live
// disruption owns; SweepSchedule is the schedule that starts it.
const (
	SweepWorkflowType = "Sweep"
	SweepSchedule     = "squall-sweep"
)

// RunsSweep is true for the ID of a workflow that the schedule of the sweep started:
// Temporal appends the time of the run to the ID.
func RunsSweep(workflow string) bool { return strings.HasPrefix(workflow, SweepSchedule+"-") }

// Task queues. Activities that read effects again and again, and probers, have queues of
// their own.
const (
	TaskQueue        = "squall-disruptions"
	WatcherTaskQueue = "squall-watchers"
	ProbeTaskQueue   = "squall-probes"
)

// Messages a workflow takes.
const (
	// SignalObserved carries an Observation: something relevant changed.
	SignalObserved = "observed"
	// SignalEnd asks the disruption to end. It carries an End, or nothing when
	// its object is being deleted.
	SignalEnd = "end"
	// SignalResume and UpdateResume carry a Resume. The update is checked and answered.
	SignalResume = "resume"
	UpdateResume = "resume"
	// SignalProbe carries a ProbeTransition: results of probes changed.
	SignalProbe = "probe"
	// QueryStatus returns the state of the workflow.
	QueryStatus = "status"
)

// Search attributes of every workflow.
const (
	AttributePhase     = "SquallPhase"     // Keyword
	AttributeNamespace = "SquallNamespace" // Keyword
	AttributeKinds     = "SquallKinds"     // KeywordList
	AttributeStuck     = "SquallStuck"     // Bool
	AttributeEnding    = "SquallEnding"    // Keyword: v1beta1.EndingClass, once it is over
	AttributeVerdict   = "SquallVerdict"   // Keyword: of the steady state, once it is over
	AttributeTargets   = "SquallTargets"   // Int
)

// Input starts a workflow.
type Input struct {
	Disruption v1beta1.DisruptionRef `json:"disruption"`
}

// Observation is the bridge's evidence that something relevant changed. It is a hint:
// activities read the cluster before they act on it.
type Observation struct {
	// Hash of everything the bridge read; equal hashes mean no change.
	Hash string `json:"hash"`
	// Ended counts chaos pods that ended or are being deleted.
	Ended int `json:"ended,omitempty"`
	// TargetsLost counts chosen targets that are gone, replaced or ending, match the
	// selector no longer, or are more than a percentage asks for.
	TargetsLost int `json:"targetsLost,omitempty"`
	// Shards are the shards of all that Ended and TargetsLost count, at most MaxShards;
	// empty when there are more, or some are not known.
	Shards []int `json:"shards,omitempty"`
	// Operations counts pods on which the disruption's own operation is in progress.
	Operations int `json:"operations,omitempty"`
	// Candidates counts running targets that match the selector.
	Candidates int `json:"candidates,omitempty"`
	// Unready counts chaos pods that injected and are not ready any more: their effect
	// turned, and their logs have the reason.
	Unready int `json:"unready,omitempty"`
	// Services is a hash of the addresses of the services that the disruption names; empty
	// if it names none, or the bridge does not know them yet.
	Services string `json:"services,omitempty"`
	// SpecChanged is true when the spec is not the one in status.specHash.
	SpecChanged bool `json:"specChanged,omitempty"`
}

// MaxShards is how many shards an observation names at most.
const MaxShards = 50

// Names is true when something in this shard may have ended or be lost.
func (o *Observation) Names(shard int) bool {
	return o == nil || len(o.Shards) == 0 || slices.Contains(o.Shards, shard)
}

// MoreEnded is true when more chaos pods have ended, or more targets are lost, than in an
// observation before; nil counts none.
func (o *Observation) MoreEnded(before *Observation) bool {
	if before == nil {
		before = &Observation{}
	}
	return o.Ended > before.Ended || o.TargetsLost > before.TargetsLost
}

// End asks a disruption to end.
type End struct {
	// Reason becomes the disruption's Ending; empty means "deleted".
	Reason string `json:"reason,omitempty"`
}

// Actions of a Resume.
const (
	ActionRetry   = "retry"
	ActionRelease = "release"
)

// Resume is a person's decision on a stuck disruption.
type Resume struct {
	// Action is retry (clean again) or release (keep what is left on the node).
	Action string `json:"action"`
	// Targets limits the decision to these target names; empty means all that are stuck.
	Targets []string `json:"targets,omitempty"`
	// By and Reason are required for release.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// WorkflowID is the ID of a Disruption's workflow: one per UID, readable in a list.
func WorkflowID(ref v1beta1.DisruptionRef) string {
	return fmt.Sprintf("disruption/%s/%s/%s", ref.Namespace, ref.Name, ref.UID)
}

// ParseWorkflowID is the inverse of WorkflowID; ok is false for any other ID.
func ParseWorkflowID(id string) (ref v1beta1.DisruptionRef, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "disruption" {
		return ref, false
	}
	return v1beta1.DisruptionRef{Namespace: parts[1], Name: parts[2], UID: types.UID(parts[3])}, true
}

// RecordName is the ConfigMap in the chaos namespace that holds the spec a
// disruption was started with, and the prefix of its shards of targets.
func RecordName(uid types.UID) string { return "squall-" + string(uid) }
