package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// parts are what the worker is made of, but for tests.
var parts = []string{
	"worker", "workflows", "activities", "api", "go.mod", "go.sum",
	":(exclude,glob)**/*_test.go", ":(exclude,glob)**/testdata/**",
}

// oldWorker builds the worker of an older commit. A checkout without the
// history that it needs skips the test, or fails it where nothing may be
// missing (SQUALL_REQUIRE=1).
func oldWorker(t *testing.T) (commit, binary string) {
	t.Helper()
	commit, err := oldCommit()
	if err != nil {
		without(t, err)
	}
	if binary, err = builtBefore(commit); err != nil {
		t.Fatal(err)
	}
	if now := time.Now(); os.Chtimes(binary, now, now) == nil { // it is there, and used
		return commit, binary
	}
	source := t.TempDir()
	archive := filepath.Join(t.TempDir(), "old.tar")
	if _, err := git("archive", "--output", archive, commit); err != nil {
		without(t, err)
	}
	if out, err := exec.Command("tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", commit, err, out)
	}
	made := fmt.Sprintf("%s.%d", binary, os.Getpid()) // a build that is interrupted leaves no worker
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags", "-s -w", "-o", made, "./worker")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the worker of %s: %v\n%s", commit, err, out)
	}
	if err := os.Rename(made, binary); err != nil {
		t.Fatal(err)
	}
	return commit, binary
}

// builtBefore is where the worker of a commit is kept, as this Go builds it, in
// the user's cache. Workers that no test used for a day are removed.
func builtBefore(commit string) (binary string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	directory := filepath.Join(cache, "squall", "old-worker")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", err
	}
	binary = filepath.Join(directory, commit+"-"+runtime.Version())
	others, err := filepath.Glob(filepath.Join(directory, "*"))
	if err != nil {
		return "", err
	}
	for _, other := range others {
		if info, err := os.Stat(other); err == nil && other != binary && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.Remove(other) // or another test was faster
		}
	}
	return binary, nil
}

// without ends a test that has no older worker, with the way to get one.
func without(t *testing.T, err error) {
	t.Helper()
	err = fmt.Errorf("no older worker to compare with: %w; a shallow clone gets it by `git fetch --unshallow`", err)
	if os.Getenv("SQUALL_REQUIRE") == "1" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// oldCommit finds the commit whose worker is the old one.
func oldCommit() (string, error) {
	if chosen := os.Getenv("SQUALL_OLD_WORKER"); chosen != "" {
		return git("rev-parse", "--verify", chosen+"^{commit}")
	}
	changes, err := git(append([]string{"log", "-2", "--format=%H", "HEAD", "--"}, parts...)...)
	if err != nil {
		return "", err
	}
	commits := strings.Fields(changes)
	if len(commits) < 2 {
		return "", fmt.Errorf("the history has %d commits that changed the worker, want 2", len(commits))
	}
	previous := commits[1]
	if _, err := git(append([]string{"diff", "--quiet", "HEAD", "--"}, parts...)...); err != nil {
		previous = commits[0] // today's worker is not committed yet
	}
	text, err := os.ReadFile(filepath.Join(root, "workflows/testdata/compatible-since"))
	if err != nil {
		return "", err
	}
	since := strings.TrimSpace(string(text))
	if _, err := git("rev-parse", "--verify", "--quiet", since+"^{commit}"); err != nil {
		return "", fmt.Errorf("the history does not reach back to %s, of workflows/testdata/compatible-since", since)
	}
	if _, err := git("merge-base", "--is-ancestor", since, previous); err != nil {
		return since, nil
	}
	return previous, nil
}

func git(args ...string) (string, error) {
	command := exec.Command("git", args...)
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args[:min(len(args), 4)], " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
