package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Prometheus is the server for queries. The operator chose it, so it may be anywhere.
// Its certificate is verified, because it receives a token.
type Prometheus struct {
	// URL of the server, to which /api/v1/query is added.
	URL string
	// Token is sent as a bearer token. Empty means none.
	Token string
	// NamespaceLabel is the label that holds a series' namespace, such as namespace. If it
	// is set, a query reads only series of its probe's namespace. Empty means that a query
	// reads all that the server has.
	NamespaceLabel string
}

// ask succeeds when the query's value compares as the probe wants. A server without an
// answer, an empty answer or one of several values proves nothing about the steady
// state: it is an error.
func (p *Prometheus) ask(ctx context.Context, probe *v1beta1.PrometheusProbe, namespace string) (Answer, error) {
	if p == nil {
		return Answer{}, errors.New("no Prometheus server is set: the operator has to name one, or use another handler")
	}
	holds, err := probe.Compare()
	if err != nil {
		return Answer{}, fmt.Errorf("prometheus.comparison %q: %w", probe.Comparison, err)
	}
	query := probe.Query
	if p.NamespaceLabel != "" {
		if query, err = limit(query, p.NamespaceLabel, namespace); err != nil {
			return Answer{}, fmt.Errorf("prometheus.query: %w", err)
		}
	}
	value, err := p.query(ctx, query)
	if err != nil {
		return Answer{}, fmt.Errorf("prometheus.query: %w", err)
	}
	answer := Answer{Result: Success, Text: fmt.Sprintf("the value is %g, want %s", value, strings.TrimSpace(probe.Comparison))}
	if !holds(value) {
		answer.Result = Failure
	}
	return answer, nil
}

func (p *Prometheus) query(ctx context.Context, query string) (float64, error) {
	body := strings.NewReader(url.Values{"query": {query}}.Encode())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(p.URL, "/")+"/api/v1/query", body)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if p.Token != "" {
		request.Header.Set("Authorization", "Bearer "+p.Token)
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy
	defer transport.CloseIdleConnections()
	// The token is for this server alone.
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask the server: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("read its answer: %w", err)
	case len(answer) > maxBody:
		return 0, fmt.Errorf("the answer is longer than %d bytes: a single value is wanted, such as that of sum(...)", maxBody)
	case response.StatusCode == http.StatusBadRequest || response.StatusCode == http.StatusUnprocessableEntity:
		return 0, fmt.Errorf("the server cannot evaluate it (HTTP status %d): try it in Prometheus", response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return 0, fmt.Errorf("the server answers with HTTP status %d", response.StatusCode)
	}
	return single(answer)
}

// single returns the one value in an answer of Prometheus' HTTP API.
func single(answer []byte) (float64, error) {
	var parsed struct {
		Data struct {
			ResultType string          `json:"resultType"`
			Result     json.RawMessage `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer, &parsed); err != nil {
		return 0, errors.New("the answer is not Prometheus'")
	}
	var sample [2]any // a time and the value as a text
	switch parsed.Data.ResultType {
	case "scalar":
		if err := json.Unmarshal(parsed.Data.Result, &sample); err != nil {
			return 0, errors.New("the answer is not Prometheus'")
		}
	case "vector":
		var series []struct {
			Value [2]any `json:"value"`
		}
		if err := json.Unmarshal(parsed.Data.Result, &series); err != nil {
			return 0, errors.New("the answer is not Prometheus'")
		}
		if len(series) != 1 {
			return 0, fmt.Errorf("it gives %d values, want one: use sum(...) or name more labels, and \"or vector(0)\" for what may be absent", len(series))
		}
		sample = series[0].Value
	default:
		return 0, fmt.Errorf("it gives a %s, want a scalar or a vector of one", text.Shorten(parsed.Data.ResultType, maxText))
	}
	text, _ := sample[1].(string)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) {
		return 0, errors.New("its value is no number")
	}
	return value, nil
}
