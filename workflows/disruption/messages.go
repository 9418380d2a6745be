package disruption

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
)

// signals are the channels of the workflow's signals.
type signals struct{ observed, end, resume, probe workflow.ReceiveChannel }

// listen registers the query, the update and the signals.
func (d *disruption) listen(ctx workflow.Context) error {
	d.signals = signals{
		observed: workflow.GetSignalChannelWithOptions(ctx, contract.SignalObserved, workflow.SignalChannelOptions{
			Description: "Sent by the controller: something relevant changed in the cluster."}),
		end: workflow.GetSignalChannelWithOptions(ctx, contract.SignalEnd, workflow.SignalChannelOptions{
			Description: `Ends the disruption: everything is cleaned. {"reason":"why"} is optional.`}),
		resume: workflow.GetSignalChannelWithOptions(ctx, contract.SignalResume, workflow.SignalChannelOptions{
			Description: "As the update of the same name, for scripts that cannot wait for an answer. " + resumeHelp}),
		probe: workflow.GetSignalChannelWithOptions(ctx, contract.SignalProbe, workflow.SignalChannelOptions{
			Description: "Sent by the prober: the results of the probes changed."}),
	}
	workflow.Go(ctx, func(ctx workflow.Context) { d.signals.receive(ctx, d) })
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryStatus, func() (State, error) { return d.State, nil },
		workflow.QueryHandlerOptions{Description: "All the workflow knows of the disruption."})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateResume,
		func(ctx workflow.Context, r contract.Resume) (string, error) { return d.acceptResume(ctx, r), nil },
		workflow.UpdateHandlerOptions{
			Description: "Resumes a stuck disruption. " + resumeHelp,
			Validator:   func(r contract.Resume) error { return checkResume(d.Left, r) },
		})
}

const resumeHelp = `{"action":"retry"} retries the clean-up from the journal on the node. {"action":"release","by":"you","reason":"why"} releases the targets, clean or not; "targets":["name"] limits it.`

// receive handles signals for as long as the run lasts, also when the disruption is
// cancelled. It uses Await and Len instead of a Selector: a Selector consumes a signal
// when that arrives, before its callback runs, and if the run ends in between, the signal
// is lost.
func (s signals) receive(ctx workflow.Context, d *disruption) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	for workflow.Await(ctx, s.waiting) == nil {
		s.drain(ctx, d)
	}
}

func (s signals) waiting() bool { return s.observed.Len()+s.end.Len()+s.resume.Len()+s.probe.Len() > 0 }

// drain handles all signals that have arrived and were not received yet.
func (s signals) drain(ctx workflow.Context, d *disruption) {
	flow.Each(s.observed, d.observe)
	flow.Each(s.end, func(end any) {
		why := cmp.Or(flow.ReasonOf(end), v1beta1.EndingDeleted)
		d.SkipRecovery = d.SkipRecovery || endsAtOnce(why)
		d.end(why)
	})
	flow.Each(s.probe, func(transition contract.ProbeTransition) { d.guard.receive(ctx, transition) })
	flow.Each(s.resume, func(r contract.Resume) {
		if err := d.receiveResume(ctx, r); err != nil {
			workflow.GetLogger(ctx).Warn("resume signal refused", "error", err)
		}
	})
}

// observe keeps the newest observation. It adds from an earlier one that the spec changed
// or an effect turned, and in which shards something ended.
func (i *Inbox) observe(o contract.Observation) {
	if i.Observed != nil {
		if i.Observed.MoreEnded(nil) {
			o.Shards = union(i.Observed.Shards, o.Shards)
		}
		o.SpecChanged = o.SpecChanged || i.Observed.SpecChanged
		o.Unready = max(o.Unready, i.Observed.Unready)
	}
	i.Observed = &o
}

