package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// recorded are metrics pages of a worker and of the leading bridge, with the driver of pod
// operations. They come from a development cluster before and after some disruptions,
// without unused numbers.
const recorded = "testdata/metrics"

// rareMetrics are numbers that queries use and that pages have only after a failure.
var rareMetrics = []string{"temporal_workflow_task_execution_failed_total"}

// ruleFile is a file of rules in Prometheus' format.
type ruleFile struct {
	Groups []struct {
		Rules []struct{ Alert, Expr string }
	}
}

// Every alert fires on some numbers, and does not fire on similar ones.
func TestAlerts(t *testing.T) {
	prometheus(t, "promtool", "check", "rules", "monitoring/alerts.yaml")
	prometheus(t, "promtool", "test", "rules", "monitoring/alerts_test.yaml")
	var tests struct {
		Tests []struct {
			Expressions []struct {
				Expr    string
				Samples []any `json:"exp_samples"`
			} `json:"promql_expr_test"`
		}
	}
	read(t, "monitoring/alerts_test.yaml", &tests)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, e := range test.Expressions {
			name := regexp.MustCompile(`alertname="(\w+)"`).FindStringSubmatch(e.Expr)[1]
			fires[name], quiet[name] = fires[name] || len(e.Samples) > 0, quiet[name] || len(e.Samples) == 0
		}
	}
	for name := range alerts(t) {
		if !fires[name] || !quiet[name] {
			t.Errorf("%s: fires in a test: %v, is quiet in a test: %v; want both", name, fires[name], quiet[name])
		}
	}
}

// Every alert leads to its section of the runbooks, and every section belongs to an alert.
func TestEveryAlertHasItsRunbook(t *testing.T) {
	page, err := os.ReadFile("../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	read(t, "monitoring/alerts.yaml", &rules)
	var want, got []string
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			want = append(want, rule.Alert)
			want := "https://github.com/squall-chaos/squall/blob/main/docs/runbooks.md#" + strings.ToLower(rule.Alert)
			if got := rule.Annotations["runbook_url"]; got != want {
				t.Errorf("%s: its annotation runbook_url is %q, want %q", rule.Alert, got, want)
			}
		}
	}
	for _, heading := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		got = append(got, heading[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alerts, and sections of docs/runbooks.md (-alerts +sections):\n%s", diff)
	}
}

// Every query of the alerts and of the dashboard finds a result on the recorded pages, in a
// Prometheus that scrapes them.
func TestQueriesFindWhatIsThere(t *testing.T) {
	server := scrape(t)
	queries := dashboard(t)
	for name, expr := range alerts(t) {
		queries["alert "+name] = healthy(expr)
	}
	for name, query := range queries {
		if slices.ContainsFunc(rareMetrics, func(rare string) bool { return strings.Contains(query, rare) }) {
			if samples := server.ask(t, query); samples != 0 {
				t.Errorf("%s: the pages have it by now; take it off the list rareMetrics", name)
			}
			continue
		}
		if samples := server.ask(t, query); samples == 0 {
			t.Errorf("%s: nothing is found by %s", name, query)
		}
	}
}

// healthy returns the part of an alert's expression that has a value without a failure: the
// one before the comparison.
func healthy(expr string) string {
	return regexp.MustCompile(`absent\((\w+)\)`).ReplaceAllString(strings.ReplaceAll(expr, " > 0", ""), "$1")
}

// The recorded pages have every number of docs/metrics.md, and no other of Squall. Record
// them again when a number is added or removed.
func TestRecordedPagesAreCurrent(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string]bool{}, map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(squall_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		want[row[1]] = true
	}
	files, err := filepath.Glob(recorded + "/*.txt")
	if err != nil || len(files) != 4 {
		t.Fatalf("recorded pages %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range regexp.MustCompile(`(?m)^# TYPE (squall_[a-z_]+) `).FindAllStringSubmatch(string(text), -1) {
			got[kind[1]] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("numbers of docs/metrics.md and of %s (-page +recorded):\n%s", recorded, diff)
	}
}

