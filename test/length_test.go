package test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShortFunctions keeps functions readable: 60 lines, and 40 for those that
// people read first.
func TestShortFunctions(t *testing.T) {
	first := map[string]int{"workflows.Workflow": 0, "crdbridge.Reconcile": 0}
	for _, file := range goFiles(t, ".go") {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "zz_") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		folder := strings.Split(filepath.ToSlash(file), "/")[1]
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			lines := set.Position(function.End()).Line - set.Position(function.Pos()).Line + 1
			most := 60
			if _, listed := first[folder+"."+function.Name.Name]; listed {
				first[folder+"."+function.Name.Name]++
				most = 40
			}
			if lines > most {
				t.Errorf("%s: %s has %d lines, at most %d", set.Position(function.Pos()), function.Name.Name, lines, most)
			}
		}
	}
	for name, seen := range first {
		if seen == 0 {
			t.Errorf("%s was not found: the rule above looks for it by name", name)
		}
	}
}

// size is how large a package is, without its tests and generated files.
type size struct{ lines, files int }

// most is the limit for packages. The types of api/v1beta1 are one group by the rules of
// Kubernetes, and have none.
var most = size{lines: 3000, files: 20}

// above lists the packages that exceed a limit, with their size as the ceiling; 0 is the
// limit. Ceilings only shrink, and a package that fits leaves the list.
var above = map[string]size{
	"injector": {files: 22},
}

// TestSmallPackages keeps packages readable, as TestShortFunctions does functions.
func TestSmallPackages(t *testing.T) {
	sizes := packageSizes(t)
	if len(sizes) < 100 {
		t.Fatalf("%d packages were found: the test would prove little", len(sizes))
	}
	for name, is := range sizes {
		ceiling := above[name]
		if limit := max(most.lines, ceiling.lines); is.lines > limit {
			t.Errorf("%s has %d lines, at most %d: move a concern into a package of its own", name, is.lines, limit)
		}
		if limit := max(most.files, ceiling.files); is.files > limit {
			t.Errorf("%s has %d files, at most %d: move a concern into a package of its own", name, is.files, limit)
		}
	}
	for name, ceiling := range above {
		is := sizes[name]
		if ceiling.lines > 0 && is.lines <= most.lines || ceiling.files > 0 && is.files <= most.files {
			t.Errorf("%s has %d lines in %d files and fits: remove its ceiling from the list", name, is.lines, is.files)
		}
	}
}

// packageSizes are the sizes of all packages of the repository, by folder.
func packageSizes(t *testing.T) map[string]size {
	t.Helper()
	sizes := map[string]size{}
	for _, path := range goFiles(t, ".go") {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(filepath.Base(path), "zz_") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel("..", filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		if name = filepath.ToSlash(name); name == "api/v1beta1" {
			continue
		}
		is := sizes[name]
		sizes[name] = size{is.lines + bytes.Count(text, []byte("\n")), is.files + 1}
	}
	return sizes
}
