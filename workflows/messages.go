package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// inbox holds the signal channels, so that none is lost when a new run begins.
type inbox struct{ observed, end, resume workflow.ReceiveChannel }

// listen registers the query, the update and the signals.
func (d *disruption) listen(ctx workflow.Context) error {
	d.inbox = inbox{
		observed: workflow.GetSignalChannelWithOptions(ctx, contract.SignalObserved, workflow.SignalChannelOptions{
			Description: "Sent by the bridge: something relevant changed in the cluster."}),
		end: workflow.GetSignalChannelWithOptions(ctx, contract.SignalEnd, workflow.SignalChannelOptions{
			Description: `Ends the disruption: everything is cleaned. {"reason":"why"} is optional.`}),
		resume: workflow.GetSignalChannelWithOptions(ctx, contract.SignalResume, workflow.SignalChannelOptions{
			Description: "As the update of the same name, for scripts that cannot wait for an answer. " + resumeHelp}),
	}
	workflow.Go(ctx, func(ctx workflow.Context) { d.inbox.receive(ctx, d) })
	err := workflow.SetQueryHandlerWithOptions(ctx, contract.QueryStatus, func() (State, error) { return d.State, nil },
		workflow.QueryHandlerOptions{Description: "All the workflow knows of the disruption."})
	if err != nil {
		return err
	}
	return workflow.SetUpdateHandlerWithOptions(ctx, contract.UpdateResume,
		func(_ workflow.Context, r contract.Resume) (string, error) { return d.take(r), nil },
		workflow.UpdateHandlerOptions{
			Description: "Resumes a stuck disruption. " + resumeHelp,
			Validator:   func(r contract.Resume) error { return checkResume(d.Left, r) },
		})
}

const resumeHelp = `{"action":"retry"} cleans again from the journal on the node. {"action":"release","by":"you","reason":"why"} lets go, whatever is left on the node; "targets":["name"] limits it.`

// receive takes in signals for as long as the run lasts, also when the
// disruption is cancelled. It waits without a selector: one that waits is
// handed a signal as soon as that comes, and a run that ended before the
// selector's turn would take it along.
func (in inbox) receive(ctx workflow.Context, d *disruption) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	for workflow.Await(ctx, in.full) == nil {
		in.drain(ctx, d)
	}
}

func (in inbox) full() bool { return in.observed.Len()+in.end.Len()+in.resume.Len() > 0 }

// drain takes in what has come and was not received yet.
func (in inbox) drain(ctx workflow.Context, d *disruption) {
	each(in.observed, d.observe)
	each(in.end, func(end any) { d.end(endingOf(end)) })
	each(in.resume, func(r contract.Resume) {
		if err := d.offer(r); err != nil {
			workflow.GetLogger(ctx).Warn("resume signal refused", "error", err)
		}
	})
}

// each takes all that waits in a channel. What is not a T is dropped, and
// the SDK says so in the log.
func each[T any](c workflow.ReceiveChannel, take func(T)) {
	for {
		var message T
		if !c.ReceiveAsync(&message) {
			return
		}
		take(message)
	}
}

// endingOf is the reason in a contract.End. Any other argument ends the
// disruption as well: it is not the time to be particular.
func endingOf(end any) string {
	if fields, ok := end.(map[string]any); ok {
		if reason, ok := fields["reason"].(string); ok && reason != "" {
			return reason
		}
	}
	return activities.EndingDeleted
}

// observe keeps the newest observation, and that the spec changed in any.
func (d *disruption) observe(o contract.Observation) {
	if d.Observed != nil {
		o.SpecChanged = o.SpecChanged || d.Observed.SpecChanged
	}
	d.Observed = &o
}

// offer is a resume that nobody checked yet.
func (d *disruption) offer(r contract.Resume) error {
	if err := checkResume(d.Left, r); err != nil {
		return err
	}
	d.take(r)
	return nil
}

// take keeps a decision until it is carried out. Who releases all that is left
// lets go of what is left now, and not of what fails meanwhile.
func (d *disruption) take(r contract.Resume) string {
	if r.Action == contract.ActionRelease && len(r.Targets) == 0 && d.Remaining <= len(d.Left) {
		r.Targets = targetsOf(d.Left)
	}
	d.Decided = append(d.Decided, r)
	if r.Action == contract.ActionRelease {
		return "releasing " + names(d.Left, r.Targets)
	}
	return "cleaning again: " + names(d.Left, r.Targets)
}

// decide carries out what people decided, in the order in which they did.
func (d *disruption) decide(ctx workflow.Context) {
	for _, r := range d.Decided {
		switch {
		case r.Action == contract.ActionRetry && len(r.Targets) == 0:
			d.Retry = everything
		case r.Action == contract.ActionRetry:
			d.Retry = append(slices.Clone(d.Retry), r.Targets...)
		case slices.Equal(d.Release, everything): // all that is left is let go already
		case len(r.Targets) == 0:
			d.LetGo += d.Remaining - count(d.Left, d.Release)
			d.Release = everything
		default:
			fresh := slices.DeleteFunc(slices.Clone(r.Targets), func(name string) bool { return slices.Contains(d.Release, name) })
			d.LetGo += count(d.Left, fresh)
			d.Release = append(slices.Clone(d.Release), fresh...)
		}
		d.Resumes = append(d.Resumes, v1beta1.ResumeRecord{
			Action: r.Action, By: r.By, Reason: r.Reason, Targets: r.Targets, Time: metav1.NewTime(workflow.Now(ctx)),
		})
	}
	d.Decided = nil
	d.Resumes = d.Resumes[max(0, len(d.Resumes)-20):]
}

// checkResume says what is wrong with a resume, for the dialog it came from.
func checkResume(left []activities.LeftPod, r contract.Resume) error {
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

func count(left []activities.LeftPod, targets []string) (n int) {
	for _, pod := range left {
		if slices.Contains(targets, pod.Target) {
			n++
		}
	}
	return n
}

// names lists targets for a person: those given, or all that are left.
func names(left []activities.LeftPod, targets []string) string {
	if len(targets) == 0 {
		targets = targetsOf(left)
	}
	return strings.Join(targets, ", ")
}

// targetsOf names the targets of chaos pods, each once.
func targetsOf(left []activities.LeftPod) (targets []string) {
	for _, pod := range left {
		if !slices.Contains(targets, pod.Target) {
			targets = append(targets, pod.Target)
		}
	}
	return targets
}
