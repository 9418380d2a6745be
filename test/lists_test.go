package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// inOnePiece are the calls that list what is in a cluster at once and not in pages,
// by function, and why they may.
var inOnePiece = map[string]string{
	"activities/cluster.ListChaosPods":       "one shard has 200 targets at most",
	"activities/orphans.listNodes":           "it is one page, of the size that the workflow asks for",
	"activities/orphans.hasFootprint":        "it asks for one",
	"activities/census.reflect":              "a reflector asks for pages itself",
	"cli/demo.notReady":                      "the shop has three Deployments",
	"cli/demo.log":                           "it has one client",
	"cli/preview.tooMany":                    "it asks for one, and how many more there are",
	"cli/cluster.events":                     "events of one object, from which a watch goes on",
	"crdbridge/emergencystop.markAll":        "emergency stops are made by people, and few",
	"crdbridge/disruption.finalizeUntouched": "it asks for one",
	"crdbridge/podops.endOrphan":             "it asks for one",
}

// TestListsComeInPages finds calls that read all of something from the API server
// in one piece: 5,000 nodes or 40,000 chaos pods would be in memory whole (finding
// 32). Code that reads in pages hands the method List to kube.Pages and does not
// call it. Lists of caches, and of Squall's own types by a plain client, look
// otherwise and are not found.
func TestListsComeInPages(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range goFiles(t, ".go") {
		path := filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator)))
		part, _, _ := strings.Cut(path, "/")
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/internal/") || !strings.Contains(" activities kube worker crdbridge cli ", " "+part+" ") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			name := filepath.ToSlash(filepath.Dir(path)) + "." + function.Name.Name
			ast.Inspect(function.Body, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok || !listsLive(call) {
					return true
				}
				seen[name] = true
				if inOnePiece[name] == "" {
					t.Errorf("%s: %s lists in one piece; use kube.Pages, or say in inOnePiece why it may", set.Position(call.Pos()), name)
				}
				return true
			})
		}
	}
	for name := range inOnePiece {
		if !seen[name] {
			t.Errorf("%s lists nothing in one piece: take it off the list", name)
		}
	}
}

// listsLive is true for List of a client for one type, be it Pods(namespace) or a variable,
// and of a reader that is called live.
func listsLive(call *ast.CallExpr) bool {
	list, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || list.Sel.Name != "List" {
		return false
	}
	switch of := list.X.(type) {
	case *ast.CallExpr:
		client, ok := of.Fun.(*ast.SelectorExpr)
		return ok && client.Sel.Name != "GetStore"
	case *ast.Ident:
		return len(call.Args) == 2
	case *ast.SelectorExpr:
		return strings.EqualFold(of.Sel.Name, "live")
	}
	return false
}
