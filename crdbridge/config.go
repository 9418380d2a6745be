package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/squall-chaos/squall/workflows/connect"
)

// Config is everything the bridge can be told. A setting has one name in three
// spellings: temporal-address in the file, SQUALL_TEMPORAL_ADDRESS in the
// environment, --temporal-address as a flag. A flag beats the environment, the
// environment beats the file.
type Config struct {
	TemporalAddress   string `mapstructure:"temporal-address"`
	TemporalNamespace string `mapstructure:"temporal-namespace"`
	TemporalTLS       bool   `mapstructure:"temporal-tls"`
	TemporalTLSCA     string `mapstructure:"temporal-tls-ca"`
	TemporalTLSCert   string `mapstructure:"temporal-tls-cert"`
	TemporalTLSKey    string `mapstructure:"temporal-tls-key"`
	// TemporalAPIKey has no flag: command lines are visible to everybody on a machine.
	TemporalAPIKey string `mapstructure:"temporal-api-key"`

	ChaosNamespace string `mapstructure:"chaos-namespace"`
	// WatchNamespaces are the namespaces whose Disruptions the bridge looks
	// after: Squall for one team. Empty means all.
	WatchNamespaces         []string `mapstructure:"watch-namespaces"`
	HealthAddress           string   `mapstructure:"health-address"`
	MetricsAddress          string   `mapstructure:"metrics-address"`
	LeaderElection          bool     `mapstructure:"leader-election"`
	LeaderElectionNamespace string   `mapstructure:"leader-election-namespace"`
	LogLevel                string   `mapstructure:"log-level"`
}

func defaults() Config {
	return Config{
		TemporalAddress:         "127.0.0.1:7233",
		TemporalNamespace:       "default",
		ChaosNamespace:          "squall-chaos",
		WatchNamespaces:         []string{},
		HealthAddress:           ":8081",
		MetricsAddress:          ":8080",
		LeaderElection:          true,
		LeaderElectionNamespace: "squall-system",
		LogLevel:                "info",
	}
}

// readConfig reads flags, environment and file. It returns pflag.ErrHelp after
// it has written the help asked for to out.
func readConfig(args []string, out io.Writer) (Config, error) {
	flags := newFlags(defaults(), out)
	if err := flags.Parse(args); err != nil {
		return Config{}, err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return Config{}, fmt.Errorf("unexpected argument %q: settings are flags, see --help", rest[0])
	}
	v := viper.New()
	v.SetEnvPrefix("squall")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	v.SetDefault("temporal-api-key", "")
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && err == nil {
			err = v.BindPFlag(f.Name, f)
		}
	})
	if err != nil {
		return Config{}, fmt.Errorf("read settings: %w", err)
	}
	if path, _ := flags.GetString("config"); path != "" {
		v.SetConfigFile(path)
		v.SetConfigType("yaml")
		if err := v.ReadInConfig(); err != nil {
			return Config{}, fmt.Errorf("read settings from %s: %w", path, err)
		}
	}
	var config Config
	if err := v.UnmarshalExact(&config); err != nil {
		return Config{}, fmt.Errorf("read settings: %w", err)
	}
	return config, config.check()
}

func newFlags(d Config, out io.Writer) *pflag.FlagSet {
	flags := pflag.NewFlagSet("crdbridge", pflag.ContinueOnError)
	flags.SetOutput(out)
	flags.SortFlags = false
	flags.Usage = func() {
		_, _ = fmt.Fprintf(out, "crdbridge starts and informs one Temporal workflow for every Disruption.\n\n%s\n"+
			"Every flag can be set as SQUALL_<NAME> in the environment and as a key of the file;\n"+
			"the API key for Temporal only there: SQUALL_TEMPORAL_API_KEY, temporal-api-key.\n"+
			"The API server is found as kubectl finds it: KUBECONFIG, or the pod's service account.\n", flags.FlagUsages())
	}
	flags.String("config", "", "file of settings (YAML); unknown keys are errors")
	flags.String("temporal-address", d.TemporalAddress, "host:port of Temporal's frontend")
	flags.String("temporal-namespace", d.TemporalNamespace, "namespace of Temporal")
	flags.Bool("temporal-tls", d.TemporalTLS, "encrypt the connection; implied by the next three and by an API key")
	flags.String("temporal-tls-ca", d.TemporalTLSCA, "file of the CA that signed Temporal's certificate; empty: the system's CAs")
	flags.String("temporal-tls-cert", d.TemporalTLSCert, "file of the client certificate")
	flags.String("temporal-tls-key", d.TemporalTLSKey, "file of the client certificate's key")
	flags.String("chaos-namespace", d.ChaosNamespace, "namespace of the chaos pods")
	flags.StringSlice("watch-namespaces", d.WatchNamespaces, "namespaces, separated by commas, whose Disruptions and pods are watched, beside the chaos pods; empty: all")
	flags.String("health-address", d.HealthAddress, "where /healthz and /readyz are served; 0: nowhere")
	flags.String("metrics-address", d.MetricsAddress, "where /metrics is served; 0: nowhere")
	flags.Bool("leader-election", d.LeaderElection, "let one of several bridges act")
	flags.String("leader-election-namespace", d.LeaderElectionNamespace, "namespace of the lease the bridges elect with")
	flags.String("log-level", d.LogLevel, "debug, info, warn or error")
	return flags
}

func (c Config) check() error {
	required := []struct{ name, value string }{
		{"temporal-address", c.TemporalAddress},
		{"temporal-namespace", c.TemporalNamespace},
		{"chaos-namespace", c.ChaosNamespace},
	}
	for _, r := range required {
		if r.value == "" {
			return fmt.Errorf("setting %s is empty", r.name)
		}
	}
	if c.LeaderElection && c.LeaderElectionNamespace == "" {
		return fmt.Errorf("setting leader-election-namespace is empty, and leader-election is on")
	}
	if _, err := zapcore.ParseLevel(c.LogLevel); err != nil {
		return fmt.Errorf("setting log-level %q: want debug, info, warn or error", c.LogLevel)
	}
	return nil
}

// temporal dials lazily: the bridge starts, and says so in every Disruption,
// while Temporal is away.
func (c Config) temporal() connect.Settings {
	return connect.Settings{
		Address:   c.TemporalAddress,
		Namespace: c.TemporalNamespace,
		TLS:       c.TemporalTLS,
		TLSCA:     c.TemporalTLSCA,
		TLSCert:   c.TemporalTLSCert,
		TLSKey:    c.TemporalTLSKey,
		APIKey:    c.TemporalAPIKey,
		Lazy:      true,
	}
}

// newLogger writes JSON lines to standard error.
func newLogger(level string) (*zap.Logger, error) {
	parsed, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("make the logger: %w", err)
	}
	config := zap.NewProductionConfig()
	config.Level = zap.NewAtomicLevelAt(parsed)
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.Sampling = nil // a line that is dropped is the one that was needed
	return config.Build()
}
