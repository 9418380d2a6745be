// Package promql parses the queries of probes. The worker and the CLI share it, so that
// squall validate refuses the queries that the worker refuses.
package promql

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"
)

// Parse returns the expression of a query. Experimental functions are errors: info()
// reads series that no selector of the query names.
func Parse(query string) (parser.Expr, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		return nil, fmt.Errorf("invalid PromQL: %w", err)
	}
	return expr, nil
}

// Check returns why a query can never have a single value, which a probe compares.
func Check(query string) error {
	expr, err := Parse(query)
	if err != nil {
		return err
	}
	if kind := expr.Type(); kind != parser.ValueTypeVector && kind != parser.ValueTypeScalar {
		return fmt.Errorf("its value is a %s; want one number, such as sum(rate(METRIC[1m]))", parser.DocumentedType(kind))
	}
	return nil
}
