package replace

import (
	"cmp"
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// writeProgress writes the changes into the records, and then into status.
func (r *replacing) writeProgress(ctx context.Context) error {
	if err := r.writeRecords(ctx); err != nil {
		return err
	}
	progress, began := r.progress(), activity.GetInfo(ctx).ScheduledTime
	return r.a.Disruptions.UpdateStatus(ctx, r.d.Ref(), func(live *v1beta1.Disruption) { status.ShowProgress(live, progress, began) })
}

func (r *replacing) writeRecords(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.dirty {
		if err := r.a.Targets.Write(ctx, &r.shards[i]); err != nil {
			return err
		}
		delete(r.dirty, i)
	}
	return nil
}

// progress is the state of the records in the form of status.
func (r *replacing) progress() chaospod.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := chaospod.Progress{Targets: map[string]map[v1beta1.Kind]v1beta1.TargetInjection{}, Waiting: map[string]bool{}}
	for _, target := range targets.Active(r.shards) {
		done := *target.Replacement
		injection := v1beta1.TargetInjection{TargetUID: target.UID, InjectionStatus: v1beta1.NotInjected, Reason: done.Why}
		p.Total++
		if done.State == targets.Replaced {
			injection.InjectionStatus, injection.Since = v1beta1.Injected, &done.Since
			injection.Effect = &v1beta1.Effect{State: v1beta1.EffectProven, Evidence: "the pod was deleted and is gone", Since: done.Since}
			p.Injected++
			p.ReadyPods++
		}
		if done.WaitsSince != nil {
			p.Waiting[target.Name] = true
		}
		p.Targets[target.Name] = map[v1beta1.Kind]v1beta1.TargetInjection{v1beta1.KindPodReplacement: injection}
	}
	return p
}

// recordEvents records the results on the disruption, with one event for all targets with
// the same result.
func (r *replacing) recordEvents(ctx context.Context) {
	var done, failed, lost []string
	why := ""
	for _, target := range targets.Active(r.shards) {
		switch target.Replacement.State {
		case targets.Replaced:
			done = append(done, target.Name)
		case targets.NotReplaced:
			failed, why = append(failed, target.Name), cmp.Or(why, target.Replacement.Why)
		}
	}
	for _, target := range r.lost {
		lost = append(lost, target.Name)
	}
	if len(done) > 0 {
		cluster.Events(r.a.Kube).Record(ctx, r.d, "Replaced", fmt.Sprintf("pods replaced: %d (%s)", len(done), cluster.ShortList(done)), fmt.Sprint(len(done)))
	}
	if len(failed) > 0 {
		cluster.Events(r.a.Kube).Warn(ctx, r.d, "NotReplaced", fmt.Sprintf("pods not replaced: %d (%s); the first: %s", len(failed), cluster.ShortList(failed), why), fmt.Sprint(len(failed)))
	}
	if len(lost) > 0 {
		cluster.Events(r.a.Kube).Record(ctx, r.d, "TargetLost", fmt.Sprintf("targets deleted, ended or about to end: %d (%s)", len(lost), cluster.ShortList(lost)), cluster.ShortList(lost))
	}
}

func (r *replacing) result() Result {
	p := r.progress()
	return Result{Replaced: p.Injected, Total: p.Total, Lost: len(r.lost), Stopped: r.stopped}
}
