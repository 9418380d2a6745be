package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/test/golden"
)

// The questions and the written manifest, answered from a pipe.
func TestCreate(t *testing.T) {
	for _, test := range []struct {
		name, stdin string
		args        []string
		code        int
	}{
		{name: "create", stdin: "dsn\ndns-disruption\nno-db\nshop\napp=shop\n150\n50%\n\norders-db\n\n\ntimming\nlevel\npod\n\n", args: []string{"create"}},
		{name: "create-ends", stdin: "lossy\n\n", args: []string{"create", "network-disruption"}, code: console.ExitError},
		{name: "create-unknown", args: []string{"create", "netwrok-disruption"}, code: console.ExitError},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := do(t.Context(), test.stdin, test.args...)
			if got.code != test.code {
				t.Errorf("exit code = %d, want %d", got.code, test.code)
			}
			golden.Compare(t, "testdata/"+test.name+".txt", got.out+"--- errors\n"+got.err)
		})
	}
}

func TestCreateWritesAFileOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu.yaml")
	answers := strings.Repeat("\n", 10)
	first := do(t.Context(), answers, "create", "cpu-pressure", "-f", file)
	if first.code != 0 || !strings.Contains(first.out, "squall plan "+file) {
		t.Fatalf("squall create = %+v", first)
	}
	if checked := do(t.Context(), "", "validate", file); checked.code != 0 {
		t.Errorf("squall validate = %+v", checked)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	again := do(t.Context(), answers, "create", "disk-pressure", "-f", file)
	after, err := os.ReadFile(file)
	if again.code != console.ExitError || !strings.Contains(again.err, file) || string(after) != string(before) || err != nil {
		t.Errorf("squall create on a file that is there = %+v, %v", again, err)
	}
}

// A person presses Ctrl-C while a question waits.
func TestCreateIsInterrupted(t *testing.T) {
	never, person := io.Pipe()
	defer func() { _ = person.Close() }()
	ctx, interrupt := context.WithCancel(t.Context())
	var out, asked strings.Builder
	code := squall(ctx, []string{"squall", "create", "cpu-pressure"}, console.Streams{In: never, Out: &out, Err: interrupting{&asked, interrupt}})
	if code != console.ExitError || out.Len() != 0 || !strings.Contains(asked.String(), "interrupted; nothing is written") {
		t.Errorf("exit code %d, written %q, told %q", code, out.String(), asked.String())
	}
}

// interrupting ends a context as soon as a question is asked.
type interrupting struct {
	io.Writer
	interrupt func()
}

func (i interrupting) Write(text []byte) (int, error) {
	if strings.Contains(string(text), "metadata.name") {
		i.interrupt()
	}
	return i.Writer.Write(text)
}
