package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The outcomes of a mutant. All but killed are faults, of the tests or of the patch.
const (
	killed         = "killed"
	survived       = "SURVIVED"
	doesNotApply   = "DOES NOT APPLY"
	doesNotCompile = "DOES NOT COMPILE"
	// provesNothing means that its tests do not pass on HEAD either, or did not run.
	provesNothing = "PROVES NOTHING"
)

// testLimit is how long the tests of one mutant may take. A test that hangs is killed
// and has failed, as in make test.
const testLimit = 5 * time.Minute

// lastLines is how much of a program's output is repeated.
const lastLines = 12

// verdict is the outcome of a mutant, and the reason unless it is killed.
type verdict struct{ outcome, why string }

// laboratory is a temporary worktree of HEAD in which one mutant lives at a time.
type laboratory struct {
	root, dir, tree, commit string
	// faults are the test runs that do not pass without a mutant, with the reason.
	faults map[testRun]string
}

func newLaboratory(ctx context.Context, root string) (*laboratory, error) {
	dir, err := os.MkdirTemp("", "mutants-*")
	if err != nil {
		return nil, err
	}
	l := &laboratory{root: root, dir: dir, tree: filepath.Join(dir, "tree"), faults: map[testRun]string{}}
	if out, err := l.command(ctx, root, "git", "worktree", "add", "--quiet", "--detach", l.tree, "HEAD"); err != nil {
		return nil, errors.Join(fmt.Errorf("git worktree add: %w: %s", err, out), os.RemoveAll(dir))
	}
	out, err := l.command(ctx, l.tree, "git", "rev-parse", "--short", "HEAD")
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	l.commit = strings.TrimSpace(out)
	return l, nil
}

// close removes the worktree, also after an interruption.
func (l *laboratory) close() error {
	_, err := l.command(context.Background(), l.root, "git", "worktree", "remove", "--force", l.tree)
	return errors.Join(err, os.RemoveAll(l.dir))
}

// passWithout runs the tests of all mutants on HEAD, each once.
func (l *laboratory) passWithout(ctx context.Context, mutants []mutant) {
	for _, m := range mutants {
		for _, run := range m.tests {
			if _, done := l.faults[run]; done || ctx.Err() != nil {
				continue
			}
			l.faults[run] = ""
			began := time.Now()
			if v := l.run(ctx, run); v.outcome != survived {
				l.faults[run] = fmt.Sprintf("%s does not pass without the mutant: %s", run, v.why)
			}
			fmt.Printf("without a mutant: %s (%.1f s)\n", run, time.Since(began).Seconds())
		}
	}
}

// try applies a mutant and runs its tests until one fails.
func (l *laboratory) try(ctx context.Context, m mutant) (v verdict) {
	if out, err := l.command(ctx, l.tree, "git", "apply", m.file); err != nil {
		return verdict{doesNotApply, m.file + ": " + out}
	}
	defer func() {
		if out, err := l.command(context.WithoutCancel(ctx), l.tree, "git", "checkout", "--quiet", "--force", "HEAD", "--", "."); err != nil {
			v = verdict{provesNothing, "the worktree cannot be restored: " + out}
		}
	}()
	var ran []string
	for _, run := range m.tests {
		if fault := l.faults[run]; fault != "" {
			return verdict{provesNothing, fault}
		}
		if v := l.run(ctx, run); v.outcome != survived {
			return v
		}
		ran = append(ran, run.String())
	}
	return verdict{survived, "passed: " + strings.Join(ran, ", ")}
}

// run builds and runs tests on the worktree as it is.
func (l *laboratory) run(ctx context.Context, run testRun) verdict {
	binary := filepath.Join(l.dir, "tests")
	if out, err := l.command(ctx, l.tree, "go", "test", "-c", "-vet=off", "-trimpath", "-ldflags=-w", "-o", binary, run.folder); err != nil {
		return verdict{doesNotCompile, last(out)}
	}
	out, err := l.command(ctx, filepath.Join(l.tree, run.folder), binary, "-test.v", "-test.run="+run.pattern, "-test.timeout="+testLimit.String())
	failed := strings.Contains(out, "--- FAIL: ") || strings.Contains(out, "\npanic: ")
	switch {
	case err != nil && failed:
		return verdict{killed, last(out)}
	case err != nil:
		return verdict{provesNothing, fmt.Sprintf("%s: %v: %s", run, err, last(out))}
	case strings.Contains(out, "--- SKIP: "):
		return verdict{provesNothing, run.String() + " was skipped: " + last(out)}
	case !ran(out, run.pattern):
		return verdict{provesNothing, run.String() + " matches no test"}
	}
	return verdict{survived, ""}
}

// ran is true if a test passed that is as deep as the pattern: a pattern of which only
// the parent matches runs no subtest, and passes.
func ran(output, pattern string) bool {
	for line := range strings.Lines(output) {
		_, name, passed := strings.Cut(line, "--- PASS: ")
		if passed && strings.Count(name, "/") >= strings.Count(pattern, "/") {
			return true
		}
	}
	return false
}

// last is the end of a program's output.
func last(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-lastLines):], "\n")
}

// command runs a program in a directory and returns its output. The program's
// children end with it.
func (l *laboratory) command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "KUBECONFIG=") && !strings.HasPrefix(variable, "SQUALL_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "SQUALL_REQUIRE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
