package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/workflows/connect"
)

// Config is everything the bridge can be told.
type Config struct {
	Temporal       settings.Temporal `mapstructure:",squash"`
	ChaosNamespace string            `mapstructure:"chaos-namespace"`
	// WatchNamespaces are the namespaces whose Disruptions the bridge looks
	// after: Squall for one team. Empty means all.
	WatchNamespaces         []string `mapstructure:"watch-namespaces"`
	HealthAddress           string   `mapstructure:"health-address"`
	MetricsAddress          string   `mapstructure:"metrics-address"`
	LeaderElection          bool     `mapstructure:"leader-election"`
	LeaderElectionNamespace string   `mapstructure:"leader-election-namespace"`
	LogLevel                string   `mapstructure:"log-level"`
}

// readConfig returns pflag.ErrHelp after it has written the help asked for to out.
func readConfig(args []string, out io.Writer) (Config, error) {
	program := settings.Program{
		Name:  "crdbridge",
		About: "crdbridge starts and informs one Temporal workflow for every Disruption.",
		Flags: addFlags,
	}
	var config Config
	if err := program.Read(args, out, &config); err != nil {
		return Config{}, err
	}
	return config, config.check()
}

func addFlags(flags *pflag.FlagSet) {
	flags.String("chaos-namespace", "squall-chaos", "namespace of the chaos pods")
	flags.StringSlice("watch-namespaces", []string{}, "namespaces, separated by commas, whose Disruptions and pods are watched, beside the chaos pods; empty: all")
	flags.String("health-address", ":8081", "where /healthz and /readyz are served; 0: nowhere")
	flags.String("metrics-address", ":8080", "where /metrics is served; 0: nowhere")
	flags.Bool("leader-election", true, "let one of several bridges act")
	flags.String("leader-election-namespace", "squall-system", "namespace of the lease the bridges elect with")
}

func (c Config) check() error {
	if err := c.Temporal.Check(); err != nil {
		return err
	}
	if err := settings.Required(map[string]string{"chaos-namespace": c.ChaosNamespace}); err != nil {
		return err
	}
	if c.LeaderElection && c.LeaderElectionNamespace == "" {
		return fmt.Errorf("setting leader-election-namespace is empty, and leader-election is on")
	}
	_, err := settings.Logger(c.LogLevel)
	return err
}

// connection is lazy: the bridge starts, and says so in every Disruption, while
// Temporal is away.
func (c Config) connection() connect.Settings {
	s := c.Temporal.Connect()
	s.Lazy = true
	return s
}
