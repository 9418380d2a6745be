//go:build e2e

package started

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHelmInstallsFromARegistry: a user has a cluster, Helm and the program
// squall, and has built nothing: two commands lead to the first fault.
func TestHelmInstallsFromARegistry(t *testing.T) {
	u := newUser(t)
	helm := filepath.Join(u.directory, "helm")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", helm, "helm.sh/helm/v3/cmd/helm")
	build.Dir = root + "/test/chart"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build Helm: %v: %s", err, out)
	}
	typed := func(args ...string) {
		t.Helper()
		out, err := u.run(t.Context(), helm, args)
		if err != nil {
			u.describe()
			t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		t.Logf("$ helm %s\n%s", strings.Join(args, " "), out)
	}
	t.Cleanup(func() {
		u.leave("delete", "--ignore-not-found", "namespace/squall-shop", "namespace/squall-system", "namespace/squall-chaos")
		u.leave("delete", "--ignore-not-found", "--selector=app.kubernetes.io/part-of=squall", "customresourcedefinitions")
	})
	began := time.Now()
	typed("install", "squall", "oci://"+made.registry+"/charts/squall", "--version="+chartVersion(t), "--plain-http",
		"--set=temporal.bundled.enabled=true", "--namespace=squall-system", "--create-namespace", "--wait", "--timeout=5m")
	shown := u.do("squall demo --seconds=5")
	t.Logf("first fault %v after helm install", time.Since(began).Round(time.Second))
	if !strings.Contains(shown, "nothing is left of disruption") {
		t.Errorf("squall demo printed no clean end:\n%s", shown)
	}
	images := u.do("kubectl --namespace=squall-system get pods --output=jsonpath={.items[*].spec.containers[*].image}")
	for image := range strings.FieldsSeq(images) {
		if !strings.HasPrefix(image, made.registry+"/") {
			t.Errorf("a pod runs %s, want images of %s", image, made.registry)
		}
	}
	typed("uninstall", "squall", "--namespace=squall-system", "--wait")
}

// chartVersion is that of the release's chart, which has no v and no plus sign.
func chartVersion(t *testing.T) string {
	t.Helper()
	charts, err := filepath.Glob(made.directory + "/squall-*.tgz")
	if err != nil || len(charts) != 1 {
		t.Fatalf("the release has charts %v (%v), want one", charts, err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(charts[0]), "squall-"), ".tgz")
}

// newUser has the program squall of the release.
func newUser(t *testing.T) user {
	t.Helper()
	u := user{t, t.TempDir()}
	archives, err := filepath.Glob(made.directory + "/squall-*-linux-*.tar.gz")
	if err != nil || len(archives) != 1 {
		t.Fatalf("the release has archives %v (%v), want one", archives, err)
	}
	if out, err := exec.CommandContext(context.Background(), "tar", "--extract", "--gzip", "--strip-components=1", "--file="+archives[0], "--directory="+u.directory).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(u.directory, "squall")); err != nil {
		t.Fatal(err)
	}
	return u
}
