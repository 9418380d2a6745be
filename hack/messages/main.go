// Command messages writes the texts of the programs for Vale: every string of the
// code with at least three words, so errors, events, conditions, help and log lines, and
// the messages of the API's rules.
// FILE.go becomes FILE.go.md, in which a text is at the line where the code has it.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	root := flag.String("root", "..", "directory of the repository")
	out := flag.String("o", "../bin/messages", "directory to write; what is in it is removed")
	flag.Parse()
	texts, err := run(*root, *out, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(1)
	}
	fmt.Printf("%d texts in %s\n", texts, *out)
}

// run writes the texts of all packages below these directories of root.
func run(root, out string, directories []string) (texts int, err error) {
	if err := os.RemoveAll(out); err != nil {
		return 0, err
	}
	for _, directory := range directories {
		err := filepath.WalkDir(filepath.Join(root, directory), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			code, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			page, n, err := pageOf(path, code)
			if err != nil || n == 0 {
				return err
			}
			texts += n
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			name = filepath.Join(out, name+".md")
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				return err
			}
			return os.WriteFile(name, []byte(page), 0o644)
		})
		if err != nil {
			return 0, err
		}
	}
	if texts == 0 {
		return 0, fmt.Errorf("no texts below %s", strings.Join(directories, ", "))
	}
	return texts, nil
}

// pageOf returns the texts of a file, each at its line as an element of a list, and
// their number.
func pageOf(path string, code []byte) (page string, texts int, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, code, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", 0, err
	}
	lines := make([]string, set.File(file.Pos()).LineCount()+1)
	add := func(at token.Pos, text string) {
		if shown := shownText(text); shown != "" {
			line := set.Position(at).Line
			lines[line] = strings.TrimPrefix(lines[line]+" "+shown, " ")
			texts++
		}
	}
	var visit func(ast.Node) bool
	visit = func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec, *ast.Field:
			return false // a path, or the tag of a field
		case *ast.BinaryExpr, *ast.BasicLit:
			text, others := textOf(node.(ast.Expr))
			add(node.Pos(), text)
			for _, other := range others {
				ast.Inspect(other, visit)
			}
			return false
		}
		return true
	}
	ast.Inspect(file, visit)
	for _, group := range file.Comments {
		for _, comment := range group.List {
			for _, found := range aRule.FindAllStringSubmatch(comment.Text, -1) {
				text, _ := strconv.Unquote(found[1])
				add(comment.Pos(), text)
			}
		}
	}
	for i, line := range lines {
		if line != "" {
			lines[i] = "- " + line
		}
	}
	return strings.Join(lines[1:], "\n") + "\n", texts, nil
}

// textOf is a string that the code puts together with +. An operand that is no literal
// is X in it, and one of the others.
func textOf(node ast.Expr) (text string, others []ast.Expr) {
	switch node := node.(type) {
	case *ast.BasicLit:
		if node.Kind == token.STRING {
			// The parser has read the literal.
			text, _ = strconv.Unquote(node.Value)
		}
		return text, nil
	case *ast.BinaryExpr:
		if node.Op != token.ADD {
			return "", []ast.Expr{node.X, node.Y}
		}
		left, others := textOf(node.X)
		right, more := textOf(node.Y)
		return left + right, append(others, more...)
	}
	return "X", []ast.Expr{node}
}

var (
	// aRule is the message of a rule of the API in a marker.
	aRule = regexp.MustCompile(`[ ,]message=("(?:[^"\\]|\\.)*")`)
	// aVerb is a verb of fmt.
	aVerb = regexp.MustCompile(`%[-+# 0]*(\d+|\*)?(\.(\d+|\*))?(\[\d+\])?[a-zA-Z]`)
	// aSentence has three words at least.
	aSentence = regexp.MustCompile(`[A-Za-z]{2,}\W+(\S+\s+)*?[A-Za-z]{2,}\W+(\S+\s+)*?[A-Za-z]{2,}`)
	// anExample is an indented line of help, and what precedes a text in a report.
	anExample = regexp.MustCompile(`(?m)^(  |\t).*$`)
)

// shownText is a text as an element of a list of Markdown, or nothing if it is no
// sentence. X stands for each value in it.
func shownText(text string) string {
	text = anExample.ReplaceAllString(aVerb.ReplaceAllString(text, "X"), "")
	if !aSentence.MatchString(text) || !strings.Contains(text, " ") {
		return ""
	}
	var paragraphs []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		paragraph = strings.Join(strings.Fields(paragraph), " ")
		if paragraph != "" && !strings.ContainsAny(paragraph[len(paragraph)-1:], ".:;?!") {
			paragraph += "."
		}
		paragraphs = append(paragraphs, paragraph)
	}
	return strings.NewReplacer("`", "", "<", "&lt;", "*", "", "_", `\_`).Replace(strings.TrimSpace(strings.Join(paragraphs, " ")))
}
