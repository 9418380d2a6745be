package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/test/golden"
)

// call is one call of the program, as from a pipeline, without a terminal.
type call struct {
	code     int
	out, err string
}

func do(ctx context.Context, stdin string, args ...string) call {
	var out, err bytes.Buffer
	code := squall(ctx, append([]string{"squall"}, args...), console.Streams{In: strings.NewReader(stdin), Out: &out, Err: &err})
	return call{code, out.String(), err.String()}
}

func TestWithoutACluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, test := range []struct {
		name, stdin string
		args        []string
		code        int
	}{
		{name: "validate-good", args: []string{"validate", "testdata/good.yaml"}},
		{name: "validate-bad", args: []string{"validate", "testdata/bad.yaml"}, code: console.ExitError},
		{name: "validate-bad-json", args: []string{"validate", "testdata/bad.yaml", "-o", "json"}, code: console.ExitError},
		{name: "validate-nothing", stdin: "kind: Pod\napiVersion: v1\n", args: []string{"validate", "-"}, code: console.ExitError},
		{name: "explain-good", args: []string{"explain", "testdata/good.yaml"}},
		{name: "explain-kinds", args: []string{"explain", "testdata/kinds.yaml"}},
		{name: "validate-crons", args: []string{"validate", "testdata/crons.yaml"}, code: console.ExitError},
		{name: "validate-scenarios", args: []string{"validate", "testdata/scenarios.yaml", "testdata/bad-scenarios.yaml"}, code: console.ExitError},
		{name: "explain-scenarios", args: []string{"explain", "testdata/scenarios.yaml"}},
		{name: "explain-yaml", args: []string{"explain", "-f", "testdata/good.yaml", "-o", "yaml"}},
		{name: "explain-bad", stdin: "kind: Disruption\n", args: []string{"explain", "-"}, code: console.ExitError},
		{name: "unknown-command", args: []string{"validat", "a"}, code: console.ExitUsage},
		{name: "unknown-flag", args: []string{"validate", "--outptu=json", "a"}, code: console.ExitUsage},
		{name: "unknown-format", args: []string{"validate", "-o", "wide", "a"}, code: console.ExitUsage},
		{name: "no-file", args: []string{"validate"}, code: console.ExitUsage},
		{name: "two-files", args: []string{"plan", "a", "-f", "b"}, code: console.ExitUsage},
		{name: "missing-file", args: []string{"validate", "testdata/none.yaml"}, code: console.ExitError},
		{name: "help", args: []string{"--help"}},
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

func TestVersion(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"version", "API chaos.squall.dev/v1beta1"},
		{"version -o json", `"api": "chaos.squall.dev/v1beta1"`},
		{"version -o yaml", "api: chaos.squall.dev/v1beta1"},
	} {
		if got := do(t.Context(), "", strings.Fields(test.args)...); got.code != 0 || !strings.Contains(got.out, test.want) {
			t.Errorf("squall %s = %+v, want %q", test.args, got, test.want)
		}
	}
}

// People may copy every sample of deploy.
func TestSamplesAreValid(t *testing.T) {
	const below = "../deploy/samples/policies/"
	for recursive, args := range map[bool][]string{false: {"validate", "../deploy/samples"}, true: {"validate", "-R", "../deploy/samples"}} {
		if got := do(t.Context(), "", args...); got.code != 0 || strings.Contains(got.out, below) != recursive {
			t.Errorf("squall %s = %+v; want it to name %s: %t", strings.Join(args, " "), got, below, recursive)
		}
	}
	if got := do(t.Context(), "", "validate", "-R", t.TempDir()); got.code != console.ExitError || !strings.Contains(got.err, "nor have its subdirectories") {
		t.Errorf("squall validate -R of an empty directory = %+v", got)
	}
}

func TestEveryCommandHasExamples(t *testing.T) {
	s := console.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	for _, sub := range commands("squall", s).Commands() {
		if sub.Example == "" || sub.Short == "" {
			t.Errorf("squall %s has no example, or no sentence", sub.Name())
		}
	}
}

func TestHelpFits80Columns(t *testing.T) {
	s := console.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	root := commands("squall", s)
	for _, sub := range append(root.Commands(), root) {
		for line := range strings.SplitSeq(sub.Short+"\n"+sub.Long+"\n"+sub.Example, "\n") {
			if n := utf8.RuneCountInString(line); n > 80 {
				t.Errorf("%s: a line of the help has %d columns: %q", sub.CommandPath(), n, line)
			}
		}
	}
}

func TestAsAPluginOfKubectl(t *testing.T) {
	var out bytes.Buffer
	code := squall(t.Context(), []string{"/usr/bin/kubectl-squall", "validate", "--help"}, console.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
	if code != 0 || !strings.Contains(out.String(), "kubectl squall validate FILE") {
		t.Errorf("help = %d, %s; want it to say kubectl squall", code, out.String())
	}
}

func TestColours(t *testing.T) {
	for _, color := range []bool{false, true} {
		var out bytes.Buffer
		squall(t.Context(), []string{"squall", "validate", "testdata/good.yaml"}, console.Streams{In: strings.NewReader(""), Out: &out, Err: &out, Color: color})
		if got := strings.Contains(out.String(), "\x1b["); got != color {
			t.Errorf("colour %t: escapes %t in %q", color, got, out.String())
		}
	}
}
