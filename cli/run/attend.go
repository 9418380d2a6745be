package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
)

// subject is a disruption or a scenario that a run waits for.
type subject interface {
	// called is its kind, namespace and name. by is the command of squall with its name.
	called() string
	by(command string) string
	// follow watches it until ctx ends or the watch fails. The functions sent on seen run
	// on the goroutine of attend; one returns true when the subject has ended.
	follow(ctx context.Context, seen chan<- sight, notes chan<- string) error
	// soFar is its progress; key omits the parts that change all the time.
	soFar(now time.Time) (key, text string)
	// end deletes it.
	end(ctx context.Context) error
	// conclude prints the result, and returns its exit code.
	conclude() error
}

// sight processes what a watch saw; stopping is true once we have ended the subject
// ourselves.
type sight func(stopping bool) (ended bool)

// send returns false if ctx ended before the value was received.
func send[T any](ctx context.Context, to chan<- T, what T) bool {
	select {
	case to <- what:
		return true
	case <-ctx.Done():
		return false
	}
}

// attendance is a person, or a pipeline, that waits for the end of a subject.
type attendance struct {
	call
	subject
	line *console.Progress
	// stopping is true once we have ended it, asking while a question to a person is open.
	stopping, asking bool
	typed            *bufio.Reader
	answers          chan string
}

// attend shows the progress of a subject until it is over, stuck or gone, or until deadline
// unless that is nil. Signals do not end attend: it answers them.
func (c call) attend(ctx context.Context, s subject, deadline <-chan time.Time) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	seen, notes, failed := make(chan sight), make(chan string), make(chan error, 1)
	watchers.Go(func() {
		if err := s.follow(ctx, seen, notes); err != nil {
			failed <- err
		}
	})
	a := &attendance{call: c, subject: s, line: c.Progress(), typed: bufio.NewReader(c.In), answers: make(chan string, 1)}
	defer a.line.End()
	clock := time.NewTicker(console.Refresh)
	defer clock.Stop()
	for {
		select {
		case take := <-seen:
			if take(a.stopping) {
				a.line.End()
				return s.conclude()
			}
			if !a.asking {
				a.show()
			}
		case note := <-notes:
			a.line.Note(note)
		case err := <-failed:
			return fmt.Errorf("watch %s, which goes on: %w", s.called(), err)
		case <-deadline:
			a.line.End()
			return a.tooLong()
		case <-c.Interrupts:
			if err := a.interrupted(ctx); err != nil {
				return err
			}
		case answer := <-a.answers:
			if err := a.answered(ctx, answer); err != nil {
				return err
			}
		case <-clock.C:
			if c.ErrTerminal && !a.asking {
				a.show()
			}
		}
	}
}

func (a *attendance) show() {
	a.line.Show(a.soFar(a.Now()))
}

// tooLong is the error after the deadline.
func (a *attendance) tooLong() error {
	if a.stopping {
		return fmt.Errorf("%s is being ended and was not gone within --timeout: %s shows its state", a.called(), a.by("status"))
	}
	return fmt.Errorf("%s did not end within --timeout and goes on: %s shows its state, %s ends it", a.called(), a.by("status"), a.by("stop"))
}

// interrupted handles a signal. On a terminal it asks the person; elsewhere it ends the
// subject. The next signal stops waiting.
func (a *attendance) interrupted(ctx context.Context) error {
	switch {
	case a.stopping:
		return fmt.Errorf("%s is ending but not gone yet; see %s", a.called(), a.by("status"))
	case a.Asks && !a.asking:
		a.line.End()
		a.ask()
		return nil
	}
	return a.stop(ctx)
}

func (a *attendance) ask() {
	a.asking = true
	_, _ = fmt.Fprintf(a.Err, "[s]top %s, [l]eave it running, or [g]o on watching? ", a.called())
	go a.readAnswer() // it ends with the program: nothing interrupts a read from a terminal
}

func (a *attendance) readAnswer() {
	text, err := a.typed.ReadString('\n')
	if err != nil && text == "" {
		text = "stop"
	}
	a.answers <- strings.ToLower(strings.TrimSpace(text))
}

func (a *attendance) answered(ctx context.Context, answer string) error {
	a.asking = false
	switch {
	case a.stopping:
	case strings.HasPrefix(answer, "s"):
		return a.stop(ctx)
	case strings.HasPrefix(answer, "l"):
		_, _ = fmt.Fprintf(a.Out, "%s goes on: %s ends it\n", a.called(), a.by("stop"))
		return console.Exit{Code: console.ExitOK, Err: errors.New("left running"), Silent: true}
	case strings.HasPrefix(answer, "g"):
		a.show()
	default:
		a.ask()
	}
	return nil
}

func (a *attendance) stop(ctx context.Context) error {
	a.stopping, a.asking = true, false
	a.line.Note(a.called() + " is being ended; once more, and this ends without waiting")
	if err := a.end(ctx); err != nil && !cluster.Gone(err) {
		return fmt.Errorf("end %s, which goes on: %w", a.called(), err)
	}
	return nil
}
