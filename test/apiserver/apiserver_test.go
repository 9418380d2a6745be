package apiserver_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

func TestStartServesOurResources(t *testing.T) {
	began := time.Now()
	config := apiserver.Start(t)
	t.Logf("started in %s", time.Since(began))
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	disruptions := client.Resource(v1beta1.GroupVersion.WithResource("disruptions")).Namespace("default")
	if _, err := disruptions.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("list disruptions: %v", err)
	}
	// The CRD is really in force, not a schema that takes anything.
	nothing := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1beta1.GroupVersion.String(), "kind": "Disruption",
		"metadata": map[string]any{"name": "nothing"},
		"spec":     map[string]any{},
	}}
	if _, err := disruptions.Create(t.Context(), nothing, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("create a disruption without a count = %v, want it refused as invalid", err)
	}
}

func TestStartSharesOneServer(t *testing.T) {
	first, second := apiserver.Start(t), apiserver.Start(t)
	if first.Host != second.Host {
		t.Errorf("Start gave %s, then %s, want one server for the package", first.Host, second.Host)
	}
	if first == second {
		t.Error("Start gave the same *rest.Config twice: one test could change another's")
	}
}

func TestBinaries(t *testing.T) {
	touch := func(t *testing.T, directory string, names ...string) string {
		t.Helper()
		if err := os.MkdirAll(directory, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(directory, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		return directory
	}
	setUp := func(t *testing.T) string {
		cache := t.TempDir()
		t.Setenv("XDG_CACHE_HOME", cache)
		t.Setenv("SQUALL_KUBE_BIN", "")
		return cache
	}
	t.Run("the variable goes before the cache", func(t *testing.T) {
		cache := setUp(t)
		touch(t, filepath.Join(cache, "squall", "bin"), "etcd", "kube-apiserver")
		want := touch(t, t.TempDir(), "etcd", "kube-apiserver")
		t.Setenv("SQUALL_KUBE_BIN", want)
		if got, err := apiserver.Binaries(); got != want || err != nil {
			t.Errorf("Binaries() = %q, %v, want %q", got, err, want)
		}
	})
	t.Run("a wrong variable is an error, the cache is not tried", func(t *testing.T) {
		cache := setUp(t)
		touch(t, filepath.Join(cache, "squall", "bin"), "etcd", "kube-apiserver")
		t.Setenv("SQUALL_KUBE_BIN", t.TempDir())
		if got, err := apiserver.Binaries(); err == nil {
			t.Errorf("Binaries() = %q, want an error", got)
		}
	})
	t.Run("found in the cache, two levels down", func(t *testing.T) {
		cache := setUp(t)
		touch(t, filepath.Join(cache, "squall", "other"), "etcd")
		want := touch(t, filepath.Join(cache, "squall", "v1.34.4", "bin"), "etcd", "kube-apiserver")
		touch(t, filepath.Join(cache, "squall", "v9.half"), "etcd", "kube-apiserver") // newer, but unfinished
		if got, err := apiserver.Binaries(); got != want || err != nil {
			t.Errorf("Binaries() = %q, %v, want %q", got, err, want)
		}
	})
	t.Run("an empty cache is an error", func(t *testing.T) {
		setUp(t)
		if got, err := apiserver.Binaries(); err == nil {
			t.Errorf("Binaries() = %q, want an error", got)
		}
	})
}
