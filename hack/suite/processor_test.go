package main

import (
	"context"
	"io"
	"testing"
	"time"
)

func TestAStageTellsItsProcessorTime(t *testing.T) {
	s := newSuite(".", io.Discard)
	count := func(ctx context.Context, _ *counts) error {
		return s.command(ctx, "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run()
	}
	idle := func(context.Context, *counts) error { return nil }
	busy := s.runStage(t.Context(), stage{name: "busy", limit: time.Minute, run: count})
	quiet := s.runStage(t.Context(), stage{name: "quiet", limit: time.Minute, run: idle})
	if busy.err != nil || busy.processor < 10*time.Millisecond {
		t.Errorf("a stage that counts took %v of the processors (%v), want more than 10ms", busy.processor, busy.err)
	}
	if quiet.processor != 0 {
		t.Errorf("a stage that starts nothing took %v of the processors, want none", quiet.processor)
	}
}
