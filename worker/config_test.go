package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/settings/settingstest"
)

func TestReadConfig(t *testing.T) {
	t.Run("defaults", func(t *testing.T) {
		c, err := readConfig(nil, io.Discard)
		if err != nil || c.Temporal.Address != "127.0.0.1:7233" || c.ChaosNamespace != "squall-chaos" || c.Parallel != 32 || c.ClientQPS != -1 || c.SweepInterval != time.Hour {
			t.Errorf("config = %+v, %v", c, err)
		}
	})
	t.Run("a flag weighs more than the environment, and that more than the file", func(t *testing.T) {
		file := write(t, "injector-image: from-file\nparallel: 7\ntemporal-address: from-file:1\n")
		t.Setenv("SQUALL_INJECTOR_IMAGE", "from-environment")
		t.Setenv("SQUALL_TEMPORAL_ADDRESS", "from-environment:1")
		c, err := readConfig([]string{"--config", file, "--temporal-address", "from-flag:1"}, io.Discard)
		if err != nil || c.Parallel != 7 || c.Image != "from-environment" || c.Temporal.Address != "from-flag:1" {
			t.Errorf("config = %+v, %v", c, err)
		}
	})
	t.Run("no sweep", func(t *testing.T) {
		t.Setenv("SQUALL_SWEEP_INTERVAL", "0")
		if c, err := readConfig(nil, io.Discard); err != nil || c.SweepInterval != 0 {
			t.Errorf("sweep every %s, %v, want never", c.SweepInterval, err)
		}
	})
	t.Run("the namespace of worker and bridge", func(t *testing.T) {
		if c, err := readConfig(nil, io.Discard); err != nil || c.SystemNamespace != "squall-system" {
			t.Errorf("namespace %q, %v, want that of deploy", c.SystemNamespace, err)
		}
		t.Setenv("SQUALL_SYSTEM_NAMESPACE", "chaos-engineering")
		if c, err := readConfig(nil, io.Discard); err != nil || c.SystemNamespace != "chaos-engineering" {
			t.Errorf("namespace %q, %v, want chaos-engineering", c.SystemNamespace, err)
		}
	})
	t.Run("the operator's allowed hosts", func(t *testing.T) {
		c, err := readConfig([]string{"--config", write(t, "allowed-hosts:\n- {host: 10.0.0.1, port: 443, protocol: tcp}\n")}, io.Discard)
		if err != nil || len(c.AllowedHosts) != 1 || c.AllowedHosts[0].Host != "10.0.0.1" || c.AllowedHosts[0].Port != 443 {
			t.Errorf("hosts = %+v, %v", c.AllowedHosts, err)
		}
	})
	t.Run("a webhook, whose address is in no error", func(t *testing.T) {
		c, err := readConfig([]string{"--notify-webhook-url", "https://hooks.example", "--notify-webhook-secret-file", "/s"}, io.Discard)
		if err != nil || c.Notify.WebhookURL != "https://hooks.example" || c.Notify.WebhookSecretFile != "/s" || c.Notify.LeastType != "Success" {
			t.Errorf("settings = %+v, %v", c.Notify, err)
		}
		if _, err := readConfig([]string{"--notify-webhook-url", "ftp://me:password@hooks.example"}, io.Discard); err == nil || strings.Contains(err.Error(), "password") {
			t.Errorf("error = %v, want one that names the setting only", err)
		}
	})
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an unknown key in the file is named": {[]string{"--config", write(t, "imagee: x\n")}, `unknown key "imagee"`},
		"an unknown flag is named":            {[]string{"--imagee", "x"}, "imagee"},
		"a ConfigMap without namespace":       {[]string{"--cloud-ranges", "ranges"}, "want namespace/name"},
		"a pull policy that is none":          {[]string{"--image-pull-policy", "Sometimes"}, `image-pull-policy "Sometimes"`},
		"no cordon at all":                    {[]string{"--cordons-at-once", "0"}, "setting cordons-at-once 0: want at least 1"},
		"no parallel calls at all":            {[]string{"--parallel", "0"}, "at least 1"},
		"a node that has no time":             {[]string{"--node-timeout", "59s"}, "node-timeout 59s: want 1m0s to 2m30s"},
		"chaos pods that ask for nothing":     {[]string{"--chaos-pod-cpu", "0"}, `chaos-pod-cpu "0": want processors, 1m to 1, such as 50m`},
		"chaos pods that ask for too much":    {[]string{"--chaos-pod-cpu", "1001m"}, `chaos-pod-cpu "1001m"`},
		"chaos pods that ask for words":       {[]string{"--chaos-pod-cpu", "some"}, `chaos-pod-cpu "some"`},
		"no place for chaos pods":             {[]string{"--chaos-pods-per-node", "0"}, "chaos-pods-per-node 0: want 1 to 100"},
		"a node that takes too long":          {[]string{"--node-timeout", "151s"}, "node-timeout 2m31s: want 1m0s to 2m30s"},
		"a safe mode that is none":            {[]string{"--safe-mode", "on"}, `safe-mode "on": want off, warn or enforce`},
		"a share that is none":                {[]string{"--safe-mode-cluster-threshold", "101"}, "safe-mode-cluster-threshold 101: want 1 to 100"},
		"an opt-in that is none":              {[]string{"--namespace-opt-in", "on"}, `namespace-opt-in "on": want off, warn or enforce`},
		"a label that is none":                {[]string{"--prometheus-namespace-label", "name-space"}, `prometheus-namespace-label "name-space": want the name of a label`},
		"no question of a probe at all":       {[]string{"--probe-requests-per-second", "0"}, "setting probe-requests-per-second 0: want at least 1"},
		"a sweep as often as can be":          {[]string{"--sweep-interval", "1s"}, "at least 1m"},
		"a sweep interval that is none":       {[]string{"--sweep-interval", "often"}, "sweep-interval"},
		"a webhook that is no URL":            {[]string{"--notify-webhook-url", "hooks"}, "notify-webhook-url"},
		"a webhook without a secret":          {[]string{"--notify-webhook-url", "https://hooks.example"}, "notify-webhook-secret-file is empty"},
		"a secret without a webhook":          {[]string{"--notify-webhook-secret-file", "/x"}, "no notify-webhook-url"},
		"a Slack channel without a token":     {[]string{"--notify-slack-channel", "chaos"}, "notify-slack-token-file"},
		"a type of notification that is none": {[]string{"--notify-least-type", "Debug"}, `notify-least-type "Debug": want one of Info, Success, Completion, Warning, Error`},
		"a file that is not there":            {[]string{"--config", "/nowhere.yaml"}, "/nowhere.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readConfig(test.args, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want %q", err, test.want)
			}
		})
	}
}

