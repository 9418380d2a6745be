package toolchain

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

func TestVersion(t *testing.T) {
	const gomod = "module m\n\nrequire k8s.io/kubernetes v1.34.4\n\nrequire (\n\tk8s.io/api v0.34.4 // indirect\n)\n\nreplace k8s.io/kubectl => k8s.io/kubectl v0.1.0\n"
	tests := []struct{ module, want string }{
		{"k8s.io/kubernetes", "v1.34.4"},
		{"k8s.io/api", "v0.34.4"},
		{"k8s.io/kube", ""},
		{"k8s.io/kubectl", ""},
	}
	for _, test := range tests {
		got, err := Version([]byte(gomod), test.module)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("Version(gomod, %s) = %q, %v, want %q", test.module, got, err, test.want)
		}
	}
}

func TestKeyChangesWithItsInputsOnly(t *testing.T) {
	tool := Tool{Name: "tool", Dir: "tools/x", Module: "example.com/m", Sources: []string{"tools/x"}, Builds: own("tool")}
	files := func(changes map[string]string) fstest.MapFS {
		all := fstest.MapFS{}
		for name, content := range map[string]string{
			"tools/x/go.mod": "module x\n\nrequire example.com/m v1.2.3\n", "tools/x/go.sum": "sum", "tools/x/main.go": "package main",
			"README.md": "text",
		} {
			all[name] = &fstest.MapFile{Data: []byte(content)}
		}
		for name, content := range changes {
			all[name] = &fstest.MapFile{Data: []byte(content)}
		}
		return all
	}
	base, version, err := Key(files(nil), tool)
	if err != nil || version != "v1.2.3" || !strings.HasPrefix(base, "tool-v1.2.3-") {
		t.Fatalf("Key(...) = %s, %s, %v, want tool-v1.2.3-... and v1.2.3", base, version, err)
	}
	tests := []struct {
		name    string
		changes map[string]string
		same    bool
	}{
		{"nothing changed", nil, true},
		{"another file changed", map[string]string{"README.md": "other"}, true},
		{"a test came", map[string]string{"tools/x/main_test.go": "package main"}, true},
		{"a source changed", map[string]string{"tools/x/main.go": "package main // x"}, false},
		{"a source came", map[string]string{"tools/x/more.go": "package main"}, false},
		{"go.sum changed", map[string]string{"tools/x/go.sum": "other"}, false},
		{"go.mod changed", map[string]string{"tools/x/go.mod": "module x\n\nrequire example.com/m v1.2.4\n"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			key, _, err := Key(files(test.changes), tool)
			if err != nil {
				t.Fatal(err)
			}
			if (key == base) != test.same {
				t.Errorf("Key(...) = %s, before %s", key, base)
			}
		})
	}
}

func TestEveryToolOfTheCheckoutHasAKey(t *testing.T) {
	for _, tool := range Tools() {
		key, version, err := Key(os.DirFS(".."), tool)
		if err != nil {
			t.Errorf("Key(%s): %v", tool.Name, err)
		}
		if tool.Module != "" && !strings.HasPrefix(version, "v") {
			t.Errorf("Key(%s) = %s, version %s, want one that starts with v", tool.Name, key, version)
		}
	}
}

func TestBuildIsNotRepeatedAndNeverHalf(t *testing.T) {
	hack, cache := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{"go.mod": "module x\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(hack+"/"+name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tool := Tool{Name: "tool", Dir: ".", Sources: []string{"."}, Builds: own("tool"), Images: []Image{{"tool", "tool"}}}
	lines := 0
	b := Builder{Hack: hack, Cache: cache, Report: func(string, ...any) { lines++ }}
	dir := cache + "/tool-key"
	if err := os.MkdirAll(dir+".half/rubbish", 0o755); err != nil { // of a killed build
		t.Fatal(err)
	}
	for range 2 {
		if err := b.ensure(t.Context(), tool, "dev", dir); err != nil {
			t.Fatal(err)
		}
	}
	if lines != 2 {
		t.Errorf("two builds reported %d lines, want the two of the first", lines)
	}
	for _, name := range []string{"tool", "tool.tar"} {
		if !exists(dir + "/" + name) {
			t.Errorf("%s was not made", name)
		}
	}
	if exists(dir+".half") || exists(dir+"/rubbish") {
		t.Error("something of the killed build is left")
	}
	broken := tool
	broken.Builds = func(string) []Build { return []Build{{Packages: []string{"./missing"}}} }
	if err := b.ensure(t.Context(), broken, "dev", cache+"/broken-key"); err == nil || exists(cache+"/broken-key") {
		t.Errorf("ensure(broken) = %v, and it looks finished: %t", err, exists(cache+"/broken-key"))
	}
}
