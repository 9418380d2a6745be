package promql

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for query, refused := range map[string]string{
		"up": "",
		`sum(rate(http_requests_total{code=~"5.."}[1m])) / sum(rate(http_requests_total[1m]))`: "",
		"scalar(up)":                       "",
		"sum(rate(http_requests_total[1m)": "invalid PromQL",
		"rate(up)":                         "expected type range vector",
		"nosuch(up)":                       "unknown function",
		"info(up)":                         "invalid PromQL",
		"up[5m]":                           "its value is a range vector; want one number",
		`"up"`:                             "its value is a string; want one number",
	} {
		err := Check(query)
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("Check(%s) = %v, want %q", query, err, refused)
		}
	}
}
