package run

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/report"
	"github.com/squall-chaos/squall/cli/view"
)

// stuckEvery is how often the command checks whether a disruption of a scenario is stuck:
// the scenario's status shows it only as running.
const stuckEvery = 3 * time.Second

// runScenario is squall run of a scenario.
func (c call) runScenario(ctx context.Context, client *cluster.Client, s *v1beta1.DisruptionScenario, how *running, deadline <-chan time.Time) error {
	if how.replace {
		if err := c.replaceScenario(ctx, client, s); err != nil {
			return err
		}
	}
	created, err := client.CreateScenario(ctx, s)
	switch {
	case apierrors.IsAlreadyExists(err):
		return scenarioExists(s)
	case err != nil:
		return fmt.Errorf("create scenario %s/%s: %w", s.Namespace, s.Name, err)
	case how.detach:
		_, _ = fmt.Fprintf(c.Out, "scenario %s/%s is created\n", created.Namespace, created.Name)
		return nil
	}
	subject := &attendedScenario{call: c, client: client, last: created, disruptions: map[types.UID]*watching{}}
	how.reports.Subject, how.reports.Created = subject, true
	return c.attend(ctx, subject, deadline)
}

func scenarioExists(s *v1beta1.DisruptionScenario) error {
	return fmt.Errorf("scenario %s/%s exists already. See it: squall -n %[1]s status %[3]s%[2]s. End it: squall -n %[1]s stop %[3]s%[2]s. Replace it once it has ended: squall run --replace", s.Namespace, s.Name, console.ScenarioPrefix)
}

// attendedScenario is a scenario that a run waits for, as it was last seen.
type attendedScenario struct {
	call
	client *cluster.Client
	last   *v1beta1.DisruptionScenario
	gone   bool
	// stuck are its disruptions that wait for a person, when no other runs.
	stuck []v1beta1.Disruption
	// disruptions are all that it had, and result is set once it is known.
	disruptions map[types.UID]*watching
	result      *view.Result
}

func (s *attendedScenario) called() string { return "scenario " + s.last.Namespace + "/" + s.last.Name }

func (s *attendedScenario) by(command string) string {
	return fmt.Sprintf("squall -n %s %s %s%s", s.last.Namespace, command, console.ScenarioPrefix, s.last.Name)
}

func (s *attendedScenario) follow(ctx context.Context, seen chan<- sight, notes chan<- string) error {
	made := s.last // another goroutine owns s.last from the first sight on
	shown := ""
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { s.client.FollowEvents(ctx, made.Namespace, made.UID, notes) })
	others.Go(func() { s.lookAtDisruptions(ctx, made, seen) })
	return s.client.FollowScenario(ctx, made.Namespace, made.Name, made.UID, cluster.Watcher[v1beta1.DisruptionScenario]{
		Seen: func(now *v1beta1.DisruptionScenario) bool {
			if !send(ctx, seen, func(stopping bool) bool { return s.see(now, stopping) }) || now == nil {
				return true
			}
			how := view.HowToApprove(now)
			if s.ErrTerminal && how != "" && how != shown {
				send(ctx, notes, how)
			}
			shown = how
			return false
		},
		Away: func(err error) { send(ctx, notes, s.client.Unreachable(err).Error()) },
	})
}

// lookAtDisruptions follows the disruptions of the scenario. It ends the waiting when all
// that still run wait for a person.
func (s *attendedScenario) lookAtDisruptions(ctx context.Context, made *v1beta1.DisruptionScenario, seen chan<- sight) {
	for ctx.Err() == nil {
		if owned, err := s.client.DisruptionsOf(ctx, made); err == nil {
			left, stuck := view.Left(owned)
			send(ctx, seen, func(bool) bool {
				s.seeDisruptions(owned)
				if left == 0 || left > len(stuck) {
					return false
				}
				s.stuck = stuck
				return true
			})
		}
		select {
		case <-ctx.Done():
		case <-time.After(stuckEvery):
		}
	}
}

// see stores the scenario as seen; true when it has ended.
func (s *attendedScenario) see(now *v1beta1.DisruptionScenario, stopping bool) (ended bool) {
	if s.gone = now == nil; s.gone {
		return true
	}
	s.last = now
	return now.Status.Phase.Over() && now.DeletionTimestamp == nil && !stopping
}

func (s *attendedScenario) soFar(time.Time) (key, text string) {
	text = s.last.Namespace + "/" + s.last.Name + ": " + view.ScenarioProgress(s.last)
	if how := view.HowToApprove(s.last); how != "" {
		return text + "; " + how, text // a terminal shows it in a line of its own, which is not cut
	}
	return text, text
}

func (s *attendedScenario) end(ctx context.Context) error {
	return s.client.DeleteScenario(ctx, s.last)
}

// conclude prints the result of a scenario, and returns its exit code.
func (s *attendedScenario) conclude() error {
	result := view.ScenarioResult(s.last, s.gone, len(s.stuck))
	s.result = &result
	if result.Outcome != view.Passed {
		s.Lines(view.Scenario(s.last, s.Now()))
	}
	for i := range s.stuck {
		s.Describe(&s.stuck[i], false)
	}
	_, _ = fmt.Fprintf(s.Out, "%s: %s/%s: %s\n", s.Tone(result.Tone, string(result.Outcome)), s.last.Namespace, s.last.Name, view.Printable(result.Why))
	return console.Silently(console.CodeOfOutcome(result.Outcome))
}

// ReportInto implements report.Subject.
func (s *attendedScenario) ReportInto(ctx context.Context, r *report.Report) {
	if owned, err := s.client.DisruptionsOf(ctx, s.last); err == nil {
		s.seeDisruptions(owned)
	}
	seen := map[string]report.Disruption{}
	for uid, one := range s.disruptions {
		seen[string(uid)] = one.report()
	}
	r.Scenario, r.Disruptions = report.OfScenario(s.last, seen)
	if s.result != nil {
		r.Outcome, r.Why = s.result.Outcome, s.result.Why
	}
}

// seeDisruptions stores the current disruptions of the scenario.
func (s *attendedScenario) seeDisruptions(owned []v1beta1.Disruption) {
	for uid, one := range s.disruptions {
		if !slices.ContainsFunc(owned, func(d v1beta1.Disruption) bool { return d.UID == uid }) {
			one.see(nil, s.Now())
		}
	}
	for i := range owned {
		d := &owned[i]
		if s.disruptions[d.UID] == nil {
			s.disruptions[d.UID] = &watching{}
		}
		s.disruptions[d.UID].see(d, s.Now())
	}
}
