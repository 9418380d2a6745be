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

	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const overlay = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%s]
images: [{name: squall.local/squall, newName: %s, newTag: %s}]
configMapGenerator:
- {name: squall-settings, namespace: squall-system, behavior: merge, literals: [SQUALL_INJECTOR_IMAGE=%s]}
`

// manifest renders the kustomization with the images of this version, for
// kubectl apply --filename.
func (r release) manifest(into string, _ []binary) error {
	folder, err := os.MkdirTemp(r.out, ".overlay-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	deploy, err := relative(folder, filepath.Join(r.root, "deploy"))
	if err != nil {
		return err
	}
	text := fmt.Sprintf(overlay, deploy, r.registry+"/squall", r.version, r.imageName("injector"))
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
	return os.WriteFile(filepath.Join(into, "squall.yaml"), rendered, 0o644)
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
func (r release) chart(into string, _ []binary) error {
	version := strings.TrimPrefix(r.version, "v")
	changes := map[string][][2]string{
		"Chart.yaml":  {{"version: 0.0.0-dev\n", "version: " + version + "\n"}, {"appVersion: dev\n", "appVersion: " + r.version + "\n"}},
		"values.yaml": {{"squall: squall.local/squall:dev\n", "squall: " + r.imageName("squall") + "\n"}, {"injector: squall.local/injector:dev\n", "injector: " + r.imageName("injector") + "\n"}},
	}
	log.SetOutput(io.Discard) // Helm says of each link that it follows it
	loaded, err := loader.LoadDir(filepath.Join(r.root, "deploy", "chart"))
	if err != nil {
		return err
	}
	var files []packed
	for _, file := range loaded.Raw {
		for _, change := range changes[file.Name] {
			if bytes.Count(file.Data, []byte(change[0])) != 1 {
				return fmt.Errorf("%s: want one line that ends with %q", file.Name, change[0])
			}
			file.Data = bytes.Replace(file.Data, []byte(change[0]), []byte(change[1]), 1)
		}
		files = append(files, packed{name: "squall/" + file.Name, mode: 0o644, content: file.Data})
	}
	return r.tarball(filepath.Join(into, "squall-"+version+".tgz"), files)
}
