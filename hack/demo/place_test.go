package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindPlace(t *testing.T) {
	t.Setenv("DEV", "/somewhere/.dev")
	for name, c := range map[string]struct{ kubeconfig, temporal, dir, err string }{
		"nothing named: the development cluster":       {"", "", "/somewhere/.dev", ""},
		"the development cluster's own file is it too": {"/somewhere/.dev/kubeconfig", "", "/somewhere/.dev", ""},
		"another cluster needs Temporal's address":     {"/else/config", "", "", "SQUALL_TEMPORAL_ADDRESS"},
		"another cluster": {"/else/config", "temporal:7233", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", bin)
			t.Setenv("KUBECONFIG", c.kubeconfig)
			t.Setenv("SQUALL_TEMPORAL_ADDRESS", c.temporal)
			p, err := findPlace()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("findPlace() = %v, want an error with %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if p.dir != c.dir {
				t.Errorf("dir = %q, want %q", p.dir, c.dir)
			}
		})
	}
}

func TestWriteOverlayForAClusterOfTheUsersOwn(t *testing.T) {
	p := &place{root: t.TempDir(), temporal: "temporal.example.com:7233", image: "registry.example.com:5000/chaos/squall:v1", injectorImage: "registry.example.com/injector:v1"}
	dir, err := p.writeOverlay()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"resources: [../../deploy]", "SQUALL_TEMPORAL_ADDRESS=temporal.example.com:7233",
		"SQUALL_INJECTOR_IMAGE=registry.example.com/injector:v1",
		`newName: "registry.example.com:5000/chaos/squall", newTag: "v1"`,
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the overlay has no %s:\n%s", want, content)
		}
	}
	p.image = "registry.example.com:5000/squall"
	if _, err := p.writeOverlay(); err == nil {
		t.Error("an image without a tag was accepted")
	}
}

func TestManifest(t *testing.T) {
	for _, name := range []string{"drop-packets", "burn-cpu", "kill-container", "refuse-answers"} {
		document, err := manifest(name)
		if err != nil || strings.Count(document, "kind: Disruption") != 1 {
			t.Errorf("manifest(%s) = %q, %v, want one Disruption", name, document, err)
		}
	}
	if _, err := manifest("other"); err == nil {
		t.Error("a disruption that is not there was found")
	}
}
