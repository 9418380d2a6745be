package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
)

// The media types of the OCI image specification, version 1.1.
const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor names a blob, as the OCI image specification does.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// index is a list of manifests, or of other indexes.
type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

// WriteLayout writes one image for several architectures as an OCI layout in a
// tar (oci-archive). It returns the digest by which a registry that is given the
// layout as it is knows the image, such as sha256:4f.... The images differ in
// Architecture and Files alone.
func WriteLayout(w io.Writer, images ...Image) (digest string, err error) {
	if len(images) == 0 {
		return "", fmt.Errorf("write an image: no architecture is given")
	}
	name := images[0].Name
	blobs := layout{out: tar.NewWriter(w), made: map[string]bool{}}
	all := index{SchemaVersion: 2, MediaType: mediaIndex}
	for _, image := range images {
		if image.Name != name || image.Architecture == "" {
			return "", fmt.Errorf("write image %s: want the same name and an architecture, got %s for %q", name, image.Name, image.Architecture)
		}
		one, err := blobs.manifest(image)
		if err != nil {
			return "", fmt.Errorf("write image %s for %s: %w", name, image.Architecture, err)
		}
		all.Manifests = append(all.Manifests, one)
	}
	top, err := blobs.json(mediaIndex, all)
	if err != nil {
		return "", fmt.Errorf("write image %s: %w", name, err)
	}
	// containerd names what it imports by the first, others find the image by the second.
	top.Annotations = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
	entry, err := json.Marshal(index{SchemaVersion: 2, MediaType: mediaIndex, Manifests: []descriptor{top}})
	if err == nil {
		err = add(blobs.out, "index.json", entry, 0o644)
	}
	if err == nil {
		err = add(blobs.out, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644)
	}
	if err == nil {
		err = blobs.out.Close()
	}
	if err != nil {
		return "", fmt.Errorf("write image %s: %w", name, err)
	}
	return top.Digest, nil
}

// layout is a tar into which blobs are written under their digests, each once.
type layout struct {
	out  *tar.Writer
	made map[string]bool
}

func (l layout) manifest(image Image) (descriptor, error) {
	layer, err := layerOf(image.Files)
	if err != nil {
		return descriptor{}, err
	}
	config, err := configOf(image, layer)
	if err != nil {
		return descriptor{}, err
	}
	var small bytes.Buffer
	zip := gzip.NewWriter(&small)
	if _, err := zip.Write(layer); err != nil {
		return descriptor{}, err
	}
	if err := zip.Close(); err != nil {
		return descriptor{}, err
	}
	of := manifest{SchemaVersion: 2, MediaType: mediaManifest, Layers: make([]descriptor, 1)}
	if of.Config, err = l.blob(mediaConfig, config); err != nil {
		return descriptor{}, err
	}
	if of.Layers[0], err = l.blob(mediaLayer, small.Bytes()); err != nil {
		return descriptor{}, err
	}
	written, err := l.json(mediaManifest, of)
	written.Platform = &platform{Architecture: image.Architecture, OS: "linux"}
	return written, err
}

func (l layout) json(mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return l.blob(mediaType, content)
}

func (l layout) blob(mediaType string, content []byte) (descriptor, error) {
	sum := digest(content)
	described := descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(content)}
	if l.made[sum] {
		return described, nil
	}
	l.made[sum] = true
	return described, add(l.out, "blobs/sha256/"+sum, content, 0o644)
}
