package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/report"
	"github.com/squall-chaos/squall/cli/view"
)

func (c call) runDisruption(ctx context.Context, client *cluster.Client, d *v1beta1.Disruption, how *running, deadline <-chan time.Time) error {
	if how.replace {
		if err := c.replace(ctx, client, d); err != nil {
			return err
		}
	}
	created, err := client.Create(ctx, d, false)
	if err != nil {
		return cluster.CreateError(err, d)
	}
	if how.detach {
		_, _ = fmt.Fprintf(c.Out, "disruption %s/%s is created\n", created.Namespace, created.Name)
		return nil
	}
	subject := &attended{call: c, client: client, watching: watching{last: created}}
	how.reports.Subject, how.reports.Created = subject, true
	return c.attend(ctx, subject, deadline)
}

// attended is a disruption that a run waits for, as it was last seen.
type attended struct {
	call
	client *cluster.Client
	watching
	// ended is true once the result is known.
	ended bool
}

func (d *attended) called() string { return "disruption " + d.last.Namespace + "/" + d.last.Name }

func (d *attended) by(command string) string {
	return fmt.Sprintf("squall -n %s %s %s", d.last.Namespace, command, d.last.Name)
}

func (d *attended) follow(ctx context.Context, seen chan<- sight, notes chan<- string) error {
	ref := d.last.Ref()
	var events sync.WaitGroup
	defer events.Wait()
	events.Go(func() { d.client.FollowEvents(ctx, ref.Namespace, ref.UID, notes) })
	return d.client.FollowDisruption(ctx, ref, cluster.Watcher[v1beta1.Disruption]{
		Seen: func(now *v1beta1.Disruption) bool {
			return !send(ctx, seen, func(stopping bool) bool { return d.see(now, stopping) }) || now == nil
		},
		Away: func(err error) { send(ctx, notes, d.client.Unreachable(err).Error()) },
	})
}

// see stores the disruption as seen; true when it has ended.
func (d *attended) see(now *v1beta1.Disruption, stopping bool) (ended bool) {
	d.watching.see(now, d.Now())
	if now == nil {
		if d.last.DeletionTimestamp == nil && !d.last.Status.Phase.Over() {
			d.last.DeletionTimestamp = &metav1.Time{Time: d.Now()}
		}
		d.last.Status.IsStuckOnRemoval = false
		return true
	}
	// A disruption that is being deleted has ended when it is gone.
	return view.Stuck(now) || now.Status.Phase.Over() && now.DeletionTimestamp == nil && !stopping
}

func (d *attended) soFar(now time.Time) (key, text string) {
	key, text = view.Progress(d.last, now)
	name := d.last.Namespace + "/" + d.last.Name + ": "
	return name + key, name + text
}

func (d *attended) end(ctx context.Context) error { return d.client.Delete(ctx, d.last.Ref()) }

// conclude prints the result of a disruption, and returns its exit code.
func (d *attended) conclude() error {
	result := view.ResultOf(d.last)
	d.ended = true
	if result.Outcome != view.Passed {
		d.Describe(d.last, false)
	}
	_, _ = fmt.Fprintf(d.Out, "%s: %s/%s: %s\n", d.Tone(result.Tone, string(result.Outcome)), d.last.Namespace, d.last.Name, view.Printable(result.Why))
	if d.last.Status.CleanedVerified != nil && !*d.last.Status.CleanedVerified {
		_, _ = fmt.Fprintf(d.Out, "%s: something may be left on a node: squall -n %s status %s\n", d.Paint(console.Yellow, "warning"), d.last.Namespace, d.last.Name)
	}
	return console.Silently(console.CodeOfOutcome(result.Outcome))
}

// ReportInto implements report.Subject.
func (d *attended) ReportInto(_ context.Context, r *report.Report) {
	described := d.report()
	r.Disruptions = append(r.Disruptions, described)
	if d.ended {
		r.Outcome, r.Why = described.Outcome, described.Why
	}
}
