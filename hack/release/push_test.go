package main

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	helm "helm.sh/helm/v3/pkg/registry"
)

// checkPublished pushes a release into a registry, and pulls it as a node and Helm do.
func checkPublished(t *testing.T, root string) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	r := releaseOf(t, root)
	r.registry = strings.TrimPrefix(server.URL, "http://") + "/chaos"
	dir, err := r.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for try := range 2 { // the second finds everything there
		if _, err := publish(t.Context(), dir, t.Output()); err != nil {
			t.Fatalf("push %d: %v", try+1, err)
		}
	}
	for line := range strings.Lines(read(t, filepath.Join(dir, "images.txt"))) {
		image, digest, _ := strings.Cut(strings.TrimSpace(line), "@")
		ref, err := name.ParseReference(image)
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Get(ref)
		if err != nil || got.Digest.String() != digest {
			t.Errorf("%s: %v, %v; want %s", image, got, err, digest)
		}
	}
	client, err := helm.NewClient(helm.ClientOptPlainHTTP(), helm.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	chart, err := client.Pull(fmt.Sprintf("%s/charts/squall:1.2.3", r.registry))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(chart.Chart.Data), read(t, filepath.Join(dir, "squall-1.2.3.tgz")); got != want {
		t.Error("the chart in the registry is another")
	}
}

func TestOnlyAReleaseIsPushed(t *testing.T) {
	if _, err := publish(t.Context(), t.TempDir(), t.Output()); err == nil || !strings.Contains(err.Error(), "is not a release with images") {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestOnLoopback(t *testing.T) {
	for registry, want := range map[string]bool{"127.0.0.1:5000/a": true, "localhost:5000": true, "[::1]:5000/a": true, "registry.example/a": false, "10.0.0.1:5000": false} {
		if onLoopback(registry) != want {
			t.Errorf("%s: %t, want %t", registry, !want, want)
		}
	}
}
