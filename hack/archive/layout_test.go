package archive

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A layout is followed from its entry to the files, by digest and size as any
// reader of the format does.
func TestWriteLayout(t *testing.T) {
	image := func(architecture string) Image {
		source := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(source, []byte("for "+architecture), 0o600); err != nil {
			t.Fatal(err)
		}
		return Image{Name: "squall.local/x:v1", Architecture: architecture, Entrypoint: []string{"/x"}, User: "65532:65532", Files: []File{{source, "/x"}}}
	}
	images := []Image{image("amd64"), image("arm64")}
	var first, second bytes.Buffer
	named, err := WriteLayout(&first, images...)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := WriteLayout(&second, images...); err != nil || again != named || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("the second time the digest is %s, %v, want %s and the same bytes", again, err, named)
	}
	parts := untar(t, first.Bytes())
	if got := parts["oci-layout"].content; got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout = %s", got)
	}
	read := func(d descriptor, into any) []byte {
		t.Helper()
		content := parts["blobs/"+strings.Replace(d.Digest, ":", "/", 1)].content
		if len(content) != d.Size || "sha256:"+digest([]byte(content)) != d.Digest {
			t.Fatalf("%s is %d bytes with another digest, want %d", d.Digest, len(content), d.Size)
		}
		if into != nil {
			if err := json.Unmarshal([]byte(content), into); err != nil {
				t.Fatal(err)
			}
		}
		return []byte(content)
	}
	var entry, all index
	if err := json.Unmarshal([]byte(parts["index.json"].content), &entry); err != nil {
		t.Fatal(err)
	}
	if len(entry.Manifests) != 1 || entry.Manifests[0].Digest != named || entry.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "squall.local/x:v1" {
		t.Fatalf("index.json = %+v, want one image %s with its name", entry, named)
	}
	read(entry.Manifests[0], &all)
	if len(all.Manifests) != 2 {
		t.Fatalf("the image has %d architectures, want 2", len(all.Manifests))
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		var one manifest
		if got := all.Manifests[i].Platform; got == nil || *got != (platform{architecture, "linux"}) {
			t.Errorf("platform %d = %+v, want %s", i, got, architecture)
		}
		read(all.Manifests[i], &one)
		layer := gunzip(t, read(one.Layers[0], nil))
		checkLayout(t, read(one.Config, nil), architecture, digest(layer))
		if got := untar(t, layer)["x"].content; got != "for "+architecture {
			t.Errorf("the program of %s is %q", architecture, got)
		}
	}
}

func checkLayout(t *testing.T, config []byte, architecture, layer string) {
	t.Helper()
	var got struct {
		Architecture string
		Config       struct{ User string }
		RootFS       struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(config, &got); err != nil {
		t.Fatal(err)
	}
	if got.Architecture != architecture || got.Config.User != "65532:65532" || len(got.RootFS.DiffIDs) != 1 || got.RootFS.DiffIDs[0] != "sha256:"+layer {
		t.Errorf("config = %s, want %s, the user 65532:65532 and the layer's digest %s", config, architecture, layer)
	}
}

func gunzip(t *testing.T, small []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestWriteLayoutRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		images []Image
		want   string
	}{
		"no image":        {nil, "no architecture"},
		"no architecture": {[]Image{{Name: "x:v1"}}, "an architecture"},
		"two names":       {[]Image{{Name: "x:v1", Architecture: "amd64"}, {Name: "y:v1", Architecture: "arm64"}}, "y:v1"},
		"no file":         {[]Image{{Name: "x:v1", Architecture: "amd64", Files: []File{{"/nowhere", "/x"}}}}, "/nowhere"},
	} {
		if _, err := WriteLayout(io.Discard, test.images...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error that names %q", name, err, test.want)
		}
	}
}
