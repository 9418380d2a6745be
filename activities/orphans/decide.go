// Package orphans finds what no live disruption owns: chaos pods and records in
// the API, and marks on nodes. It hands the first to a workflow and takes the
// second off from the journals. What lives it leaves alone; whatever it cannot
// read it does not judge.
package orphans

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// What is an orphan is decided here, from plain values.

// footprint is what the cluster has of one disruption.
type footprint struct {
	ref v1beta1.DisruptionRef
	// here is false when the object is gone. letGo is what letGo says of it.
	here, letGo bool
	// pods and records count what is in the chaos namespace.
	pods, records int
}

// over is true when no object keeps the disruption alive.
func (t footprint) over() bool { return !t.here || t.letGo }

// letGo is true when our finalizer is off the object for good. Whether it is clean is
// asked of CleanedAt as well: the report of a worker that hung may come after the last
// status and say that the disruption is stuck.
func letGo(d *v1beta1.Disruption) bool {
	if slices.Contains(d.Finalizers, v1beta1.DisruptionFinalizer) {
		return false
	}
	return d.DeletionTimestamp != nil || d.Status.CleanedAt != nil ||
		d.Status.Phase == v1beta1.PhaseFinished || d.Status.Phase == v1beta1.PhaseRejected
}

// live is true while something of the disruption but marks on nodes is left:
// whoever carries it out or cleans it will see to the marks, too. One that is
// just starting has its object, one that is being cleaned has its records.
func (t footprint) live() bool { return !t.over() || t.pods+t.records > 0 }

// remedy is what helps a disruption that has chaos pods or records.
type remedy string

const (
	leaveIt remedy = "leave"
	endIt   remedy = "end"
	startIt remedy = "start"
)

// remedyFor decides what becomes of chaos pods and records. Their workflow
// cleans them, and nobody else: one that runs for nothing is told to end, and
// where none runs one is started, which finds out by itself that only cleaning
// is left.
func remedyFor(t footprint, running bool) remedy {
	switch {
	case t.pods+t.records == 0:
		return leaveIt
	case !running:
		return startIt
	case t.over():
		return endIt
	}
	return leaveIt
}

// orphanedMarks are the marks of disruptions of which nothing but marks is
// left. A disruption that starts, goes on, is being cleaned or is stuck has its
// object, chaos pods or records, and sees to its own. What a person released
// stays for as long as its disruption lives. A mark that names no disruption
// may belong to a live one and is an orphan only if there is none.
func orphanedMarks(audit v1beta1.Audit, all map[types.UID]*footprint) []v1beta1.Mark {
	anyLive := false
	for _, t := range all {
		anyLive = anyLive || t.live()
	}
	var orphans []v1beta1.Mark
	for _, mark := range audit.Marks {
		t := all[mark.Disruption.UID]
		switch {
		case mark.Disruption.UID == "" && !anyLive, mark.Disruption.UID != "" && (t == nil || !t.live()):
			orphans = append(orphans, mark)
		}
	}
	// Of a disruption all of whose marks the report had no room for.
	for _, uid := range audit.Disruptions {
		t := all[uid]
		named := slices.ContainsFunc(audit.Marks, func(m v1beta1.Mark) bool { return m.Disruption.UID == uid })
		if !named && (t == nil || !t.live()) {
			orphans = append(orphans, v1beta1.Mark{Object: "more than a report holds", Disruption: v1beta1.DisruptionRef{UID: uid}})
		}
	}
	return orphans
}

// disruptionsOf are the disruptions that marks name, each once.
func disruptionsOf(marks []v1beta1.Mark) []types.UID {
	var uids []types.UID
	for _, mark := range marks {
		if uid := mark.Disruption.UID; uid != "" && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	return uids
}

// whyLeft words what kept a mark from being taken off: the cleaner's words, or
// what is known without any.
func whyLeft(mark v1beta1.Mark, words map[types.UID]string) string {
	if mark.Disruption.UID == "" {
		return "it names no disruption: it ends with its injector, at its deadline"
	}
	if said := words[mark.Disruption.UID]; said != "" {
		return said
	}
	return "no journal on the node describes how to clean it up"
}