// prometheus-operator gets the same rules, and finds the port it scrapes.
func TestPrometheusOperator(t *testing.T) {
	var want, got map[string]any
	read(t, "monitoring/alerts.yaml", &want)
	above := t.TempDir()
	overlay := filepath.Join(above, "overlay")
	if err := errors.Join(os.CopyFS(filepath.Join(above, "base"), os.DirFS(".")), os.Mkdir(overlay, 0o755), os.WriteFile(
		filepath.Join(overlay, "kustomization.yaml"), []byte("resources: [../base]\ncomponents: [../base/components/prometheus-operator]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	monitored := map[string]bool{}
	for _, object := range render(t, overlay) {
		switch object.GetKind() {
		case "PrometheusRule":
			got, _, _ = unstructured.NestedMap(object.Object, "spec")
		case "PodMonitor":
			endpoints, _, _ := unstructured.NestedSlice(object.Object, "spec", "podMetricsEndpoints")
			monitored[endpoints[0].(map[string]any)["port"].(string)] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-monitoring/alerts.yaml +components/prometheus-operator):\n%s", diff)
	}
	for _, deployment := range rendered(t, "Deployment") {
		ports := podOf(t, deployment).Spec.Containers[0].Ports
		if !slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool { return monitored[p.Name] }) {
			t.Errorf("%s has none of the ports %v that are scraped", deployment.GetName(), monitored)
		}
	}
}

// alerts returns the expressions by the alerts' names.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	var rules ruleFile
	read(t, "monitoring/alerts.yaml", &rules)
	expressions := map[string]string{}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			expressions[rule.Alert] = rule.Expr
		}
	}
	if len(expressions) == 0 {
		t.Fatal("there are no alerts: the test would prove nothing")
	}
	return expressions
}

// dashboard returns the queries of the dashboard, by panel and number.
func dashboard(t *testing.T) map[string]string {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	read(t, "components/grafana-dashboard/squall.json", &board)
	queries := map[string]string{}
	for _, panel := range board.Panels {
		for i, target := range panel.Targets {
			queries[fmt.Sprintf("panel %s, query %d", panel.Title, i)] = target.Expr
		}
	}
	if len(queries) == 0 {
		t.Fatal("the dashboard has no queries: the test would prove nothing")
	}
	return queries
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
}

// prometheus runs a program of Debian's package prometheus to its end.
func prometheus(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), there(t, program), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

// there returns the path of a program. Without Debian's packages it skips the test.
func there(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil && os.Getenv("SQUALL_REQUIRE") == "1" {
		t.Fatalf("%v; it is in Debian's package prometheus", err)
	}
	if err != nil {
		t.Skipf("%v; it is in Debian's package prometheus", err)
	}
	return path
}

// prometheusServer is a running server that has scraped the recorded pages.
type prometheusServer struct{ url string }

// scrape starts a Prometheus and returns when it has read each recorded page twice.
func scrape(t *testing.T) prometheusServer {
	t.Helper()
	program := there(t, "prometheus")
	config := "global: {scrape_interval: 1s}\nscrape_configs:\n"
	var pages []*recording
	for _, name := range []string{"worker", "crdbridge"} {
		page := newRecording(t, name)
		pages = append(pages, page)
		config += fmt.Sprintf("- {job_name: %s, static_configs: [{targets: [%q]}]}\n", name, page.address)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 5 { // another program may have taken the address meanwhile
		server, ended := start(t, program, file, t.TempDir())
		if server.until(t, ended, func() bool {
			return !slices.ContainsFunc(pages, func(p *recording) bool { return p.asked.Load() < 5 })
		}) {
			return server
		}
	}
	t.Fatal("prometheus does not listen")
	return prometheusServer{}
}

// recording serves a recorded page: the one from before twice, then the one from after.
type recording struct {
	address string
	asked   atomic.Int32
}

func newRecording(t *testing.T, name string) *recording {
	t.Helper()
	var pages [2][]byte
	for i, moment := range []string{"before", "after"} {
		text, err := os.ReadFile(filepath.Join(recorded, name+"-"+moment+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		pages[i] = text
	}
	r := &recording{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		page := pages[0]
		if r.asked.Add(1) > 2 {
			page = pages[1]
		}
		_, _ = w.Write(page) // a client that closed asks again
	}))
	t.Cleanup(server.Close)
	r.address = strings.TrimPrefix(server.URL, "http://")
	return r
}

// start starts a Prometheus that ends with the test.
func start(t *testing.T, program, config, data string) (prometheusServer, <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	ctx, stop := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, "--config.file="+config, "--storage.tsdb.path="+data, "--web.listen-address="+address, "--log.level=warn")
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		stop()
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Logf("prometheus: %s", output.String())
		}
	})
	return prometheusServer{"http://" + address}, ended
}

// until waits; false means that Prometheus ended before.
func (s prometheusServer) until(t *testing.T, ended <-chan struct{}, is func() bool) bool {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		select {
		case <-ended:
			return false
		default:
		}
		if is() {
			return true
		}
	}
	t.Fatal("prometheus has not scraped the pages within 2 minutes")
	return false
}

// ask returns the number of samples in the answer to a query.
func (s prometheusServer) ask(t *testing.T, query string) int {
	t.Helper()
	answer, err := http.Get(s.url + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var reply struct {
		Error string
		Data  struct{ Result []any }
	}
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", query, answer.Status, reply.Error, err)
	}
	return len(reply.Data.Result)
}
