package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	helm "helm.sh/helm/v3/pkg/registry"
)

// publish pushes the images and the chart of a release in a directory into the
// registry for which the release was made, with the credentials of docker login.
// The chart is REGISTRY/charts/squall. Blobs that the registry has are not sent
// again. publish returns the names of all that it pushed.
func publish(ctx context.Context, directory string, logf io.Writer) ([]string, error) {
	list, err := os.ReadFile(filepath.Join(directory, "images.txt"))
	if err != nil {
		return nil, fmt.Errorf("%s is not a release with images (make release): %w", directory, err)
	}
	var pushed []string
	var registry string
	for line := range strings.Lines(string(list)) {
		image, digest, _ := strings.Cut(strings.TrimSpace(line), "@")
		_, _ = fmt.Fprintf(logf, "push %s\n", image)
		if err := pushImage(ctx, directory, image, digest); err != nil {
			return pushed, fmt.Errorf("push %s: %w", image, err)
		}
		pushed = append(pushed, image+"@"+digest)
		registry = path.Dir(image)
	}
	chart, err := pushChart(ctx, directory, registry, logf)
	if err != nil {
		return pushed, fmt.Errorf("push the chart: %w", err)
	}
	return append(pushed, chart), nil
}

// pushImage pushes the image whose layout is a file of the release.
func pushImage(ctx context.Context, directory, image, digest string) error {
	ref, err := name.NewTag(image, name.StrictValidation)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "squall-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	file := fmt.Sprintf("image-%s-%s.tar", path.Base(ref.RepositoryStr()), ref.TagStr())
	if err := unpack(filepath.Join(directory, file), work); err != nil {
		return err
	}
	outer, err := layout.ImageIndexFromPath(work)
	if err != nil {
		return err
	}
	listed, err := outer.IndexManifest()
	if err != nil {
		return err
	}
	if len(listed.Manifests) != 1 || listed.Manifests[0].Digest.String() != digest {
		return fmt.Errorf("%s does not hold %s alone, as images.txt says", file, digest)
	}
	index, err := outer.ImageIndex(listed.Manifests[0].Digest)
	if err != nil {
		return err
	}
	return remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
}

// unpack extracts the files of a layout, which are all regular.
func unpack(archive, into string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", archive, err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(path.Dir(header.Name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, reader)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}

func pushChart(ctx context.Context, directory, registry string, logf io.Writer) (string, error) {
	files, err := filepath.Glob(filepath.Join(directory, "squall-*.tgz"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("%s has %d charts, want one: %w", directory, len(files), err)
	}
	chart, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(files[0]), "squall-"), ".tgz")
	ref := registry + "/charts/squall:" + version
	_, _ = fmt.Fprintf(logf, "push %s\n", ref)
	options := []helm.ClientOption{helm.ClientOptWriter(io.Discard)}
	plain, err := withoutTLS(ctx, registry)
	if err != nil {
		return "", err
	}
	if plain {
		options = append(options, helm.ClientOptPlainHTTP())
	}
	client, err := helm.NewClient(options...)
	if err != nil {
		return "", err
	}
	// The tag of an OCI artifact has no plus sign; Helm writes an underscore.
	if _, err := client.Push(chart, strings.ReplaceAll(ref, "+", "_")); err != nil {
		return "", err
	}
	return "oci://" + ref, nil
}

// withoutTLS is true for a registry at a private address that answers without TLS only.
// The images go there without it too.
func withoutTLS(ctx context.Context, registry string) (bool, error) {
	host, _, _ := strings.Cut(registry, "/")
	at, err := name.NewRegistry(host, name.StrictValidation)
	if err != nil {
		return false, err
	}
	challenge, err := transport.Ping(ctx, at, remote.DefaultTransport)
	if err != nil {
		return false, err
	}
	return challenge.Insecure, nil
}
