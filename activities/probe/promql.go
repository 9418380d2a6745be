package probe

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/squall-chaos/squall/api/promql"
)

// limit returns query with the matcher label="namespace" in every selector, so
// that the server answers from series of the namespace alone. It refuses a query
// that selects another namespace by the same label, because its value would
// silently be that of no series.
func limit(query, label, namespace string) (string, error) {
	if namespace == "" {
		return "", errors.New("the worker does not know the namespace to limit it to")
	}
	own, err := labels.NewMatcher(labels.MatchEqual, label, namespace)
	if err != nil {
		return "", err
	}
	parsed, err := promql.Parse(query)
	if err != nil {
		return "", err
	}
	for _, selector := range selectors(parsed) {
		for _, matcher := range selector.LabelMatchers {
			if matcher.Name == label && !matcher.Matches(namespace) {
				return "", fmt.Errorf("it selects %s, but a probe in namespace %s reads only series with %s: remove that matcher", matcher, namespace, own)
			}
		}
		selector.LabelMatchers = append(selector.LabelMatchers, own)
	}
	limited := parsed.String()
	// The server reads the text, not the tree, so parsing the text again must still find
	// the matcher.
	again, err := promql.Parse(limited)
	if err != nil || slices.ContainsFunc(selectors(again), func(s *parser.VectorSelector) bool { return !hasMatcher(s, own) }) {
		return "", fmt.Errorf("it cannot be limited to namespace %s: simplify it", namespace)
	}
	return limited, nil
}

// selectors returns all selectors of an expression, also in ranges and subqueries.
func selectors(expr parser.Expr) []*parser.VectorSelector {
	var found []*parser.VectorSelector
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			found = append(found, selector)
		}
		return nil
	})
	return found
}

func hasMatcher(selector *parser.VectorSelector, want *labels.Matcher) bool {
	return slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool {
		return m.Name == want.Name && m.Type == want.Type && m.Value == want.Value
	})
}
