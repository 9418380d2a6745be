//go:build e2e

package started

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// published is what a user has who did not build Squall: a registry with the
// images and the chart, and the files of the release.
type published struct {
	registry  string // images and chart are below it
	directory string // of the release
}

// made is the release of this checkout, which all tests install.
var made published

func TestMain(m *testing.M) {
	status, err := publishAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "publish this checkout:", err)
		status = 1
	}
	os.Exit(status)
}

// publishAndRun publishes the checkout in a registry of this machine and runs the tests.
func publishAndRun(m *testing.M) (int, error) {
	address := os.Getenv("SQUALL_REGISTRY")
	if address == "" {
		return 0, errors.New("SQUALL_REGISTRY is not set: start the development cluster (make dev-up) and read its .dev/env")
	}
	work, err := os.MkdirTemp("", "squall-published-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	stop, err := serve(address, work)
	if err != nil {
		return 0, err
	}
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if made, err = publish(ctx, address+"/chaos", filepath.Join(work, "checkout")); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// serve starts a registry, waits until it answers, and returns what stops it.
func serve(address, directory string) (stop func(), err error) {
	config := filepath.Join(directory, "registry.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", filepath.Join(directory, "registry"), address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("docker-registry", "serve", config)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal comes when this thread ends
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: it is in Debian's package docker-registry", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		answer, err := http.Get("http://" + address + "/v2/")
		if err == nil {
			_ = answer.Body.Close()
			return func() { _ = cmd.Process.Kill(); <-ended }, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("the registry at %s ended: %w\n%s", address, err, output.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// publish makes a release of the checkout as it is, with what is not committed, for this
// machine's architecture, and pushes it as its maintainers do.
func publish(ctx context.Context, registry, clone string) (published, error) {
	commit, err := snapshot(ctx, clone+".index")
	if err != nil {
		return published{}, err
	}
	for _, command := range [][]string{
		{"git", "clone", "--quiet", "--shared", "--no-checkout", root, clone},
		{"git", "-C", clone, "checkout", "--quiet", "--detach", commit},
		{"make", "--no-print-directory", "-C", clone, "release", "REGISTRY=" + registry, "PLATFORMS=linux-" + runtime.GOARCH},
	} {
		if _, err := output(ctx, nil, command...); err != nil {
			return published{}, err
		}
	}
	directories, err := filepath.Glob(clone + "/dist/*")
	if err != nil || len(directories) != 1 {
		return published{}, fmt.Errorf("make release left %v: %w", directories, err)
	}
	if _, err := output(ctx, nil, "make", "--no-print-directory", "-C", clone, "publish", "RELEASE="+directories[0]); err != nil {
		return published{}, err
	}
	return published{registry: registry, directory: directories[0]}, nil
}

// snapshot is a commit of the working tree, which only the object store knows.
func snapshot(ctx context.Context, index string) (string, error) {
	env := []string{"GIT_INDEX_FILE=" + index, "GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@localhost", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@localhost"}
	if _, err := output(ctx, env, "git", "-C", root, "add", "--all"); err != nil {
		return "", err
	}
	tree, err := output(ctx, env, "git", "-C", root, "write-tree")
	if err != nil {
		return "", err
	}
	return output(ctx, env, "git", "-C", root, "commit-tree", "-p", "HEAD", "-m", "the working tree", tree)
}

func output(ctx context.Context, env []string, command ...string) (string, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	var output strings.Builder
	cmd.Stderr = &output
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, output.String())
	}
	return strings.TrimSpace(string(out)), nil
}
