//go:build linux

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/test/neverruns"
)

// refusing lists the phrases with which the packages of the kinds refuse parameters.
var refusing = []string{"want ", "cannot be combined", "leave out", "Leave out", "leave one out", "works at level", "use level", "use node", "is there twice", "more than 100%", "is not a", "the limit is", "leads to", "is empty"}

// notOfTheSpec has the refusals with such a phrase that depend on more than the spec.
var notOfTheSpec = map[string]string{
	"the kernel reports opens in version %d: want %d": "kernel",
	"want a JSON list of hosts: %w":                   "program: what the worker writes",
	"flow ingress without a port can only drop here, as the pod uses the node's network; add the pod's port, or use level node":                                                           "target: its pod uses the node's network",
	"flow ingress without a port can only drop here, because spec.containers is set; add the container's port, or leave out spec.containers":                                              "target: its pod has other containers",
	"the kernel has no netem, and a delay in user space cannot select processes. Leave out spec.containers for pods without hostNetwork, or use a node with netem (CONFIG_NET_SCH_NETEM)": "kernel",
	"address %q: want an IPv4 or IPv6 address":                                                                                      "target: its addresses",
	"want a JSON list of hosts, and nothing after it":                                                                               "program: what the worker writes",
	"it leads out of the target's root":                                                                                             "target: its links",
	"it leads to the root of the container, which cannot be covered":                                                                "target: its links",
	"%s: want a mark and an order; it is started by the injector, not by hand":                                                      "program",
	"%s: want a mark and a load; it is started by the injector, not by hand":                                                        "program",
	"%s: want a mark and a plan; it is started by the injector, not by hand":                                                        "program",
	"CPU list %q: want a form such as 0-3,8":                                                                                        "kernel",
	"%q: want a percentage, a duration and a cgroup":                                                                                "program",
	"%s is no disk limit: want io.max or blkio.throttle.* of a cgroup":                                                              "program: a journal",
	"disk pressure at node level needs cgroup version 2, because version 1 has no limit for a whole node; use level pod":            "node: its cgroups",
	"disk pressure at node level needs the cgroup of all pods: kubepods.slice or kubepods, with an io.max, below %s; use level pod": "node: its cgroups",
	"dnsResolver pod: none of the pod's containers runs; use pod-fallback-node":                                                     "target: its containers",
}

// The injector should refuse only what a kernel, a node or a target cannot do. For every
// other refusal, neverruns has a spec that is refused where it is written.
func TestEveryRefusalOfASpecIsMadeWhereItIsWritten(t *testing.T) {
	texts := errorTexts(t)
	rows := map[string]bool{}
	for _, spec := range neverruns.Specs() {
		rows[spec.Injector] = true
		if spec.Injector != "" && !slices.Contains(texts, spec.Injector) {
			t.Errorf("%s: no error of the injector has the text %q", spec.Name, spec.Injector)
		}
	}
	for text := range notOfTheSpec {
		if !slices.Contains(texts, text) {
			t.Errorf("no error of the injector has the text %q: remove it here", text)
		}
	}
	for _, text := range texts {
		asked := slices.ContainsFunc(refusing, func(phrase string) bool { return strings.Contains(text, phrase) })
		if asked && !rows[text] && notOfTheSpec[text] == "" {
			t.Errorf("the injector refuses %q: have test/neverruns, the schema and Validate refuse such a spec first, or name in notOfTheSpec what it depends on", text)
		}
	}
}

// errorTexts returns the texts of all errors of the packages of kinds.
func errorTexts(t *testing.T) []string {
	t.Helper()
	var texts []string
	for _, dir := range []string{
		"containerfailure", "cpupressure", "diskfailure", "diskpressure", "dnsdisruption", "dnsdisruption/answer", "grpcdisruption",
		"memorypressure", "network", "network/rule", "nodefailure", "../listener",
	} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				texts = append(texts, errorTextsOf(t, file)...)
			}
		}
	}
	return texts
}

func errorTextsOf(t *testing.T, file string) (texts []string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parser.ParseFile(token.NewFileSet(), file, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		name, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || name.Sel.Name != "New" && name.Sel.Name != "Errorf" {
			return true
		}
		if text, ok := literalText(call.Args[0]); ok {
			texts = append(texts, text)
		}
		return true
	})
	return texts
}

// literalText returns a text in the source, or several that are joined by +.
func literalText(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := literalText(e.X)
		right, also := literalText(e.Y)
		return left + right, ok && also
	}
	return "", false
}
