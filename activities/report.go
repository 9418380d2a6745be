package activities

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Report is what the workflow decided and a user must see.
type Report struct {
	Disruption Ref           `json:"disruption"`
	Phase      v1beta1.Phase `json:"phase"`
	// Ending says why the disruption ends, when it does.
	Ending string `json:"ending,omitempty"`
	// Left are the chaos pods that failed to clean: in phase Stuck they keep it
	// from ending, before that it goes on beside them.
	Left      []LeftPod `json:"left,omitempty"`
	Remaining int       `json:"remaining,omitempty"`
	// Advice says what a person can do about it.
	Advice string `json:"advice,omitempty"`
	// Resumes are the decisions people took so far.
	Resumes []v1beta1.ResumeRecord `json:"resumes,omitempty"`
	// Round counts how often the disruption was stuck.
	Round int `json:"round,omitempty"`
}

// ReportPhase writes a phase and what belongs to it into status, and tells
// what happened as events.
func (a *Activities) ReportPhase(ctx context.Context, r Report) error {
	if err := a.reportEvents(ctx, named(r.Disruption), r); err != nil {
		return err
	}
	if r.Ending == EndingDeleted {
		a.Disruptions.Deleted(r.Disruption)
	}
	return a.Disruptions.UpdateStatus(ctx, r.Disruption, func(d *v1beta1.Disruption) { showReport(d, r) })
}

func (a *Activities) reportEvents(ctx context.Context, d *v1beta1.Disruption, r Report) error {
	if r.Phase == v1beta1.PhaseCleaning && r.Ending == EndingExpired && r.Round == 0 {
		return a.tell(ctx, d, "DurationOver", "the disruption has lasted for its duration and is taken off", "")
	}
	if r.Phase == v1beta1.PhaseCleaning && strings.HasPrefix(r.Ending, v1beta1.EndingEmergencyStop) && r.Round == 0 {
		return a.warn(ctx, d, v1beta1.ReasonEmergencyStop, r.Ending+"; everything is taken off", "")
	}
	if len(r.Left) > 0 {
		activity.GetMetricsHandler(ctx).Counter("squall_stuck_total").Inc(1)
	}
	for _, left := range r.Left {
		message := fmt.Sprintf("chaos pod %s on node %s, target %s: %s", left.Pod, left.Node, left.Target, left.Why)
		if err := a.warn(ctx, d, "StuckOnRemoval", message, fmt.Sprint(left.Pod, r.Round)); err != nil {
			return err
		}
	}
	return nil
}

// Endings of a disruption whose duration is over, and of one that was deleted.
const (
	EndingExpired = "expired"
	EndingDeleted = "deleted"
)

func showReport(d *v1beta1.Disruption, r Report) {
	s := &d.Status
	if s.Phase != v1beta1.PhaseFinished || len(r.Left) > 0 {
		s.Phase = r.Phase // one that has finished may be cleaned once more, and never begun
	}
	if len(r.Resumes) > 0 {
		s.Resumes = r.Resumes
	}
	if r.Ending != "" {
		s.Ending = r.Ending
		s.InjectionStatus = previously(s.InjectionStatus)
		s.InjectedTargetsCount, s.Targets = 0, fmt.Sprintf("0/%d", s.SelectedTargetsCount)
		setCondition(d, v1beta1.ConditionInjected, metav1.ConditionFalse, "Ended", "the disruption ends: "+r.Ending)
	}
	if len(r.Left) == 0 {
		if s.IsStuckOnRemoval {
			s.IsStuckOnRemoval = false
			setCondition(d, v1beta1.ConditionStuckOnRemoval, metav1.ConditionFalse, "Resumed", "cleaning goes on")
		}
		return
	}
	s.IsStuckOnRemoval = true
	message := chaospod.ForPeople(r.Remaining) + " not clean"
	for _, left := range r.Left[:min(len(r.Left), 5)] {
		message += fmt.Sprintf("; %s on node %s, target %s: %s", left.Pod, left.Node, left.Target, left.Why)
		markStuck(s, left)
	}
	setCondition(d, v1beta1.ConditionStuckOnRemoval, metav1.ConditionTrue, "CleaningFailed", message+". "+r.Advice)
	setCondition(d, v1beta1.ConditionCleaned, metav1.ConditionFalse, "StuckOnRemoval", message)
}

func markStuck(s *v1beta1.DisruptionStatus, left LeftPod) {
	if kinds := s.TargetInjections[left.Target]; kinds != nil {
		injection := kinds[left.Kind]
		injection.InjectorPodName, injection.InjectionStatus, injection.Reason = left.Pod, v1beta1.IsStuckOnRemoval, left.Why
		kinds[left.Kind] = injection
	}
}

