package probe

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The server is the test's own. It records the query that it gets.
func TestQueriesAreLimitedToTheNamespace(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.PostFormValue("query")
		_, _ = w.Write([]byte(`{"data":{"resultType":"scalar","result":[1,"1"]}}`))
	}))
	defer server.Close()
	const other = `prometheus.query: it selects namespace="other", but a probe in namespace shop reads only series with namespace="shop": remove that matcher`
	for _, c := range []struct {
		name, query string
		// want is the query that the server gets; text is the answer if it gets none.
		want, text string
	}{
		{"a metric", `up`, `up{namespace="shop"}`, ""},
		{"other matchers stay", `up{job="web"}`, `up{job="web",namespace="shop"}`, ""},
		{"no metric", `{__name__=~".+"}`, `{__name__=~".+",namespace="shop"}`, ""},
		{"each selector of a quotient, or 0",
			`sum(rate(errors_total{code=~"5.."}[5m])) / sum(rate(requests_total[5m])) or vector(0)`,
			`sum(rate(errors_total{code=~"5..",namespace="shop"}[5m])) / sum(rate(requests_total{namespace="shop"}[5m])) or vector(0)`, ""},
		{"a subquery, an offset and a time", `max_over_time(rate(x[1m])[10m:30s] offset 5m) - y @ end() offset -1h`,
			`max_over_time(rate(x{namespace="shop"}[1m])[10m:30s] offset 5m) - y{namespace="shop"} @ end() offset -1h`, ""},
		{"the parameter of an aggregation", `topk(scalar(y), x)`, `topk(scalar(y{namespace="shop"}), x{namespace="shop"})`, ""},
		{"sets and joins", `(a and b) unless on (x) c`, `(a{namespace="shop"} and b{namespace="shop"}) unless on (x) c{namespace="shop"}`, ""},
		{"absence", `absent(up)`, `absent(up{namespace="shop"})`, ""},
		{"no selector", `vector(1)`, `vector(1)`, ""},
		{"a name that would be an expression", `{"up or secret"}`, `{__name__="up or secret",namespace="shop"}`, ""},
		{"a value that would end the selector", `up{job="} or secret{a=\"b\""}`, `up{job="} or secret{a=\"b\"",namespace="shop"}`, ""},
		{"its own namespace", `up{namespace=~"shop|other"}`, `up{namespace="shop",namespace=~"shop|other"}`, ""},
		{"another namespace is refused", `sum(kube_pod_info{namespace="other"})`, "", other},
		{"another namespace beside its own", `up{namespace="shop"} or up{namespace="other"}`, "", other},
		{"a comment cannot hide it", "up # {\n{namespace=\"other\"}", "", other},
		{"all but its own", `up{namespace!~"shop|"}`, "",
			`prometheus.query: it selects namespace!~"shop|", but a probe in namespace shop reads only series with namespace="shop": remove that matcher`},
		{"a function that reads other series", `info(up)`, "", `prometheus.query: invalid PromQL: 1:1: parse error: function "info" is not enabled`},
		{"another server's dialect", `up{job="a" or namespace="other"}`, "",
			`prometheus.query: invalid PromQL: 1:12: parse error: unexpected identifier "or" in label matching, expected "," or "}"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := anyProber()
			p.Prometheus, p.Namespace = &Prometheus{URL: server.URL, NamespaceLabel: "namespace"}, "shop"
			got = ""
			want := succeeds
			if c.want == "" {
				want = errs
			} else {
				c.text = "the value is 1, want > 0"
			}
			answer := wantOutcome(t, p, queries(c.query), nil, want)
			if got != c.want || answer.Text != c.text {
				t.Errorf("the server got %q, want %q\ntext %q, want %q", got, c.want, answer.Text, c.text)
			}
		})
	}
	t.Run("without the label queries stay as they are", func(t *testing.T) {
		p := anyProber()
		p.Prometheus, p.Namespace = &Prometheus{URL: server.URL}, "shop"
		if wantOutcome(t, p, queries(`info(up{namespace="other"})`), nil, succeeds); got != `info(up{namespace="other"})` {
			t.Errorf("the server got %q", got)
		}
	})
	t.Run("without a namespace nothing is asked", func(t *testing.T) {
		p, before := anyProber(), got
		p.Prometheus = &Prometheus{URL: server.URL, NamespaceLabel: "namespace"}
		if wantOutcome(t, p, queries("down"), nil, errs); got != before {
			t.Errorf("the server got %q", got)
		}
	})
}

func queries(query string) v1beta1.Probe {
	return v1beta1.Probe{TimeoutSeconds: timeLimit(""), ProbeHandler: v1beta1.ProbeHandler{Prometheus: &v1beta1.PrometheusProbe{Query: query, Comparison: "> 0"}}}
}