func TestProbersAreLimited(t *testing.T) {
	c, err := readConfig([]string{"--prometheus-address", "http://prometheus.monitoring:9090"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	p := c.prober(nil, &rest.Config{})
	server, err := p.Prometheus()
	if err != nil || server.NamespaceLabel != "namespace" {
		t.Errorf("queries are limited by the label %q, %v, want namespace", server.NamespaceLabel, err)
	}
	if p.Rate == nil || c.ProbeRequests != 500 {
		t.Errorf("Rate %v of %d questions a second, want one of 500", p.Rate, c.ProbeRequests)
	}
	c.PrometheusNamespaceLabel = ""
	if server, err := c.prober(nil, &rest.Config{}).Prometheus(); err != nil || server.NamespaceLabel != "" {
		t.Errorf("queries are limited by the label %q, %v, want no limit", server.NamespaceLabel, err)
	}
}

func write(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestMetricsPageCounts(t *testing.T) {
	handler, page, err := newMetrics(zap.NewNop(), metric.All())
	if err != nil {
		t.Fatal(err)
	}
	handler.Counter("squall_stuck_total").Inc(2)
	server := httptest.NewServer(page)
	defer server.Close()
	response, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !slices.Contains(strings.Split(string(body), "\n"), "squall_stuck_total 2") {
		t.Errorf("page without the line squall_stuck_total 2: %v\n%s", err, body)
	}
}

func TestSettingsPage(t *testing.T) { settingstest.Page(t, "../docs/settings.md", program) }

func TestChartKnowsTheSettings(t *testing.T) {
	settingstest.Schema(t, "../deploy/chart/values.schema.json", program)
}
