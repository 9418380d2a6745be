package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// metricName is of counters, and of the gauges of the bridge.
var metricName = regexp.MustCompile(`^squall_([a-z_]+_total|disruptions[a-z_]*|targets_[a-z_]+|driver_[a-z_]+|temporal_[a-z_]+|worker_[a-z_]+|prober_[a-z_]+)$`)

// TestMetricsPage compares docs/metrics.md with the code, both ways: every metric
// has its row, with its label and the sentence that the code has for it.
func TestMetricsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(squall_[a-z_]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		described[row[1]] = row[2]
	}
	counted := map[string]string{}
	for _, file := range goFiles(t, ".go") {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "../hack/") && !strings.HasPrefix(file, "../test/") {
			metricsOf(t, file, counted)
		}
	}
	if len(counted) == 0 {
		t.Fatal("no metric was found in the code: the rule would prove nothing")
	}
	if diff := cmp.Diff(counted, described); diff != "" {
		t.Errorf("metrics of the code and of docs/metrics.md (-code +page):\n%s", diff)
	}
}

// metricsOf adds the metrics of a file: composite literals of name, help and
// label, or options by name. A name that stands elsewhere is counted without a sentence.
func metricsOf(t *testing.T, file string, counted map[string]string) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	described := map[ast.Node]bool{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.CompositeLit:
			if name, help := optionOf(n, "Name"), optionOf(n, "Help"); name != nil && help != nil && metricName.MatchString(text(name)) {
				described[name] = true
				counted[text(name)] = "| " + text(help)
				return true
			}
			if len(n.Elts) != 3 || !metricName.MatchString(text(n.Elts[0])) {
				return true
			}
			described[n.Elts[0]] = true
			label := " "
			if name := text(n.Elts[2]); name != "" {
				label = " `" + name + "` "
			}
			counted[text(n.Elts[0])] = strings.TrimPrefix(label+"| "+text(n.Elts[1]), " ")
		case *ast.BasicLit:
			if metricName.MatchString(text(n)) && !described[n] {
				t.Errorf("%s: %s is counted without a help sentence", set.Position(n.Pos()), n.Value)
			}
		}
		return true
	})
}

// optionOf is a field of a composite literal, nil if it does not set it by its name.
func optionOf(literal *ast.CompositeLit, field string) ast.Expr {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == field {
				return pair.Value
			}
		}
	}
	return nil
}

// text is the value of a string literal; empty for anything else.
func text(node ast.Expr) string {
	literal, ok := node.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return value
}
