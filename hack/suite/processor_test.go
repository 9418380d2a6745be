package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAStagePrintsItsProcessorTime(t *testing.T) {
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
	if quiet.processor > time.Millisecond {
		t.Errorf("a stage that starts nothing took %v of the processors, want none", quiet.processor)
	}
}

// A stage beside others is awaited, its result stands in its place, what it printed comes
// whole, and its processor time is not that of the stages that ran meanwhile.
func TestAStageBesideOthers(t *testing.T) {
	var out bytes.Buffer
	s := newSuite(t.TempDir(), &out)
	makefile := "counting:\n\t@echo niceness `nice`; i=0; while [ $$i -lt 200000 ]; do i=$$((i+1)); done; exit 1\n"
	if err := os.WriteFile(filepath.Join(s.root, "Makefile"), []byte(makefile), 0o644); err != nil {
		t.Fatal(err)
	}
	idle := func(context.Context, *counts) error {
		for s.besides[0].processor.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	if s.run(t.Context(), []stage{{name: "beside", limit: time.Minute, beside: "counting"}, {name: "quiet", limit: time.Minute, run: idle}}) {
		t.Error("passed, want the failure of the stage beside")
	}
	beside, quiet := s.results[0], s.results[1]
	if beside.name != "beside" || beside.err == nil || beside.processor < 10*time.Millisecond {
		t.Errorf("beside: %q, %v, %v of the processors, want an error and more than 10ms", beside.name, beside.err, beside.processor)
	}
	if quiet.name != "quiet" || quiet.err != nil || quiet.processor > time.Millisecond {
		t.Errorf("quiet: %q, %v, %v of the processors, want none", quiet.name, quiet.err, quiet.processor)
	}
	if !strings.Contains(out.String(), "niceness 19\n") {
		t.Errorf("printed %q, want the lowest priority", out.String())
	}
}
