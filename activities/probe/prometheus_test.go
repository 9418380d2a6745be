package probe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rule P1. The server is the test's own, in the form of Prometheus' HTTP API.
func TestPrometheus(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(playPrometheus))
	defer server.Close()
	there := &Prometheus{URL: server.URL + "/", Token: "token"}
	vector := func(values ...string) string {
		var series []string
		for _, value := range values {
			series = append(series, fmt.Sprintf(`{"metric":{"secret":"label"},"value":[1,%q]}`, value))
		}
		return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(series, ",") + `]}}`
	}
	for _, c := range []struct {
		name              string
		server            *Prometheus
		query, comparison string
		want              outcome
		text              string
	}{
		{"it holds", there, vector("0.04"), "< 0.05", succeeds, "the value is 0.04, want < 0.05"},
		{"it does not hold: one attempt", there, vector("0.05"), "< 0.05", fails, "the value is 0.05, want < 0.05"},
		{"a scalar", there, `{"data":{"resultType":"scalar","result":[1,"3"]}}`, ">=3", succeeds, "the value is 3, want >=3"},
		{"infinity is a number", there, vector("+Inf"), "> 1e9", succeeds, "the value is +Inf, want > 1e9"},
		{"no value is an error: three attempts", there, vector(), "> 0", errs,
			`prometheus.query: it gives 0 values, want one: use sum(...) or name more labels, and "or vector(0)" for what may be absent`},
		{"two values", there, vector("1", "2"), "> 0", errs,
			`prometheus.query: it gives 2 values, want one: use sum(...) or name more labels, and "or vector(0)" for what may be absent`},
		{"not a number", there, vector("NaN"), "> 0", errs, "prometheus.query: its value is no number"},
		{"a range", there, `{"data":{"resultType":"matrix","result":[]}}`, "> 0", errs, "prometheus.query: it gives a matrix, want a scalar or a vector of one"},
		{"it does not parse", there, "400", "> 0", errs, "prometheus.query: the server cannot evaluate it (HTTP status 400): try it in Prometheus"},
		{"the server is broken", there, "503", "> 0", errs, "prometheus.query: the server answers with HTTP status 503"},
		{"a redirect is not followed", there, "302", "> 0", errs, "prometheus.query: the server answers with HTTP status 302"},
		{"the token is wrong", &Prometheus{URL: server.URL}, vector("1"), "> 0", errs, "prometheus.query: the server answers with HTTP status 401"},
		{"not Prometheus", there, "hello", "> 0", errs, "prometheus.query: the answer is not Prometheus'"},
		{"too long", there, strings.Repeat("x", 11<<10), "> 0", errs,
			"prometheus.query: the answer is longer than 10240 bytes: a single value is wanted, such as that of sum(...)"},
		{"a refused connection says nothing of the steady state", &Prometheus{URL: "http://" + unusedPort(t)}, "up", "> 0", errs, ""},
		{"no comparison", there, vector("1"), "about 3", errs, ""},
		{"no server", nil, vector("1"), "> 0", errs, "no Prometheus server is set: the operator has to name one, or use another handler"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := anyProber()
			p.Prometheus = c.server
			probe := v1beta1.Probe{TimeoutSeconds: timeLimit(c.text), ProbeHandler: v1beta1.ProbeHandler{Prometheus: &v1beta1.PrometheusProbe{Query: c.query, Comparison: c.comparison}}}
			if answer := wantOutcome(t, p, probe, nil, c.want); c.text != "" && answer.Text != c.text {
				t.Errorf("text %q, want %q", answer.Text, c.text)
			}
		})
	}
}

// playPrometheus answers with the query itself, or with the status it names.
func playPrometheus(w http.ResponseWriter, r *http.Request) {
	query := r.PostFormValue("query")
	switch {
	case r.URL.Path != "/api/v1/query":
		w.WriteHeader(http.StatusNotFound)
	case r.Header.Get("Authorization") != "Bearer token":
		w.WriteHeader(http.StatusUnauthorized)
	case query == "302":
		http.Redirect(w, r, "/api/v1/query", http.StatusFound)
	case query == "400" || query == "503":
		var code int
		_, _ = fmt.Sscan(query, &code)
		w.WriteHeader(code)
	default:
		_, _ = w.Write([]byte(query))
	}
}
