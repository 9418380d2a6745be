package main

import (
	"bytes"
	"context"
	"os/exec"
	"sync/atomic"
	"time"
)

// beside is a stage that runs beside those that follow it, at the lowest priority: it
// works while the tests on the cluster mostly wait.
type beside struct {
	// place is where its result belongs among the results.
	place int
	ended chan result
	// printed is all that it prints, which comes when it has ended.
	printed bytes.Buffer
	// processor is the time of its programs that have ended, in nanoseconds.
	processor atomic.Int64
}

// startBeside starts a stage and keeps the place of its result.
func (s *suite) startBeside(ctx context.Context, st stage) {
	s.logf("--- %s, beside the stages that follow", st.name)
	b := &beside{place: len(s.results), ended: make(chan result, 1)}
	own := *s
	own.out, own.beside, own.besides = &b.printed, b, nil
	st.run = own.make(st.beside)
	go func() {
		r := own.runStage(ctx, st)
		r.processor = time.Duration(b.processor.Load())
		b.ended <- r
	}()
	s.results, s.besides = append(s.results, result{name: st.name}), append(s.besides, b)
}

// awaitBesides waits for the stages that run beside others and puts each result where
// it belongs.
func (s *suite) awaitBesides() {
	for _, b := range s.besides {
		if b.ended != nil {
			s.results[b.place], b.ended = <-b.ended, nil
			_, _ = b.printed.WriteTo(s.out)
		}
	}
}

// finish runs a program of a stage to its end.
func (s *suite) finish(cmd *exec.Cmd) error {
	err := cmd.Run()
	if s.beside != nil && cmd.ProcessState != nil {
		s.beside.processor.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
	}
	return err
}

// foreground is the processor time of the programs that have ended and were not started
// by a stage that runs beside others.
func (s *suite) foreground() time.Duration {
	took := processorTime()
	for _, b := range s.besides {
		took -= time.Duration(b.processor.Load())
	}
	return took
}
