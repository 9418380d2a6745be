package world

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The floor makes as many calls at once as the worker does only as long as
// these are its numbers.
func TestFloorIsAsParallelAsTheWorker(t *testing.T) {
	for _, c := range []struct {
		folder, name string
		floor        int
	}{
		{"worker", "parallel", parallel},
		{"", "parallelShards", parallelShards},
		{"", "shardSize", shardSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := numbersNamed(t, filepath.Join("..", "..", c.folder), c.name); len(got) != 1 || got[0] != c.floor {
				t.Errorf("the programs have the numbers %v for %s, the floor has %d: want this one alone", got, c.name, c.floor)
			}
		})
	}
}

// numbersNamed are the numbers that the programs' sources below a folder give a
// constant, or the default of a flag, of that name.
func numbersNamed(t *testing.T, folder, name string) (found []int) {
	t.Helper()
	note := func(value ast.Expr) {
		if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.INT {
			if n, err := strconv.Atoi(literal.Value); err == nil {
				found = append(found, n)
			}
		}
	}
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, known := range n.Names {
				if strings.EqualFold(known.Name, name) && i < len(n.Values) {
					note(n.Values[i])
				}
			}
		case *ast.CallExpr:
			if called, ok := n.Fun.(*ast.SelectorExpr); ok && called.Sel.Name == "Int" && len(n.Args) == 3 {
				if key, ok := n.Args[0].(*ast.BasicLit); ok && key.Value == strconv.Quote(name) {
					note(n.Args[1])
				}
			}
		}
		return true
	}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{"test", "hack", ".git", ".dev"}, entry.Name()) {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			ast.Inspect(file, look)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
