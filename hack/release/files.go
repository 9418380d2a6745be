package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/squall-chaos/squall/hack/archive"
)

// archives packs the programs that people run, each with its name as a plugin of
// kubectl and the licence.
func (r *release) archives(into string, built []binary) error {
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return err
	}
	for _, b := range built {
		if !b.typed {
			continue
		}
		content, err := os.ReadFile(b.path)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%s-%s", b.name, r.version, b.platform)
		err = r.tarball(filepath.Join(into, name+".tar.gz"), []packed{
			{name: name + "/" + b.name, mode: 0o755, content: content},
			{name: name + "/kubectl-" + b.name, link: b.name},
			{name: name + "/LICENSE", mode: 0o644, content: licence},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// packed is a file of a tar, or a link in it.
type packed struct {
	name    string
	mode    int64
	content []byte
	link    string
}

// tarball writes files with the time of the commit.
func (r *release) tarball(path string, files []packed) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(f)
	out := tar.NewWriter(zip)
	write := func(p packed) error {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: p.name, Mode: p.mode, Size: int64(len(p.content)), ModTime: r.time}
		if p.link != "" {
			header = &tar.Header{Typeflag: tar.TypeSymlink, Name: p.name, Mode: 0o777, Linkname: p.link, ModTime: r.time}
		}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		_, err := out.Write(p.content)
		return err
	}
	for _, p := range files {
		if err := write(p); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(out.Close(), zip.Close(), f.Close())
}

// imageNames are those of the product; "squall" has worker and bridge, "cli" what helm
// test runs.
var imageNames = []string{"squall", "injector", "temporal", "cli"}

// images writes one OCI layout for each image, and a list of their names with
// the digests that they will have in a registry.
func (r *release) images(into string, built []binary) error {
	var list strings.Builder
	for _, name := range imageNames {
		images := r.imagesOf(name, built)
		f, err := os.Create(filepath.Join(into, fmt.Sprintf("image-%s-%s.tar", name, r.version)))
		if err != nil {
			return err
		}
		digest, err := archive.WriteLayout(f, images...)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&list, "%s@%s\n", r.imageName(name), digest)
	}
	return os.WriteFile(filepath.Join(into, "images.txt"), []byte(list.String()), 0o644)
}

func (r *release) imageName(image string) string {
	return r.registry + "/" + image + ":" + r.version
}

func (r *release) imagesOf(name string, built []binary) []archive.Image {
	var images []archive.Image
	for _, on := range nodes {
		image := archive.Image{Name: r.imageName(name), Architecture: on.architecture, User: "65532:65532"}
		for _, b := range built {
			if b.image == name && b.platform == on {
				image.Files = append(image.Files, archive.File{Source: b.path, Path: "/" + b.name})
			}
		}
		if len(image.Files) == 0 {
			continue // a release for other platforms
		}
		image.Entrypoint = []string{image.Files[0].Path}
		if name == "squall" {
			image.Files = append(image.Files, archive.File{Source: r.roots, Path: "/etc/ssl/certs/ca-certificates.crt"})
		}
		images = append(images, image)
	}
	return images
}

// checksums writes SHA256SUMS, as sha256sum --check reads it.
func (r *release) checksums(into string, _ []binary) error {
	entries, err := os.ReadDir(into)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		f, err := os.Open(filepath.Join(into, entry.Name()))
		if err != nil {
			return err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum.Sum(nil), entry.Name())
	}
	return os.WriteFile(filepath.Join(into, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
