package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestReceiversHaveFewMethods bounds the methods of a type: a type with more does the work
// of several.
func TestReceiversHaveFewMethods(t *testing.T) {
	const most = 40
	methods := map[string]int{}
	for _, file := range goFiles(t, ".go") {
		path := filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator)))
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/") || strings.HasPrefix(path, "hack/") || strings.HasPrefix(filepath.Base(path), "zz_") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv != nil {
				methods[filepath.ToSlash(filepath.Dir(path))+"."+receiver(function.Recv.List[0].Type)]++
			}
		}
	}
	largest := ""
	for name, n := range methods {
		if n > methods[largest] {
			largest = name
		}
		if n > most {
			t.Errorf("%s has %d methods, at most %d", name, n, most)
		}
	}
	if len(methods) < 200 {
		t.Errorf("%d types with methods found, want all", len(methods))
	}
	t.Logf("%s has %d methods, the most", largest, methods[largest])
}

// receiver is the name of a method's type.
func receiver(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
