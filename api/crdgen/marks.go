package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// marksReference is the page that lists the labels, annotations and finalizers.
const marksReference = "docs/reference/labels.md"

// markDirectories are the directories whose constants are labels and annotations.
var markDirectories = []string{"activities", "api", "crdbridge", "injector", "kube", "worker", "workflows"}

const marksHead = `# Labels, annotations and finalizers

Squall writes all of them, except where *written by* names another author. Names that end with ` + "`.` or `/`" + ` are
prefixes. A record is a ConfigMap in the namespace of the chaos pods. ` + "`make generate`" + ` writes this page from the
constants of the code.

| name | type | on | meaning |
|---|---|---|---|
`

// mark is a constant that names a label, an annotation or a finalizer. Its trailing
// comment is "OBJECTS: MEANING".
type mark struct{ name, sort, on, meaning string }

func writeMarks(root, page string) error {
	marks, err := marksOf(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, page), marksPage(marks), 0o644)
}

func marksPage(marks []mark) []byte {
	var page bytes.Buffer
	page.WriteString(marksHead)
	for _, m := range marks {
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", m.name, m.sort, m.on, m.meaning)
	}
	return page.Bytes()
}

// marksOf returns the marks in the code below root, by name. A mark without a trailing
// comment is an error.
func marksOf(root string) (marks []mark, err error) {
	for _, directory := range markDirectories {
		err := filepath.WalkDir(filepath.Join(root, directory), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			found, err := marksIn(file)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			marks = append(marks, found...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Or(cmp.Compare(a.sort, b.sort), cmp.Compare(a.name, b.name)) })
	return marks, nil
}

func marksIn(file *ast.File) (marks []mark, err error) {
	for _, declaration := range file.Decls {
		constants, ok := declaration.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			constant := spec.(*ast.ValueSpec)
			sort := sortOf(constant.Names[0].Name)
			if sort == "" || len(constant.Values) != 1 {
				continue
			}
			literal, ok := constant.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING || !strings.Contains(literal.Value, "chaos.squall.dev") {
				continue
			}
			on, meaning, found := strings.Cut(strings.TrimSpace(constant.Comment.Text()), ": ")
			if !found {
				return nil, fmt.Errorf("%s needs a trailing comment: OBJECTS: MEANING", constant.Names[0].Name)
			}
			name, err := strconv.Unquote(literal.Value)
			if err != nil {
				return nil, err
			}
			marks = append(marks, mark{name, sort, strings.Replace(on, "written by", "*written by*", 1), meaning})
		}
	}
	return marks, nil
}

// sortOf is what a constant of this name is; empty if it is none of them.
func sortOf(name string) string {
	for _, sort := range []string{"Label", "Annotation", "Finalizer"} {
		if strings.HasPrefix(name, sort) || strings.HasPrefix(name, strings.ToLower(sort)) || strings.HasSuffix(name, sort) {
			return strings.ToLower(sort)
		}
	}
	return ""
}
