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

// A registry with TLS is asked with TLS, wherever it is.
func TestWithoutTLS(t *testing.T) {
	plain := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer plain.Close()
	if got, err := withoutTLS(t.Context(), strings.TrimPrefix(plain.URL, "http://")+"/a"); !got || err != nil {
		t.Errorf("a registry without TLS on loopback: %t, %v; want true", got, err)
	}
	secure := httptest.NewTLSServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer secure.Close()
	if got, err := withoutTLS(t.Context(), strings.TrimPrefix(secure.URL, "https://")+"/a"); got || err == nil {
		t.Errorf("a registry whose certificate nobody trusts: %t, %v; want an error", got, err)
	}
}

func TestLimited(t *testing.T) {
	for list, want := range map[string]string{
		"": "[linux-amd64 linux-arm64] [darwin-amd64 darwin-arm64 linux-amd64 linux-arm64]", "linux-arm64": "[linux-arm64] [linux-arm64]",
		"linux-amd64,darwin-arm64": "[linux-amd64] [darwin-arm64 linux-amd64]",
	} {
		some, err := limited(programs, list)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(some[0].platforms, some[len(some)-1].platforms); got != want {
			t.Errorf("limited(%q) = %s, want %s", list, got, want)
		}
	}
	for list, want := range map[string]string{"linux": `"linux"`, "darwin-arm64": "none that nodes run on", "linux-amd64,": `""`} {
		if _, err := limited(programs, list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("limited(%q): %v, want an error with %s", list, err, want)
		}
	}
}