// previously is the injection status of a disruption that has ended.
func previously(s v1beta1.InjectionStatus) v1beta1.InjectionStatus {
	switch s {
	case v1beta1.Injected, v1beta1.PausedInjected:
		return v1beta1.PreviouslyInjected
	case v1beta1.PartiallyInjected, v1beta1.PausedPartiallyInjected:
		return v1beta1.PreviouslyPartiallyInjected
	case v1beta1.NotInjected, "":
		return v1beta1.PreviouslyNotInjected
	}
	return s
}

// WarnSpecChanged warns that an edited spec has no effect (rules 8-10a).
// It tells each edit once.
func (a *Activities) WarnSpecChanged(ctx context.Context, ref Ref) error {
	live, err := a.Disruptions.Get(ctx, ref)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	begun, err := a.Targets.LoadSpec(ctx, ref)
	if err != nil {
		return err
	}
	live.Default()
	hash := live.Spec.Hash()
	if hash == begun.Spec.Hash() {
		return nil
	}
	return a.warn(ctx, live, "SpecChanged",
		"the spec was edited; the disruption goes on as it began. Delete it and create it again to change it", hash)
}

// FinishInput is what a finished disruption is asked for.
type FinishInput struct {
	Disruption Ref  `json:"disruption"`
	Rejected   bool `json:"rejected,omitempty"`
	// Ending says why the disruption ended.
	Ending  string                 `json:"ending,omitempty"`
	Resumes []v1beta1.ResumeRecord `json:"resumes,omitempty"`
	// ReleasedPods counts chaos pods a person released without their being clean.
	ReleasedPods int `json:"releasedPods,omitempty"`
	// NotVerified lists what is left on nodes, or could not be looked at.
	NotVerified []string `json:"notVerified,omitempty"`
}

// Finish writes the last status, forgets the records and lets the Disruption
// go, in this order, once no chaos pod is left (rule 6). It returns how
// many are left; then it did nothing.
func (a *Activities) Finish(ctx context.Context, e FinishInput) (left int, err error) {
	pods, err := a.listChaosPods(ctx, Shard{e.Disruption, AllShards})
	if err != nil || len(pods) > 0 {
		return len(pods), err
	}
	if !e.Rejected {
		if err := a.reportFinished(ctx, e); err != nil {
			return 0, err
		}
	}
	if err := a.Targets.DeleteRecords(ctx, e.Disruption); err != nil {
		return 0, err
	}
	return 0, a.Disruptions.RemoveFinalizer(ctx, e.Disruption)
}

func (a *Activities) reportFinished(ctx context.Context, e FinishInput) error {
	group, ctx := errgroup.WithContext(ctx)
	for reason, message := range map[string]string{"Cleaned": "no chaos pod is left", "Finished": "the disruption is over"} {
		group.Go(func() error { return a.tell(ctx, named(e.Disruption), reason, message, "") })
	}
	group.Go(func() error { return a.showFinished(ctx, e) })
	return group.Wait()
}

func (a *Activities) showFinished(ctx context.Context, e FinishInput) error {
	if e.Ending == EndingDeleted {
		a.Disruptions.Deleted(e.Disruption)
	}
	return a.Disruptions.UpdateStatus(ctx, e.Disruption, func(d *v1beta1.Disruption) {
		showReport(d, Report{Phase: v1beta1.PhaseFinished, Ending: cmp.Or(e.Ending, "finished"), Resumes: e.Resumes})
		for _, kinds := range d.Status.TargetInjections {
			for kind, injection := range kinds {
				injection.InjectionStatus = v1beta1.NotInjected
				kinds[kind] = injection
			}
		}
		if d.Status.CleanedAt == nil {
			now := metav1.Now()
			d.Status.CleanedAt = &now
		}
		reason, message := e.verdict()
		verified := len(e.NotVerified) == 0
		d.Status.CleanedVerified = &verified
		setCondition(d, v1beta1.ConditionCleaned, metav1.ConditionTrue, reason, message)
	})
}

// verdict is the reason and the message of the condition Cleaned.
func (e FinishInput) verdict() (reason, message string) {
	reason, message = "Cleaned", "no chaos pod is left, and the nodes were searched: nothing is left there"
	if len(e.NotVerified) > 0 {
		reason = "NotVerified"
		message = "no chaos pod is left, but on the nodes: " + strings.Join(e.NotVerified, "; ")
	}
	if e.ReleasedPods > 0 {
		reason = "Released"
		message += fmt.Sprintf("; a person released %s that did not clean", chaospod.ForPeople(e.ReleasedPods))
	}
	return reason, message
}
