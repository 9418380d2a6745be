package orphans

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// Orchestrator is the part of a Temporal client that a sweep needs.
type Orchestrator interface {
	start.Temporal
	DescribeWorkflowExecution(ctx context.Context, id, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
}

// Orphan is something that no live disruption owns.
type Orphan struct {
	// Disruption is namespace/name (uid), as far as it is known.
	Disruption string `json:"disruption"`
	// Node is empty for an object in the API.
	Node string `json:"node,omitempty"`
	What string `json:"what"`
	// Why it could not be cleaned now; the next sweep tries again. Empty when it was
	// cleaned.
	Why string `json:"why,omitempty"`
}

// Tally counts orphans of one sort.
type Tally struct {
	Found   int `json:"found"`
	Cleaned int `json:"cleaned"`
	Left    int `json:"left"`
}

// SweptRecords reports what a sweep found in the chaos namespace.
type SweptRecords struct {
	ChaosPods Tally `json:"chaosPods"`
	Records   Tally `json:"records"`
	// Cleaned and Left name at most 50 each, one line for a disruption.
	Cleaned []Orphan `json:"cleaned,omitempty"`
	Left    []Orphan `json:"left,omitempty"`
}

// Patience bounds how long SweepRecords waits for the workflows that it has started.
type Patience struct {
	For time.Duration `json:"for"`
}

// SweepRecords finds chaos pods and records whose Disruption is gone, or whose workflow
// does not run. It hands each such disruption to its workflow, which cleans up. A retry
// finds what is left.
func (a *Activities) SweepRecords(ctx context.Context, p Patience) (SweptRecords, error) {
	if err := a.deleteStaleCommands(ctx); err != nil {
		return SweptRecords{}, err
	}
	all, err := a.inventory(ctx)
	if err != nil {
		return SweptRecords{}, err
	}
	var orphans []footprint
	for _, t := range all {
		handed, err := a.handOver(ctx, *t)
		if err != nil {
			return SweptRecords{}, err
		}
		if handed {
			orphans = append(orphans, *t)
		}
	}
	left, err := a.awaitGone(ctx, orphans, p.For)
	if err != nil {
		return SweptRecords{}, err
	}
	swept := tallyRecords(orphans, left)
	countOrphans(ctx, "chaos-pod", swept.ChaosPods)
	countOrphans(ctx, "record", swept.Records)
	return swept, nil
}

// handOver gives a disruption to its workflow if it needs one.
func (a *Activities) handOver(ctx context.Context, t footprint) (handed bool, err error) {
	if t.pods+t.records == 0 {
		return false, nil
	}
	running, err := a.runs(ctx, t.ref)
	if err != nil {
		return false, err
	}
	log := activity.GetLogger(ctx)
	switch remedyFor(t, running) {
	case remedyEnd:
		log.Warn("orphans found: their workflow gets the signal to end", "disruption", describe(t.ref), "chaosPods", t.pods, "records", t.records)
		return true, a.end(ctx, t.ref)
	case remedyStart:
		if there, err := a.hasFootprint(ctx, t.ref); err != nil || !there {
			return false, err // it has ended normally since it was read
		}
		log.Warn("orphans found: a workflow is started to clean them", "disruption", describe(t.ref), "chaosPods", t.pods, "records", t.records)
		return true, a.start(ctx, t.ref)
	}
	return false, nil
}

// runs reports whether the disruption's workflow runs. A workflow unknown to Temporal
// does not.
func (a *Activities) runs(ctx context.Context, ref v1beta1.DisruptionRef) (bool, error) {
	answer, err := a.Temporal.DescribeWorkflowExecution(ctx, contract.WorkflowID(ref), "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for workflow %s: %w", contract.WorkflowID(ref), err)
	}
	return answer.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// end signals the workflow that its disruption is gone. A workflow that has ended since
// is left for the next sweep.
func (a *Activities) end(ctx context.Context, ref v1beta1.DisruptionRef) error {
	err := start.End(ctx, a.Temporal, ref, "")
	if errors.Is(err, start.ErrNotRunning) {
		return nil
	}
	return err
}

// start starts the disruption's workflow once more, also after a completed one: that
// one left the orphans, or they appeared later.
func (a *Activities) start(ctx context.Context, ref v1beta1.DisruptionRef) error {
	return start.StartCleaning(ctx, start.In(a.Cluster, a.Temporal), ref, start.RunAgain)
}

// hasFootprint reads live whether the disruption still has chaos pods or records.
func (a *Activities) hasFootprint(ctx context.Context, ref v1beta1.DisruptionRef) (bool, error) {
	one := metav1.ListOptions{LabelSelector: labels.Set{v1beta1.LabelDisruptionUID: string(ref.UID)}.String(), Limit: 1}
	pods, err := a.Kube.CoreV1().Pods(a.Builder.Namespace).List(ctx, one)
	if err != nil {
		return false, fmt.Errorf("list the chaos pods of disruption %s: %w", describe(ref), err)
	}
	records, err := a.Kube.CoreV1().ConfigMaps(a.Builder.Namespace).List(ctx, one)
	if err != nil {
		return false, fmt.Errorf("list the records of disruption %s: %w", describe(ref), err)
	}
	return len(pods.Items)+len(records.Items) > 0, nil
}

// awaitGone waits until nothing of the orphans is left, at most for patience, and
// returns what is left.
func (a *Activities) awaitGone(ctx context.Context, orphans []footprint, patience time.Duration) ([]footprint, error) {
	deadline := time.Now().Add(patience)
	for len(orphans) > 0 {
		all, err := a.inventory(ctx)
		if err != nil {
			return nil, err
		}
		var left []footprint
		for _, t := range orphans {
			if now := all[t.ref.UID]; now != nil && now.pods+now.records > 0 {
				left = append(left, *now)
			}
		}
		orphans = left
		if time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return orphans, nil
}

// tallyRecords counts what was found and what is left of it.
func tallyRecords(found, left []footprint) SweptRecords {
	var s SweptRecords
	for _, t := range found {
		s.ChaosPods.Found += t.pods
		s.Records.Found += t.records
	}
	line := func(t footprint, why string) Orphan {
		return Orphan{Disruption: describe(t.ref), What: fmt.Sprintf("%d chaos pods, %d records", t.pods, t.records), Why: why}
	}
	for _, t := range left {
		s.ChaosPods.Left += t.pods
		s.Records.Left += t.records
		s.Left = append(s.Left, line(t, "workflow "+contract.WorkflowID(t.ref)+" cleans them up, or shows in Temporal why it cannot"))
	}
	for _, t := range found {
		if !slices.ContainsFunc(left, func(l footprint) bool { return l.ref.UID == t.ref.UID }) {
			s.Cleaned = append(s.Cleaned, line(t, ""))
		}
	}
	s.Cleaned, s.Left = someOf(s.Cleaned), someOf(s.Left)
	s.ChaosPods.Cleaned = max(s.ChaosPods.Found-s.ChaosPods.Left, 0)
	s.Records.Cleaned = max(s.Records.Found-s.Records.Left, 0)
	return s
}

// someOf sorts orphans and keeps at most maxNamed.
func someOf(all []Orphan) []Orphan {
	slices.SortFunc(all, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Disruption, b.Disruption), cmp.Compare(a.What, b.What))
	})
	return all[:min(len(all), maxNamed)]
}

// countOrphans adds to the metrics.
func countOrphans(ctx context.Context, what string, t Tally) {
	metric.OrphansFound.Add(ctx, t.Found, what)
	metric.OrphansCleaned.Add(ctx, t.Cleaned, what)
	metric.OrphansLeft.Add(ctx, t.Left, what)
}

func describe(ref v1beta1.DisruptionRef) string {
	return fmt.Sprintf("%s/%s (%s)", ref.Namespace, ref.Name, ref.UID)
}