// union are the shards that two observations name; none when one of them names none.
func union(a, b []int) []int {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// receiveResume accepts a resume that came as a signal, which still has to be checked.
func (d *disruption) receiveResume(ctx workflow.Context, r contract.Resume) error {
	if err := checkResume(d.Left, r); err != nil {
		return err
	}
	d.acceptResume(ctx, r)
	return nil
}

// acceptResume keeps a decision until applyResumes. A release names the chaos pods that
// are left now. If there are more than are listed, it has the time of its acceptance
// instead: a chaos pod that fails later is not part of the decision.
func (d *disruption) acceptResume(ctx workflow.Context, r contract.Resume) string {
	decision := Decision{Resume: r}
	if r.Action == contract.ActionRelease {
		switch {
		case len(r.Targets) > 0:
			decision.Pods = podsOf(d.Left, r.Targets)
		case d.Remaining <= len(d.Left):
			decision.Targets = targetsOf(d.Left)
			decision.Pods = podsOf(d.Left, decision.Targets)
		default:
			now := workflow.Now(ctx)
			decision.Until = &now
		}
	}
	d.Decided = append(d.Decided, decision)
	if r.Action == contract.ActionRelease {
		return "releasing " + names(d.Left, decision.Targets)
	}
	return "cleaning again: " + names(d.Left, r.Targets)
}

// applyResumes carries out the accepted decisions, in the order in which they
// came.
func (d *disruption) applyResumes(ctx workflow.Context) {
	for _, r := range d.Decided {
		switch {
		case r.Action == contract.ActionRetry && len(r.Targets) == 0:
			d.Retry = allTargets
		case r.Action == contract.ActionRetry:
			d.Retry = append(slices.Clone(d.Retry), r.Targets...)
		case d.ReleaseUntil != nil: // all that is left is released already
		case r.Until != nil:
			d.ReleasedPods += d.Remaining - len(d.Release)
			d.ReleaseUntil = r.Until
		default:
			fresh := slices.DeleteFunc(slices.Clone(r.Pods), func(id string) bool { return slices.Contains(d.Release, id) })
			d.ReleasedPods += len(fresh)
			d.Release = append(slices.Clone(d.Release), fresh...)
		}
		d.Resumes = append(d.Resumes, v1beta1.ResumeRecord{
			Action: r.Action, By: r.By, Reason: r.Reason, Targets: r.Targets, Time: metav1.NewTime(workflow.Now(ctx)),
		})
		d.notifier.resumed(ctx, r.Resume)
	}
	d.Decided = nil
	d.Resumes = d.Resumes[max(0, len(d.Resumes)-20):]
}

// checkResume returns an error about a wrong resume, for the dialog it came from.
func checkResume(left []chaospod.LeftPod, r contract.Resume) error {
	if r.Action != contract.ActionRetry && r.Action != contract.ActionRelease {
		return fmt.Errorf(`action must be "retry" or "release", got %q`, r.Action)
	}
	if len(left) == 0 {
		return fmt.Errorf("the disruption is not stuck: there is nothing to resume")
	}
	for _, name := range r.Targets {
		if count(left, []string{name}) == 0 {
			return fmt.Errorf("target %q is not stuck; stuck are: %s", name, names(left, nil))
		}
	}
	if r.Action == contract.ActionRelease && (strings.TrimSpace(r.By) == "" || strings.TrimSpace(r.Reason) == "") {
		return fmt.Errorf(`release leaves something on a node for good: it needs "by" (who decides) and "reason" (why)`)
	}
	return nil
}

func count(left []chaospod.LeftPod, targets []string) (n int) {
	for _, pod := range left {
		if slices.Contains(targets, pod.Target) {
			n++
		}
	}
	return n
}

// names lists targets for a person: the given ones, or all that are left.
func names(left []chaospod.LeftPod, targets []string) string {
	if len(targets) == 0 {
		targets = targetsOf(left)
	}
	return strings.Join(targets, ", ")
}

// podsOf are the chaos pods of these targets, by UID.
func podsOf(left []chaospod.LeftPod, targets []string) (ids []string) {
	for _, pod := range left {
		if slices.Contains(targets, pod.Target) {
			ids = append(ids, pod.ID())
		}
	}
	return ids
}

// targetsOf names the targets of chaos pods, each once.
func targetsOf(left []chaospod.LeftPod) (targets []string) {
	for _, pod := range left {
		if !slices.Contains(targets, pod.Target) {
			targets = append(targets, pod.Target)
		}
	}
	return targets
}
