package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// writer lets both lanes write.
type writer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (w *writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all.Write(text)
}

// The stage beside goes on while two of the first lane run, one of which needs it.
func TestTwoLanes(t *testing.T) {
	for name, fails := range map[string]error{"both pass": nil, "the one beside fails": errors.New("it has a fault")} {
		t.Run(name, func(t *testing.T) {
			var out writer
			s := newSuite(".", &out)
			met := make(chan struct{})
			ran := map[string]bool{}
			wait := func(ctx context.Context, _ *counts) error {
				select {
				case <-met:
				case <-ctx.Done():
					return ctx.Err()
				}
				return fails
			}
			send := func(ctx context.Context, _ *counts) error {
				if !s.busy.Load() {
					t.Error("a heavy stage runs, and unit tests do not leave it a processor")
				}
				select {
				case met <- struct{}{}: // or the other lane does not go on meanwhile
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			mark := func(name string) func(context.Context, *counts) error {
				return func(context.Context, *counts) error { ran[name] = true; return nil }
			}
			passed := s.run(t.Context(), []stage{
				{name: "apart", beside: true, limit: time.Minute, run: wait},
				{name: "first", limit: time.Minute, heavy: true, run: send},
				{name: "needs", needs: []string{"apart"}, limit: time.Minute, run: mark("needs")},
				{name: "after", after: []string{"apart"}, limit: time.Minute, run: mark("after")},
				{name: "last", all: true, limit: time.Minute, run: mark("last")},
			})
			good := fails == nil
			if passed != good || ran["needs"] != good || !ran["after"] || !ran["last"] {
				t.Errorf("passed %t, ran %v; want %t, what needs it only when it passes, and the others always", passed, ran, good)
			}
			if fails != nil && !strings.Contains(out.all.String(), "|     0.0 s  --- apart FAILED: it has a fault") {
				t.Errorf("said %q, want why it failed", out.all.String())
			}
		})
	}
}

func TestThePrefixerKeepsLinesWhole(t *testing.T) {
	var out writer
	p := &prefixer{out: &out, prefix: "| "}
	for _, part := range []string{"a", "b\nc\nd", "\n"} {
		if _, err := p.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := out.all.String(), "| ab\n| c\n| d\n"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

// No stage waits for one that comes after it in its own lane: both would wait for ever.
func TestStagesDoNotWaitForEachOther(t *testing.T) {
	stages := newSuite(".", nil).stages()
	place := map[string]int{}
	for i, st := range stages {
		place[st.name] = i
	}
	for i, st := range stages {
		for _, before := range st.waitsFor(stages) {
			if at, exists := place[before]; !exists || at >= i {
				t.Errorf("%s waits for %s, which does not come before it", st.name, before)
			}
		}
	}
}
