package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/squall-chaos/squall/settings/settingstest"
)

func TestConfig(t *testing.T) {
	with := func(change func(*Config)) Config {
		c := defaults(t)
		change(&c)
		return c
	}
	tests := []struct {
		name string
		file string
		env  map[string]string
		args []string
		want Config
	}{
		{"nothing set: the defaults", "", nil, nil, defaults(t)},
		{"a file", "temporal-address: temporal:7233\nleader-election: false\n", nil, nil,
			with(func(c *Config) { c.Temporal.Address = "temporal:7233"; c.LeaderElection = false })},
		{"the environment beats the file", "chaos-namespace: file\n", map[string]string{"SQUALL_CHAOS_NAMESPACE": "env"}, nil,
			with(func(c *Config) { c.ChaosNamespace = "env" })},
		{"a flag beats the environment", "", map[string]string{"SQUALL_LOG_LEVEL": "warn"}, []string{"--log-level=debug"},
			with(func(c *Config) { c.LogLevel = "debug" })},
		{"TLS and an API key from the environment", "",
			map[string]string{"SQUALL_TEMPORAL_TLS": "true", "SQUALL_TEMPORAL_TLS_CA": "/ca", "SQUALL_TEMPORAL_API_KEY": "k"}, nil,
			with(func(c *Config) { c.Temporal.TLS, c.Temporal.TLSCA, c.Temporal.APIKey = true, "/ca", "k" })},
		{"one team's namespaces from the environment", "", map[string]string{"SQUALL_WATCH_NAMESPACES": "shop,cart"}, nil,
			with(func(c *Config) { c.WatchNamespaces = []string{"shop", "cart"} })},
		{"one team's namespaces from a file", "watch-namespaces: [shop, cart]\n", nil, nil,
			with(func(c *Config) { c.WatchNamespaces = []string{"shop", "cart"} })},
		{"one team's namespaces as a flag", "", nil, []string{"--watch-namespaces=shop,cart"},
			with(func(c *Config) { c.WatchNamespaces = []string{"shop", "cart"} })},
		{"how often Temporal is asked", "", map[string]string{"SQUALL_POLL_INTERVAL": "1m"}, nil,
			with(func(c *Config) { c.PollInterval = time.Minute })},
		{"how soon crons may run again", "minimum-cron-frequency: 15m\n", nil, nil,
			with(func(c *Config) { c.MinimumCronFrequency = 15 * time.Minute })},
		{"what ended is deleted", "", map[string]string{"SQUALL_TTL_AFTER_FINISHED": "168h"}, nil,
			with(func(c *Config) { c.TTLAfterFinished = 168 * time.Hour })},
		{"a shorter lease", "leader-election-lease: 4s\n", nil, nil,
			with(func(c *Config) { c.LeaderElectionLease = 4 * time.Second })},
		{"environment of somebody else's program", "", map[string]string{"SQUALL_WORKER_SLOTS": "3"}, nil, defaults(t)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for key, value := range test.env {
				t.Setenv(key, value)
			}
			got, err := readConfig(withFile(t, test.file, test.args), new(bytes.Buffer))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("readConfig (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigRefusesWhatItDoesNotKnow(t *testing.T) {
	tests := []struct {
		name, file string
		args       []string
		want       string
	}{
		{"an unknown key in the file", "temporal-adress: x\n", nil, "temporal-adress"},
		{"an unknown flag", "", []string{"--temporal-adress=x"}, "temporal-adress"},
		{"a word that is no flag", "", []string{"start"}, `"start"`},
		{"a file that is not there", "", []string{"--config=/does/not/exist"}, "/does/not/exist"},
		{"a file that is no YAML", "a: b: c\n", nil, "read settings"},
		{"a log level nobody knows", "log-level: loud\n", nil, "loud"},
		{"an empty address", "temporal-address: ''\n", nil, "temporal-address is empty"},
		{"a switch that is neither on nor off", "leader-election: perhaps\n", nil, "leader-election"},
		{"crons without a pause", "minimum-cron-frequency: 0s\n", nil, "minimum-cron-frequency is 0s: want 1s or more"},
		{"ends that nobody sees", "ttl-after-finished: 5s\n", nil, "ttl-after-finished is 5s: want 0 (never), or 1m or more"},
		{"polls without a pause", "poll-interval: 15\n", nil, "poll-interval is 15ns: want 1s or more"},
		{"a lease that is lost at once", "", []string{"--leader-election-lease=1s"}, "leader-election-lease is 1s: want whole seconds, 2s or more"},
		{"a lease of a part of a second", "", []string{"--leader-election-lease=2500ms"}, "leader-election-lease is 2.5s: want whole seconds"},
		{"deletions that nobody carries out", "graceful-delete: true\n", nil, "pod-ops-driver, which deletes the pods in the end, is off"},
		{"gates that nobody answers for", "readiness-gate: true\n", nil, "pod-ops-driver, without which no pod with the gate becomes ready, is off"},
		{"a port that is none", "graceful-delete: true\npod-ops-driver: true\ngraceful-delete-port: 0\n", nil, "graceful-delete-port 0: want a port"},
		{"two webhooks at one port", "graceful-delete: true\npod-ops-driver: true\non-init: true\non-init-port: 9444\n", nil, "are both 9444: want two ports"},
		{"a certificate that is kept nowhere", "graceful-delete: true\npod-ops-driver: true\nleader-election: false\nleader-election-namespace: ''\n", nil, "leader-election-namespace is empty, and graceful-delete is on"},
		{"three webhooks, two at one port", "on-init: true\nrequesters: true\nrequesters-port: 9443\n", nil, "on-init-port and requesters-port are both 9443"},
		{"the gate's port is another one's", "readiness-gate: true\npod-ops-driver: true\nreadiness-gate-port: 9444\ngraceful-delete: true\n", nil, "graceful-delete-port and readiness-gate-port are both 9444"},
		{"the gate's port is none", "readiness-gate: true\npod-ops-driver: true\nreadiness-gate-port: 65536\n", nil, "readiness-gate-port 65536: want a port"},
		{"another port that is none", "requesters: true\nrequesters-port: 70000\n", nil, "requesters-port 70000: want a port"},
		{"an API key on the command line", "", []string{"--temporal-api-key=secret"}, "unknown flag"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := readConfig(withFile(t, test.file, test.args), new(bytes.Buffer))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("readConfig = %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	var out bytes.Buffer
	if _, err := readConfig([]string{"--help"}, &out); !errors.Is(err, pflag.ErrHelp) {
		t.Fatalf("readConfig(--help) = %v, want %v", err, pflag.ErrHelp)
	}
	for _, key := range []string{"temporal-address", "temporal-namespace", "temporal-tls", "temporal-tls-ca", "temporal-tls-cert",
		"temporal-tls-key", "temporal-api-key", "temporal-api-key-file", "chaos-namespace", "health-address", "metrics-address", "leader-election",
		"leader-election-namespace", "leader-election-lease", "poll-interval", "log-level", "config", "SQUALL_"} {
		if !strings.Contains(out.String(), key) {
			t.Errorf("the help does not name %s:\n%s", key, out.String())
		}
	}
}

func withFile(t *testing.T, content string, args []string) []string {
	t.Helper()
	if content == "" {
		return args
	}
	path := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]string{"--config=" + path}, args...)
}

// defaults are the settings of a bridge without flags or environment.
func defaults(t *testing.T) Config {
	t.Helper()
	c, err := readConfig(nil, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSettingsPage(t *testing.T) { settingstest.Page(t, "../docs/settings.md", program) }

func TestChartKnowsTheSettings(t *testing.T) {
	settingstest.Schema(t, "../deploy/chart/values.schema.json", program)
}
