// Package archive writes container images as docker-archive files, which
// containerd imports, and as OCI layouts, which also hold an image for several
// architectures. An image has one layer with some files, an /etc/passwd
// and a /tmp; that is all that a static program needs. The same input gives the
// same bytes.
package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Image has an image's name, files and command.
type Image struct {
	Name         string   // with tag, such as squall.local/target:dev
	Architecture string   // as GOARCH; "" is this machine's
	Entrypoint   []string // program and first arguments
	Env          []string // NAME=value
	User         string   // "" is root; otherwise "uid" or "uid:gid"
	Files        []File
}

// File is a file of the host and its path in the image. It is executable by all.
type File struct{ Source, Path string }

const passwd = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"

// Write writes the archive.
func Write(w io.Writer, image Image) error {
	layer, err := layerOf(image.Files)
	if err != nil {
		return fmt.Errorf("write image %s: %w", image.Name, err)
	}
	config, err := configOf(image, layer)
	if err != nil {
		return fmt.Errorf("write image %s: %w", image.Name, err)
	}
	configName, layerName := digest(config)+".json", digest(layer)+"/layer.tar"
	manifest, err := json.Marshal([]map[string]any{{
		"Config":   configName,
		"RepoTags": []string{image.Name},
		"Layers":   []string{layerName},
	}})
	if err != nil {
		return fmt.Errorf("write image %s: %w", image.Name, err)
	}
	out := tar.NewWriter(w)
	for _, part := range []struct {
		name    string
		content []byte
	}{{configName, config}, {layerName, layer}, {"manifest.json", manifest}} {
		if err := add(out, part.name, part.content, 0o644); err != nil {
			return fmt.Errorf("write image %s: %w", image.Name, err)
		}
	}
	return out.Close()
}

// configOf is the image's configuration, of which its identity is the digest.
func configOf(image Image, layer []byte) ([]byte, error) {
	return json.Marshal(map[string]any{
		"architecture": cmp.Or(image.Architecture, runtime.GOARCH),
		"os":           "linux",
		"created":      "1970-01-01T00:00:00Z",
		"config": map[string]any{
			"Entrypoint": image.Entrypoint,
			"Env":        append([]string{"PATH=/"}, image.Env...),
			"User":       image.User,
			"WorkingDir": "/",
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
		"history": []map[string]any{{"created": "1970-01-01T00:00:00Z", "created_by": "squall hack/image"}},
	})
}

// layerOf puts the files into a tar with every directory above them.
func layerOf(files []File) ([]byte, error) {
	var buffer bytes.Buffer
	out := tar.NewWriter(&buffer)
	made := map[string]bool{}
	if err := addDirs(out, made, "/etc"); err != nil {
		return nil, err
	}
	if err := addDir(out, "tmp", 0o1777); err != nil {
		return nil, err
	}
	made["tmp"] = true
	if err := add(out, "etc/passwd", []byte(passwd), 0o644); err != nil {
		return nil, err
	}
	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range sorted {
		content, err := os.ReadFile(f.Source)
		if err != nil {
			return nil, err
		}
		if err := addDirs(out, made, path.Dir(path.Clean("/"+f.Path))); err != nil {
			return nil, err
		}
		if err := add(out, strings.TrimPrefix(path.Clean("/"+f.Path), "/"), content, 0o755); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// addDirs adds an absolute directory and those above it, each once.
func addDirs(out *tar.Writer, made map[string]bool, dir string) error {
	name := strings.TrimPrefix(dir, "/")
	if name == "" || made[name] {
		return nil
	}
	if err := addDirs(out, made, path.Dir(dir)); err != nil {
		return err
	}
	made[name] = true
	return addDir(out, name, 0o755)
}

func addDir(out *tar.Writer, name string, mode int64) error {
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Format: tar.FormatPAX})
}

func add(out *tar.Writer, name string, content []byte, mode int64) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), Format: tar.FormatPAX}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := out.Write(content)
	return err
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
