package test

import (
	"go/ast"
	"go/parser"
	"go/token"
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
