package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

const source = `package main

import (
	"fmt"
	"runtime/debug"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Println(info.Main.Version)
}
`

// checkout is a small product with this one's manifests: programs of one file
// each, in a repository with one commit.
func checkout(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/squall\n\ngo 1.26.0\n")
	write("LICENSE", "as you like\n")
	write("roots.pem", "certificates\n")
	write("hack/temporal/go.mod", "module example.com/squall/hack/temporal\n\ngo 1.26.0\n")
	for _, name := range []string{"worker", "crdbridge", "injector", "cli", "hack/temporal"} {
		write(name+"/main.go", source)
	}
	if out, err := exec.Command("cp", "--recursive", "--no-dereference", "../../deploy", root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	git(t, root, "init", "--quiet")
	git(t, root, "add", ".")
	git(t, root, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message", "all of it")
	return root
}

func git(t *testing.T, root string, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func made(t *testing.T, root string) (string, error) {
	t.Helper()
	return releaseOf(t, root).run(context.Background())
}

func releaseOf(t *testing.T, root string) *release {
	return &release{root: root, out: filepath.Join(t.TempDir(), "dist"), registry: "registry.example/chaos", roots: filepath.Join(root, "roots.pem"), programs: programs, logf: t.Output()}
}

func TestRelease(t *testing.T) {
	root := checkout(t)
	git(t, root, "tag", "v1.2.3")
	dir, err := made(t, root)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(dir) != "v1.2.3" {
		t.Errorf("the release is in %s, want the tag's name", dir)
	}
	t.Run("checksums", func(t *testing.T) { checkSums(t, dir) })
	t.Run("command line", func(t *testing.T) { checkProgram(t, dir) })
	t.Run("images", func(t *testing.T) { checkImages(t, dir) })
	t.Run("manifests", func(t *testing.T) {
		checkManifest(t, read(t, filepath.Join(dir, "squall.yaml")), false)
		checkManifest(t, read(t, filepath.Join(dir, "squall-with-temporal.yaml")), true)
	})
	t.Run("chart", func(t *testing.T) { checkChart(t, filepath.Join(dir, "squall-1.2.3.tgz")) })
	t.Run("bill of materials", func(t *testing.T) { checkMaterials(t, filepath.Join(dir, "squall-v1.2.3.cdx.json")) })
	t.Run("published", func(t *testing.T) { checkPublished(t, root) })
	t.Run("the same again", func(t *testing.T) {
		again, err := made(t, root)
		if err != nil {
			t.Fatal(err)
		}
		if first, second := read(t, filepath.Join(dir, "SHA256SUMS")), read(t, filepath.Join(again, "SHA256SUMS")); first != second {
			t.Errorf("the same commit gives other files:\n%s\n%s", first, second)
		}
	})
}

// A commit without a tag has Go's name, which is a version that Helm takes too.
func TestReleaseOfACommit(t *testing.T) {
	dir, err := made(t, checkout(t))
	if err != nil {
		t.Fatal(err)
	}
	version := filepath.Base(dir)
	if !regexp.MustCompile(`^v0\.0\.0-\d{14}-[0-9a-f]{12}$`).MatchString(version) {
		t.Errorf("the version is %s", version)
	}
	if _, err := loader.Load(filepath.Join(dir, "squall-"+strings.TrimPrefix(version, "v")+".tgz")); err != nil {
		t.Error(err)
	}
}

// For images that are there already manifests and chart are made, and nothing is built.
func TestManifestsOfATag(t *testing.T) {
	r := releaseOf(t, checkout(t))
	r.version, r.programs = "dev", nil
	dir, err := r.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if text := read(t, filepath.Join(dir, "squall-with-temporal.yaml")); !strings.Contains(text, "image: registry.example/chaos/temporal:dev") {
		t.Error("the manifest has not the tag that was given")
	}
	loaded, err := loader.Load(filepath.Join(dir, "squall-0.0.0-dev.tgz"))
	if err != nil || loaded.Metadata.Version != "0.0.0-dev" {
		t.Errorf("the chart is %v, %v", loaded, err)
	}
}

func TestReleaseIsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, root string) error
		want   string
	}{
		"a changed file": {func(_ *testing.T, root string) error {
			return os.WriteFile(filepath.Join(root, "cli", "main.go"), []byte(source+"// changed\n"), 0o644)
		}, "files differ from the commit: nobody could build this version again; commit them, or put them aside (git stash -u); the first: M cli/main.go"},
		"no repository": {func(_ *testing.T, root string) error { return os.RemoveAll(filepath.Join(root, ".git")) }, "want a checkout of git"},
		"a program that is not there": {func(t *testing.T, root string) error {
			git(t, root, "rm", "--quiet", "-r", "injector")
			git(t, root, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message", "less of it")
			return nil
		}, "build injector for linux-amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			root := checkout(t)
			if err := test.change(t, root); err != nil {
				t.Fatal(err)
			}
			if dir, err := made(t, root); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("made %s, %v; want an error with %q", dir, err, test.want)
			}
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// checkSums expects every file in the list, with its sum.
func checkSums(t *testing.T, dir string) {
	sums := read(t, filepath.Join(dir, "SHA256SUMS"))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 14 { // 4 archives, 4 images and their list, 2 manifests, chart, bill, sums
		t.Errorf("the release is %v", entries)
	}
	for _, entry := range entries {
		line := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(read(t, filepath.Join(dir, entry.Name())))), entry.Name())
		if entry.Name() != "SHA256SUMS" && !strings.Contains(sums, line) {
			t.Errorf("SHA256SUMS has no line %q", line)
		}
	}
}

// checkProgram runs the program of this platform as its archive has it.
func checkProgram(t *testing.T, dir string) {
	name := "squall-v1.2.3-" + runtime.GOOS + "-" + runtime.GOARCH
	files := untar(t, filepath.Join(dir, name+".tar.gz"), true)
	if files[name+"/LICENSE"] != "as you like\n" || files[name+"/kubectl-squall"] != "-> squall" {
		t.Errorf("the archive has no licence, or no plugin: %q", files[name+"/kubectl-squall"])
	}
	program := filepath.Join(t.TempDir(), "squall")
	if err := os.WriteFile(program, []byte(files[name+"/squall"]), 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != "v1.2.3\n" {
		t.Errorf("the program says %q, %v, want its version", out, err)
	}
}

func checkImages(t *testing.T, dir string) {
	list := strings.Fields(read(t, filepath.Join(dir, "images.txt")))
	for i, name := range imageNames {
		files := untar(t, filepath.Join(dir, "image-"+name+"-v1.2.3.tar"), false)
		var entry struct {
			Manifests []struct {
				Digest      string
				Annotations map[string]string
			}
		}
		if err := json.Unmarshal([]byte(files["index.json"]), &entry); err != nil {
			t.Fatal(err)
		}
		want := "registry.example/chaos/" + name + ":v1.2.3"
		if got := entry.Manifests[0].Annotations["io.containerd.image.name"]; got != want {
			t.Errorf("the image is called %s, want %s", got, want)
		}
		if list[i] != want+"@"+entry.Manifests[0].Digest {
			t.Errorf("images.txt has %s, want %s with the digest %s", list[i], want, entry.Manifests[0].Digest)
		}
	}
}

func checkManifest(t *testing.T, text string, temporal bool) {
	t.Helper()
	for _, want := range []string{"image: registry.example/chaos/squall:v1.2.3", "SQUALL_INJECTOR_IMAGE: registry.example/chaos/injector:v1.2.3", "kind: CustomResourceDefinition"} {
		if !strings.Contains(text, want) {
			t.Errorf("the manifest has no %q", want)
		}
	}
	if got := strings.Contains(text, "image: registry.example/chaos/temporal:v1.2.3"); got != temporal {
		t.Errorf("there is a Temporal in it: %t, want %t", got, temporal)
	}
	if strings.Contains(text, "squall.local") {
		t.Error("the manifest has an image of a development cluster")
	}
}

func checkChart(t *testing.T, path string) {
	log.SetOutput(io.Discard)
	loaded, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Metadata.Version != "1.2.3" || loaded.Metadata.AppVersion != "v1.2.3" {
		t.Errorf("the chart has the versions %s and %s", loaded.Metadata.Version, loaded.Metadata.AppVersion)
	}
	for _, name := range imageNames {
		if image := "registry.example/chaos/" + name + ":v1.2.3"; !strings.Contains(loaded.Metadata.Annotations["artifacthub.io/images"], image) {
			t.Errorf("Artifact Hub is not shown the image %s", image)
		}
	}
	bundled := map[string]any{"temporal": map[string]any{"bundled": map[string]any{"enabled": true}}}
	values, err := chartutil.ToRenderValues(loaded, bundled, chartutil.ReleaseOptions{Name: "squall", Namespace: "squall-system"}, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(loaded, values)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, text := range files {
		all.WriteString(text)
	}
	checkManifest(t, all.String(), true)
}

func checkMaterials(t *testing.T, path string) {
	bom := cyclonedx.NewBOM()
	if err := cyclonedx.NewBOMDecoder(strings.NewReader(read(t, path)), cyclonedx.BOMFileFormatJSON).Decode(bom); err != nil {
		t.Fatal(err)
	}
	libraries, binaries := 0, 0
	for _, component := range *bom.Components {
		switch component.Type {
		case cyclonedx.ComponentTypeApplication:
			binaries++
		case cyclonedx.ComponentTypeLibrary:
			libraries++
			if want := "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"); component.PackageURL != want {
				t.Errorf("the programs are made of %s, want %s alone", component.PackageURL, want)
			}
		}
	}
	if binaries != 12 || libraries != 1 || len(*bom.Dependencies) != binaries {
		t.Errorf("%d programs of %d modules, %d with dependencies; want 12 of 1", binaries, libraries, len(*bom.Dependencies))
	}
}

func untar(t *testing.T, path string, zipped bool) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var from io.Reader = f
	if zipped {
		if from, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{}
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
		if header.Linkname != "" {
			files[header.Name] = "-> " + header.Linkname
		}
	}
}
