package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// place is the cluster the demo works on.
type place struct {
	root string // of the checkout
	dir  string // of the development cluster; empty for a cluster of the user's own
	kubectl

	temporal      string // Temporal for pods
	ui            string // Temporal's web interface; may be empty
	image         string // of worker and bridge; empty: as in deploy
	injectorImage string // of chaos pods; empty: as in deploy
	targetImage   string
}

// findPlace decides which cluster to use.
func findPlace() (*place, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	dir := os.Getenv("DEV")
	if dir == "" {
		dir = filepath.Join(root, ".dev")
	}
	p := &place{
		root: root, dir: dir,
		image: os.Getenv("SQUALL_IMAGE"), injectorImage: os.Getenv("SQUALL_INJECTOR_IMAGE"), targetImage: os.Getenv("SQUALL_TARGET_IMAGE"),
		temporal: os.Getenv("SQUALL_TEMPORAL_ADDRESS"), ui: os.Getenv("TEMPORAL_UI"),
	}
	if p.targetImage == "" {
		p.targetImage = "squall.local/target:dev"
	}
	own := os.Getenv("KUBECONFIG")
	if own == "" || own == filepath.Join(dir, "kubeconfig") {
		p.kubectl = kubectl{program: filepath.Join(dir, "bin", "kubectl"), config: filepath.Join(dir, "kubeconfig")}
		return p, nil
	}
	p.dir = ""
	if p.temporal == "" {
		return nil, errors.New("KUBECONFIG is set: SQUALL_TEMPORAL_ADDRESS must say where the cluster's pods find Temporal, as host:port")
	}
	program, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, fmt.Errorf("KUBECONFIG is set: %w", err)
	}
	p.kubectl = kubectl{program: program, config: own}
	return p, nil
}

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "hack", "dev", "kustomization.yaml")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("run it inside the checkout")
}

// prepare starts the development cluster if it does not run, and gives it the
// images. On a cluster of the user's own there is nothing to prepare.
func (p *place) prepare(ctx context.Context, show *screen) error {
	if p.dir == "" {
		return nil
	}
	show.chapter("A Kubernetes cluster with Temporal on this machine")
	if p.command(ctx, "go", "run", "./devcluster", "status", "--dir", p.dir).Run() == nil {
		show.logf("it runs")
	} else if err := p.loud(ctx, "go", "run", "./devcluster", "up", "--dir", p.dir); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	if err := p.readEnv(); err != nil {
		return err
	}
	show.logf("building Squall and loading its images into the nodes")
	if out, err := p.command(ctx, "make", "--no-print-directory", "-C", p.root, "images", "DEV="+p.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("make images: %w\n%s", err, out)
	}
	return nil
}

// readEnv takes addresses from the file the cluster writes.
func (p *place) readEnv() error {
	content, err := os.ReadFile(filepath.Join(p.dir, "env"))
	if err != nil {
		return fmt.Errorf("read where Temporal is: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "SQUALL_TEMPORAL_ADDRESS_IN_CLUSTER":
			p.temporal = value
		case "TEMPORAL_UI":
			p.ui = value
		}
	}
	if p.temporal == "" {
		return fmt.Errorf("%s/env does not say where pods find Temporal", p.dir)
	}
	return nil
}

// install applies deploy/ with what only this place knows, and waits until all
// of it runs.
func (p *place) install(ctx context.Context, show *screen) error {
	show.chapter("Installing Squall")
	overlay, err := p.writeOverlay()
	if err != nil {
		return err
	}
	show.quote("$ kubectl apply -k " + strings.TrimPrefix(overlay, p.root+"/"))
	// The namespaces come first in the list, yet may not be there for the rest.
	if _, err := p.run(ctx, "apply", "--server-side", "--force-conflicts", "-k", overlay); err != nil {
		return err
	}
	for _, name := range []string{"squall-worker", "squall-probes", "squall-crdbridge"} {
		if _, err := p.run(ctx, "-n", "squall-system", "rollout", "status", "deployment/"+name, "--timeout=180s"); err != nil {
			pods, _ := p.run(ctx, "-n", "squall-system", "describe", "pods")
			return fmt.Errorf("%w\n%s", err, pods)
		}
	}
	show.logf("worker, probes and bridge run, Temporal is at %s", p.temporal)
	return p.awaitAdmission(ctx, show)
}

// awaitAdmission waits until the API server can take a Disruption. For up to
// half a minute it does not know the new type that the policy for emergency
// stops asks for, and refuses.
func (p *place) awaitAdmission(ctx context.Context, show *screen) error {
	some, err := manifest("drop-packets")
	if err != nil {
		return err
	}
	announced := false
	for deadline := time.Now().Add(90 * time.Second); ; {
		_, err := p.feed(ctx, some, "-n", "default", "create", "--dry-run=server", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "paramKind") {
			return nil // the API server answers; its verdict on this object does not matter
		}
		if time.Now().After(deadline) {
			return err
		}
		if !announced {
			show.logf("the API server gets to know the new types, for up to half a minute")
			announced = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// writeOverlay writes a kustomization over deploy/, or hack/dev on the
// development cluster. A changed image restarts the programs.
func (p *place) writeOverlay() (string, error) {
	dir := filepath.Join(p.root, "bin", "overlay")
	base, settings := "../../deploy", []string{"SQUALL_TEMPORAL_ADDRESS=" + p.temporal}
	restart := "none"
	if p.dir != "" {
		base = "../../hack/dev"
		digest, err := digest(filepath.Join(p.root, "bin", "squall.tar"))
		if err != nil {
			return "", err
		}
		restart = digest
	}
	images := ""
	if p.image != "" {
		name, tag, ok := cutTag(p.image)
		if !ok {
			return "", fmt.Errorf("SQUALL_IMAGE=%s: want a name and a tag, such as registry.example.com/squall:v1", p.image)
		}
		images = fmt.Sprintf("images:\n- {name: squall.local/squall, newName: %q, newTag: %q}\n", name, tag)
	}
	if p.injectorImage != "" {
		settings = append(settings, "SQUALL_INJECTOR_IMAGE="+p.injectorImage)
	}
	content := fmt.Sprintf(`apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%s]
configMapGenerator:
- name: squall-settings
  namespace: squall-system
  behavior: merge
  literals: [%s]
patches:
- target: {kind: Deployment, namespace: squall-system}
  patch: |-
    - {op: add, path: /spec/template/metadata/annotations, value: {squall.local/image: %q}}
%s`, base, strings.Join(settings, ", "), restart, images)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return dir, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o644)
}

// cutTag splits an image's name at its tag, which is behind the last slash.
func cutTag(image string) (name, tag string, ok bool) {
	at := strings.LastIndex(image, ":")
	if at < 0 || strings.Contains(image[at:], "/") {
		return "", "", false
	}
	return image[:at], image[at+1:], true
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read the image: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read the image: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// command runs in the hack module.
func (p *place) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(p.root, "hack")
	cmd.Env = append(os.Environ(), "KUBECONFIG=", "SQUALL_IMAGE=", "SQUALL_INJECTOR_IMAGE=")
	return cmd
}

func (p *place) loud(ctx context.Context, name string, args ...string) error {
	cmd := p.command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
