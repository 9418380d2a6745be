package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/connect"
)

// Config is everything the worker can be told. It reads, in rising order of
// weight, its defaults, a file, the environment (SQUALL_ and the upper-case
// key) and flags. An unknown key in the file is an error.
type Config struct {
	Temporal connect.Settings
	// ChaosNamespace is where chaos pods and records live.
	ChaosNamespace string
	// Image of the injector, and when to pull it.
	Image           string
	ImagePullPolicy string
	// AllowedHosts are never disturbed by a network disruption.
	AllowedHosts []v1beta1.NetworkHost
	// ClientQPS is how many API calls a second the worker makes at most; below
	// 0 there is no limit and API priority and fairness decides.
	ClientQPS float32
	// Parallel is how many API calls one activity has under way at once.
	Parallel int
	// SweepInterval is how often the cluster is searched for what no live
	// disruption owns; 0 means never. Default 1h.
	SweepInterval time.Duration
	HealthAddress string
	// MetricsAddress serves /metrics for Prometheus; "0" is nowhere.
	MetricsAddress string
	LogLevel       string
}

func defaults(v *viper.Viper) {
	v.SetDefault("temporal-address", "127.0.0.1:7233")
	v.SetDefault("temporal-namespace", "default")
	v.SetDefault("temporal-tls", false)
	v.SetDefault("temporal-tls-ca", "")
	v.SetDefault("temporal-tls-cert", "")
	v.SetDefault("temporal-tls-key", "")
	v.SetDefault("temporal-api-key", "")
	v.SetDefault("chaos-namespace", "squall-chaos")
	v.SetDefault("image", "squall.local/squall:dev")
	v.SetDefault("image-pull-policy", "")
	v.SetDefault("allowed-hosts", []map[string]any{})
	v.SetDefault("client-qps", -1)
	v.SetDefault("parallel", 32)
	v.SetDefault("sweep-interval", "1h")
	v.SetDefault("health-address", ":8081")
	v.SetDefault("metrics-address", ":8080")
	v.SetDefault("log-level", "info")
}

// ReadConfig reads the settings. pflag.ErrHelp means that help was asked for
// and printed.
func ReadConfig(args []string) (Config, error) {
	v := viper.New()
	defaults(v)
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	file := flags.String("config", os.Getenv("SQUALL_CONFIG"), "file of settings (YAML)")
	for _, key := range v.AllKeys() {
		if key != "allowed-hosts" && key != "temporal-api-key" {
			flags.String(key, v.GetString(key), "also SQUALL_"+envName(key))
		}
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			os.Exit(0)
		}
		return Config{}, err
	}
	known := v.AllKeys()
	if *file != "" {
		if err := readFile(v, *file, known); err != nil {
			return Config{}, err
		}
	}
	v.SetEnvPrefix("SQUALL")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if err := v.BindPFlags(flags); err != nil {
		return Config{}, err
	}
	return configOf(v)
}

func readFile(v *viper.Viper, file string, known []string) error {
	read := viper.New()
	read.SetConfigFile(file)
	if err := read.ReadInConfig(); err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	for _, key := range read.AllKeys() {
		found := false
		for _, k := range known {
			found = found || k == key
		}
		if !found {
			return fmt.Errorf("settings file %s: unknown key %q; known are: %s", file, key, strings.Join(known, ", "))
		}
		v.SetDefault(key, read.Get(key))
	}
	return nil
}

func configOf(v *viper.Viper) (Config, error) {
	c := Config{
		Temporal: connect.Settings{
			Address: v.GetString("temporal-address"), Namespace: v.GetString("temporal-namespace"),
			TLS: v.GetBool("temporal-tls"), TLSCA: v.GetString("temporal-tls-ca"),
			TLSCert: v.GetString("temporal-tls-cert"), TLSKey: v.GetString("temporal-tls-key"),
			APIKey: v.GetString("temporal-api-key"),
		},
		ChaosNamespace: v.GetString("chaos-namespace"),
		Image:          v.GetString("image"), ImagePullPolicy: v.GetString("image-pull-policy"),
		ClientQPS: float32(v.GetFloat64("client-qps")), Parallel: v.GetInt("parallel"),
		HealthAddress: v.GetString("health-address"), MetricsAddress: v.GetString("metrics-address"), LogLevel: v.GetString("log-level"),
	}
	var err error
	if c.SweepInterval, err = time.ParseDuration(v.GetString("sweep-interval")); err != nil {
		return Config{}, fmt.Errorf("sweep-interval: %w", err)
	}
	if c.SweepInterval != 0 && c.SweepInterval < time.Minute {
		return Config{}, fmt.Errorf("sweep-interval: want 0 (never) or at least 1m, got %s", c.SweepInterval)
	}
	if c.Parallel < 1 {
		return Config{}, fmt.Errorf("parallel: want at least 1, got %d", c.Parallel)
	}
	switch c.ImagePullPolicy {
	case "", "Always", "IfNotPresent", "Never":
	default:
		return Config{}, fmt.Errorf("image-pull-policy: want Always, IfNotPresent or Never, got %q", c.ImagePullPolicy)
	}
	if err := v.UnmarshalKey("allowed-hosts", &c.AllowedHosts); err != nil {
		return Config{}, fmt.Errorf("allowed-hosts: %w", err)
	}
	return c, nil
}

func envName(key string) string {
	return strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}
