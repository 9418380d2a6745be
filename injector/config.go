//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/viper"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// envPrefix begins the name of every setting: SQUALL_JOURNAL_DIR and so on.
const envPrefix = "SQUALL_"

// Config holds the settings of the node, the same for all injections.
type Config struct {
	// JournalDir is the directory of the node that holds the journals.
	JournalDir string `mapstructure:"journal_dir"`
	// Proc is the directory with the node's processes.
	Proc string `mapstructure:"proc"`
	// ReadyFile exists while everything is injected.
	ReadyFile string `mapstructure:"ready_file"`
	// ReasonFile holds why nothing is injected, for the probes.
	ReasonFile string `mapstructure:"reason_file"`
	// TerminationLog is the file for the container's termination message.
	TerminationLog string `mapstructure:"termination_log"`
	// LogLevel is debug, info, warn or error.
	LogLevel string `mapstructure:"log_level"`
	// MetricsSink is noop, or log for a log line at each count.
	MetricsSink string `mapstructure:"metrics_sink"`
	// CleanTimeout bounds one attempt to clean, CleanBackoff is the pause
	// after the first failed one and doubles after each further one. Four
	// attempts must fit into the chaos pod's grace period.
	CleanTimeout time.Duration `mapstructure:"clean_timeout"`
	CleanBackoff time.Duration `mapstructure:"clean_backoff"`
	// RetryEvery is the pause after the first injection that failed. It doubles after
	// each further one, up to longestPause.
	RetryEvery time.Duration `mapstructure:"retry_every"`
	// AuditTimeout bounds the search for the marks of one kind. At twice that time the
	// injector stops waiting for the search.
	AuditTimeout time.Duration `mapstructure:"audit_timeout"`
	// LookEvery is the interval at which the injector checks an injection in force.
	LookEvery time.Duration `mapstructure:"look_every"`
	// Guard has a second process clean when the injector is killed.
	Guard bool `mapstructure:"guard"`
}

func defaultConfig() map[string]any {
	return map[string]any{
		"journal_dir":     journal.DefaultDir,
		"proc":            target.DefaultProc,
		"ready_file":      v1beta1.ReadyFile,
		"reason_file":     "/tmp/injection_failed.json",
		"termination_log": "/dev/termination-log",
		"log_level":       "info",
		"metrics_sink":    "noop",
		"clean_timeout":   10 * time.Second,
		"clean_backoff":   time.Second,
		"retry_every":     2 * time.Second,
		"audit_timeout":   15 * time.Second,
		"look_every":      5 * time.Second,
		"guard":           true,
	}
}

// loadConfig reads the settings out of an environment of "NAME=value" lines. It refuses an
// unknown name with the prefix, so that a typing error cannot leave a default in place.
func loadConfig(environment []string) (Config, error) {
	settings := viper.New()
	for key, value := range defaultConfig() {
		settings.SetDefault(key, value)
	}
	for _, line := range environment {
		name, value, _ := strings.Cut(line, "=")
		key, ours := strings.CutPrefix(name, envPrefix)
		if !ours || name == v1beta1.InjectionEnv || isServiceLink(name) {
			continue
		}
		key = strings.ToLower(key)
		if !settings.IsSet(key) {
			return Config{}, fmt.Errorf("environment variable %s: there is no such setting", name)
		}
		settings.Set(key, value)
	}
	var config Config
	if err := settings.UnmarshalExact(&config); err != nil {
		return Config{}, fmt.Errorf("read settings from the environment: %w", err)
	}
	return config, config.check()
}

func (c Config) check() error {
	if c.MetricsSink != "noop" && c.MetricsSink != "log" {
		return fmt.Errorf("%sMETRICS_SINK %q: want noop or log", envPrefix, c.MetricsSink)
	}
	if c.CleanTimeout <= 0 || c.CleanBackoff <= 0 {
		return fmt.Errorf("%[1]sCLEAN_TIMEOUT %[2]s and %[1]sCLEAN_BACKOFF %[3]s: want more than 0", envPrefix, c.CleanTimeout, c.CleanBackoff)
	}
	if c.AuditTimeout <= 0 {
		return fmt.Errorf("%sAUDIT_TIMEOUT %s: want more than 0", envPrefix, c.AuditTimeout)
	}
	if c.RetryEvery <= 0 {
		return fmt.Errorf("%sRETRY_EVERY %s: want more than 0", envPrefix, c.RetryEvery)
	}
	if c.LookEvery <= 0 {
		return fmt.Errorf("%sLOOK_EVERY %s: want more than 0", envPrefix, c.LookEvery)
	}
	return nil
}

// isServiceLink matches the variables that the kubelet makes for a Service whose name
// begins with "squall-", when one is in the chaos pods' namespace.
func isServiceLink(name string) bool {
	return strings.Contains(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasSuffix(name, "_PORT") || strings.Contains(name, "_PORT_")
}
