package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const overlay = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%[1]s]
components: [%[2]s]
images:
- {name: squall.local/squall, newName: %[3]s/squall, newTag: %[4]s}
- {name: squall.local/temporal, newName: %[3]s/temporal, newTag: %[4]s}
configMapGenerator:
- {name: squall-settings, namespace: squall-system, behavior: merge, literals: [SQUALL_INJECTOR_IMAGE=%[3]s/injector:%[4]s]}
`

// manifests renders the kustomization with the images of this version, for
// kubectl apply --filename: for those who have a Temporal, and with one.
func (r *release) manifests(into string, _ []binary) error {
	return errors.Join(
		r.manifest(filepath.Join(into, "squall.yaml")),
		r.manifest(filepath.Join(into, "squall-with-temporal.yaml"), "temporal"))
}

func (r *release) manifest(path string, components ...string) error {
	folder, err := os.MkdirTemp(r.out, ".overlay-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	deploy, err := relative(folder, filepath.Join(r.root, "deploy"))
	if err != nil {
		return err
	}
	for i, name := range components {
		components[i] = filepath.Join(deploy, "components", name)
	}
	text := fmt.Sprintf(overlay, deploy, strings.Join(components, ", "), r.registry, r.version)
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		return err
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return err
	}
	rendered, err := made.AsYaml()
	if err != nil {
		return err
	}
	return os.WriteFile(path, rendered, 0o644)
}

// relative is the way from one directory to another, which kustomize wants.
func relative(from, to string) (string, error) {
	from, fromErr := filepath.Abs(from)
	to, toErr := filepath.Abs(to)
	if err := errors.Join(fromErr, toErr); err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}

// chart packs the Helm chart, of which some files are links, with the version
// and the images of this release as its defaults.
func (r *release) chart(into string, _ []binary) error {
	version := r.chartVersion()
	changes := map[string][][2]string{
		"Chart.yaml": {{"version: 0.0.0-dev\n", "version: " + version + "\n"}, {"appVersion: dev\n", "appVersion: " + r.version + "\n"}},
	}
	changes["values.yaml"] = [][2]string{{"registry: squall.local\n", "registry: " + r.registry + "\n"}}
	changes["README.md"] = [][2]string{{"| `\"squall.local\"` |", "| `\"" + r.registry + "\"` |"}}
	for _, name := range imageNames {
		changes["Chart.yaml"] = append(changes["Chart.yaml"], [2]string{"image: squall.local/" + name + ":dev}\n", "image: \"" + r.imageName(name) + "\"}\n"})
	}
	log.SetOutput(io.Discard) // Helm logs each link that it follows
	loaded, err := loader.LoadDir(filepath.Join(r.root, "deploy", "chart"))
	if err != nil {
		return err
	}
	var files []packed
	for _, file := range loaded.Raw {
		for _, change := range changes[file.Name] {
			if bytes.Count(file.Data, []byte(change[0])) != 1 {
				return fmt.Errorf("%s: want the text %q once", file.Name, change[0])
			}
			file.Data = bytes.Replace(file.Data, []byte(change[0]), []byte(change[1]), 1)
		}
		files = append(files, packed{name: "squall/" + file.Name, mode: 0o644, content: file.Data})
	}
	return r.tarball(filepath.Join(into, "squall-"+version+".tgz"), files)
}

// chartVersion is the version as Helm wants it: semantic, and without a v.
func (r *release) chartVersion() string {
	if version, found := strings.CutPrefix(r.version, "v"); found {
		if _, err := semver.StrictNewVersion(version); err == nil {
			return version
		}
	}
	return "0.0.0-" + r.version
}
