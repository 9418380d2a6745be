//go:build e2e

// Package started publishes a release of this checkout in a registry of this
// machine, and runs the commands of docs/getting-started.md as they are, on a
// cluster with nothing of Squall's. The nodes pull every image from the registry.
package started

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const (
	root = "../.."
	page = root + "/docs/getting-started.md"
)

func TestGettingStarted(t *testing.T) {
	u := newUser(t)
	manifest, err := os.ReadFile(made.directory + "/squall-with-temporal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	u.save("squall-with-temporal.yaml", string(manifest))
	u.save("slow-cart.yaml", blocks(t, string(text), "yaml")[0])
	t.Cleanup(func() { // worker and bridge stay for the stages that follow, which name another Temporal
		u.leave("--namespace=squall-shop", "delete", "--ignore-not-found", "disruption/slow-cart")
		u.leave("delete", "--ignore-not-found", "namespace/squall-shop")
		u.leave("--namespace=squall-system", "delete", "--ignore-not-found", "statefulset/squall-temporal", "service/squall-temporal", "networkpolicy/squall-temporal")
	})
	for _, block := range blocks(t, string(text), "sh") {
		for line := range strings.Lines(block) {
			u.do(strings.TrimSpace(line))
		}
	}
	if left := u.do("kubectl --namespace=squall-chaos get pods,configmaps --selector=chaos.squall.dev/disruption-name=slow-cart --output=name"); left != "" {
		t.Errorf("of a disruption that is gone there is left:\n%s", left)
	}
}

// blocks are those of a page that are marked with a language.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1) {
		found = append(found, match[1])
	}
	if len(found) == 0 {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return found
}

// user types the commands of the page.
type user struct {
	*testing.T
	directory string
}

func (u user) save(name, content string) {
	u.Helper()
	if err := os.WriteFile(filepath.Join(u.directory, name), []byte(content), 0o600); err != nil {
		u.Fatal(err)
	}
}

// do runs a line of the page. A refusal that the page announces is retried, for as
// long as the page allows and a while more.
func (u user) do(line string) string {
	u.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		fields := strings.Fields(line)
		run := u.kubectl
		if fields[0] == "squall" {
			run = u.squall
		}
		out, err := run(u.Context(), fields[1:]...)
		if err == nil {
			u.Logf("$ %s\n%s", line, out)
			return out
		}
		if !strings.Contains(out, "failed to find resource referenced by paramKind") || time.Now().After(deadline) {
			u.describe()
			u.Fatalf("%s: %v\n%s", line, err, out)
		}
		u.Logf("$ %s\n%s", line, out)
		<-time.After(5 * time.Second)
	}
}

// tellOf logs what a user would look at next.
func (u user) describe() {
	for _, args := range [][]string{
		{"--namespace=squall-shop", "describe", "disruptions,pods"},
		{"get", "pods,leases", "--all-namespaces", "--output=wide"},
		{"--namespace=squall-system", "logs", "--selector=app.kubernetes.io/name in (squall-worker,squall-probes,squall-crdbridge,squall-temporal)", "--max-log-requests=9", "--prefix", "--tail=60"},
	} {
		out, err := u.kubectl(u.Context(), args...)
		u.Logf("$ kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
}

// leave runs at the end, when the test's own context is over.
func (u user) leave(args ...string) {
	if out, err := u.kubectl(context.Background(), args...); err != nil {
		u.Errorf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (u user) kubectl(ctx context.Context, args ...string) (string, error) {
	return u.run(ctx, root+"/.dev/bin/kubectl", args)
}

func (u user) squall(ctx context.Context, args ...string) (string, error) {
	return u.run(ctx, filepath.Join(u.directory, "squall"), args)
}

func (u user) run(ctx context.Context, program string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*time.Minute)
	defer cancel()
	program, err := filepath.Abs(program)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = u.directory
	out, err := cmd.CombinedOutput()
	return string(out), err
}
