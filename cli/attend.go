package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/view"
)

// attendance is a person, or a pipeline, that waits for the end of a disruption.
type attendance struct {
	*command
	client *cluster.Client
	ref    v1beta1.DisruptionRef
	line   *progress
	// last is what was seen last.
	last *v1beta1.Disruption
	// stopping is true once we have deleted it, asking while a person is asked.
	stopping, asking bool
	answers          chan string
}

// attend shows how far a disruption is until it is over, stuck or gone. Signals do
// not end it: they are answered.
func (c *command) attend(ctx context.Context, client *cluster.Client, d *v1beta1.Disruption) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	seen, notes, failed := make(chan *v1beta1.Disruption), make(chan string), make(chan error, 1)
	watchers.Go(func() {
		if err := c.watch(ctx, client, d.Ref(), seen, notes); err != nil {
			failed <- err
		}
	})
	watchers.Go(func() { client.FollowEvents(ctx, d.Ref(), notes) })
	a := &attendance{command: c, client: client, ref: d.Ref(), line: c.progress(), last: d, answers: make(chan string, 1)}
	defer a.line.end()
	clock := time.NewTicker(refresh)
	defer clock.Stop()
	for {
		select {
		case now := <-seen:
			if a.see(now) {
				a.line.end()
				return c.conclude(a.last)
			}
		case note := <-notes:
			a.line.note(note)
		case err := <-failed:
			return fmt.Errorf("watch disruption %s/%s, which goes on: %w", d.Namespace, d.Name, err)
		case <-c.interrupts:
			if err := a.interrupted(ctx); err != nil {
				return err
			}
		case answer := <-a.answers:
			if err := a.answered(ctx, answer); err != nil {
				return err
			}
		case <-clock.C:
			if c.terminal && !a.asking {
				a.show()
			}
		}
	}
}

// see takes in what was seen; true when that is the end.
func (a *attendance) see(d *v1beta1.Disruption) (ended bool) {
	if d == nil {
		if a.last.DeletionTimestamp == nil && !a.last.Status.Phase.Over() {
			now := a.now()
			a.last.DeletionTimestamp = &metav1.Time{Time: now}
		}
		a.last.Status.IsStuckOnRemoval = false
		return true
	}
	a.last = d
	if !a.asking {
		a.show()
	}
	// One that is being deleted is over when it is gone.
	return view.Stuck(d) || d.Status.Phase.Over() && d.DeletionTimestamp == nil && !a.stopping
}

func (a *attendance) show() {
	key, text := view.Progress(a.last, a.now())
	name := a.ref.Namespace + "/" + a.ref.Name + ": "
	a.line.say(name+key, name+text)
}

// interrupted is what a signal does: it asks a person, and stops the disruption
// for anybody else. The next one ends the waiting.
func (a *attendance) interrupted(ctx context.Context) error {
	switch {
	case a.stopping:
		return fmt.Errorf("disruption %s/%s is being ended and not gone yet: squall -n %[1]s status %[2]s says how far it is", a.ref.Namespace, a.ref.Name)
	case a.asks && !a.asking:
		a.asking = true
		a.line.end()
		_, _ = fmt.Fprintf(a.err, "[s]top the disruption, [l]eave it running, or [g]o on watching? ")
		go a.readAnswer() // it ends with the program: nothing interrupts a read from a terminal
		return nil
	}
	return a.stop(ctx)
}

func (a *attendance) readAnswer() {
	text, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil && text == "" {
		text = "stop"
	}
	a.answers <- strings.ToLower(strings.TrimSpace(text))
}

func (a *attendance) answered(ctx context.Context, answer string) error {
	a.asking = false
	switch {
	case a.stopping:
		return nil
	case strings.HasPrefix(answer, "s"):
		return a.stop(ctx)
	case strings.HasPrefix(answer, "l"):
		_, _ = fmt.Fprintf(a.out, "disruption %s/%s goes on: squall -n %[1]s stop %[2]s ends it\n", a.ref.Namespace, a.ref.Name)
		return exit{code: exitOK, err: errors.New("left running"), silent: true}
	}
	a.show()
	return nil
}

func (a *attendance) stop(ctx context.Context) error {
	a.stopping, a.asking = true, false
	a.line.note(fmt.Sprintf("disruption %s/%s is being ended; once more, and this ends without waiting", a.ref.Namespace, a.ref.Name))
	if err := a.client.Delete(ctx, a.ref); err != nil && !cluster.Gone(err) {
		return fmt.Errorf("end disruption %s/%s, which goes on: %w", a.ref.Namespace, a.ref.Name, err)
	}
	return nil
}
