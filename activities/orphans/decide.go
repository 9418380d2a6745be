// Package orphans finds things that no live disruption owns: chaos pods and records in
// the API, and marks on nodes. It hands the first to a workflow and removes the second
// by the journals. It leaves the rest of a live disruption alone, and does not judge
// what it cannot read.
package orphans

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The functions of this file decide from plain values which things are orphans.

// footprint describes the objects of one disruption in the cluster.
type footprint struct {
	ref v1beta1.DisruptionRef
	// exists is false when the object is gone. finalized is the result of finalized for it.
	exists, finalized bool
	// pods and records count the objects in the chaos namespace.
	pods, records int
}

// over is true when no object keeps the disruption alive.
func (f footprint) over() bool { return !f.exists || f.finalized }

// finalized is true when Squall's finalizer is off the object for good. CleanedAt
// counts as well as the phase: the report of a worker that hung may come after the last
// status and claim that the disruption is stuck.
func finalized(d *v1beta1.Disruption) bool {
	if slices.Contains(d.Finalizers, v1beta1.DisruptionFinalizer) {
		return false
	}
	return d.DeletionTimestamp != nil || d.Status.CleanedAt != nil ||
		d.Status.Phase == v1beta1.PhaseFinished || d.Status.Phase == v1beta1.PhaseRejected
}

// live is true while more is left of the disruption than marks on nodes: the workflow
// that carries it out or cleans it takes care of the marks, too. A starting disruption
// has its object, and a disruption that is being cleaned has its records.
func (f footprint) live() bool { return !f.over() || f.pods+f.records > 0 }

// remedy is the action for a disruption that has chaos pods or records.
type remedy string

const (
	remedyLeave remedy = "leave"
	remedyEnd   remedy = "end"
	remedyStart remedy = "start"
)

// remedyFor decides the action for chaos pods and records. Only their workflow cleans
// them. A workflow without an object gets the signal to end. Without a workflow one is
// started, which detects that only the cleanup is left.
func remedyFor(f footprint, running bool) remedy {
	switch {
	case f.pods+f.records == 0:
		return remedyLeave
	case !running:
		return remedyStart
	case f.over():
		return remedyEnd
	}
	return remedyLeave
}

// orphanedMarks returns the marks of disruptions that have left nothing but marks. A
// disruption that starts, runs, is being cleaned or is stuck has its object, chaos pods
// or records, and takes care of its own marks. A mark that a person released stays as
// long as its disruption lives. A mark without a disruption may belong to a live one;
// it is an orphan only if there is none.
func orphanedMarks(audit v1beta1.Audit, all map[types.UID]*footprint) []v1beta1.Mark {
	anyLive := false
	for _, f := range all {
		anyLive = anyLive || f.live()
	}
	var orphans []v1beta1.Mark
	for _, mark := range audit.Marks {
		f := all[mark.Disruption.UID]
		switch {
		case mark.Disruption.UID == "" && !anyLive, mark.Disruption.UID != "" && (f == nil || !f.live()):
			orphans = append(orphans, mark)
		}
	}
	// Disruptions all of whose marks did not fit into the report.
	for _, uid := range audit.Disruptions {
		f := all[uid]
		named := slices.ContainsFunc(audit.Marks, func(m v1beta1.Mark) bool { return m.Disruption.UID == uid })
		if !named && (f == nil || !f.live()) {
			orphans = append(orphans, v1beta1.Mark{Object: "more than a report holds", Disruption: v1beta1.DisruptionRef{UID: uid}})
		}
	}
	return orphans
}

// disruptionsOf returns the disruptions that marks name, each once.
func disruptionsOf(marks []v1beta1.Mark) []types.UID {
	var uids []types.UID
	for _, mark := range marks {
		if uid := mark.Disruption.UID; uid != "" && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	return uids
}

// whyLeft returns why a mark was not removed: the cleaner's report on its disruption,
// or a known reason.
func whyLeft(mark v1beta1.Mark, reports map[types.UID]string) string {
	if mark.Disruption.UID == "" {
		return "it names no disruption: it ends with its injector, at its deadline"
	}
	if report := reports[mark.Disruption.UID]; report != "" {
		return report
	}
	return "no journal on the node describes how to clean it up"
}
