package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

// entry is what matters of a file in a tar.
type entry struct {
	mode    int64
	content string
}

func untar(t *testing.T, data []byte) map[string]entry {
	t.Helper()
	found := map[string]entry{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[header.Name]; twice {
			t.Errorf("%s is in the tar twice", header.Name)
		}
		found[header.Name] = entry{header.Mode, string(content)}
	}
}

func TestWrite(t *testing.T) {
	source := t.TempDir() + "/program"
	if err := os.WriteFile(source, []byte("binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	image := Image{
		Name:       "squall.local/x:dev",
		Entrypoint: []string{"/bin/x", "run"},
		Env:        []string{"A=b"},
		User:       "65534",
		Files:      []File{{source, "/bin/x"}, {source, "/bin/y"}},
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := Write(out, image); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("Write gave two different archives for the same image")
	}
	parts := untar(t, first.Bytes())
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal([]byte(parts["manifest.json"].content), &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || !reflect.DeepEqual(manifest[0].RepoTags, []string{image.Name}) || len(manifest[0].Layers) != 1 {
		t.Fatalf("manifest = %+v, want one image %s of one layer", manifest, image.Name)
	}
	checkConfig(t, parts[manifest[0].Config].content, digest([]byte(parts[manifest[0].Layers[0]].content)))
	layer := untar(t, []byte(parts[manifest[0].Layers[0]].content))
	want := map[string]entry{
		"bin/": {0o755, ""}, "bin/x": {0o755, "binary"}, "bin/y": {0o755, "binary"},
		"etc/": {0o755, ""}, "etc/passwd": {0o644, passwd}, "tmp/": {0o1777, ""},
	}
	if !reflect.DeepEqual(layer, want) {
		t.Errorf("layer = %+v, want %+v", layer, want)
	}
}

func checkConfig(t *testing.T, content, layer string) {
	t.Helper()
	var config struct {
		OS     string
		Config struct {
			Entrypoint, Env []string
			User            string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal([]byte(content), &config); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(config.Config.Entrypoint, " "), "/bin/x run"; got != want {
		t.Errorf("entrypoint = %q, want %q", got, want)
	}
	if config.Config.User != "65534" || config.OS != "linux" || !reflect.DeepEqual(config.Config.Env, []string{"PATH=/", "A=b"}) {
		t.Errorf("config = %+v", config)
	}
	if !reflect.DeepEqual(config.RootFS.DiffIDs, []string{"sha256:" + layer}) {
		t.Errorf("layers = %v, want sha256:%s", config.RootFS.DiffIDs, layer)
	}
}

func TestWriteOfAMissingFile(t *testing.T) {
	err := Write(io.Discard, Image{Name: "x:dev", Files: []File{{"/does/not/exist", "/x"}}})
	if err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("Write(missing file) = %v, want an error that names it", err)
	}
}
