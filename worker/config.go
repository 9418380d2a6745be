package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/settings"
)

// Config is everything the worker can be told.
type Config struct {
	Temporal settings.Temporal `mapstructure:",squash"`
	// ChaosNamespace is where chaos pods and records live.
	ChaosNamespace string `mapstructure:"chaos-namespace"`
	// Image of the injector, and when to pull it.
	Image           string `mapstructure:"image"`
	ImagePullPolicy string `mapstructure:"image-pull-policy"`
	// AllowedHosts are never disturbed by a network disruption.
	AllowedHosts []v1beta1.NetworkHost `mapstructure:"allowed-hosts"`
	// ClientQPS is how many API calls a second the worker makes at most; below
	// 0 there is no limit and API priority and fairness decides.
	ClientQPS float32 `mapstructure:"client-qps"`
	// Parallel is how many API calls one activity has under way at once.
	Parallel int `mapstructure:"parallel"`
	// SweepInterval is how often the cluster is searched for what no live
	// disruption owns; 0 means never.
	SweepInterval  time.Duration `mapstructure:"sweep-interval"`
	HealthAddress  string        `mapstructure:"health-address"`
	MetricsAddress string        `mapstructure:"metrics-address"`
	LogLevel       string        `mapstructure:"log-level"`
}

// readConfig returns pflag.ErrHelp after it has written the help asked for to out.
func readConfig(args []string, out io.Writer) (Config, error) {
	program := settings.Program{
		Name:        "worker",
		About:       "worker carries out disruptions: it polls Temporal for workflows and activities.",
		Flags:       addFlags,
		WithoutFlag: []string{"allowed-hosts"},
	}
	var config Config
	if err := program.Read(args, out, &config); err != nil {
		return Config{}, err
	}
	return config, config.check()
}

func addFlags(flags *pflag.FlagSet) {
	flags.String("chaos-namespace", "squall-chaos", "namespace of the chaos pods and records")
	flags.String("image", "squall.local/squall:dev", "image of the injector")
	flags.String("image-pull-policy", "", "Always, IfNotPresent or Never, for chaos pods; empty: the cluster's default")
	flags.Float64("client-qps", -1, "most API calls in a second; below 0: the API server's own priorities and fairness decide")
	flags.Int("parallel", 32, "API calls that one activity has under way at once")
	flags.Duration("sweep-interval", time.Hour, "how often the cluster is searched for what no live disruption owns; 0: never")
	flags.String("health-address", ":8081", "where /healthz and /readyz are served; 0: nowhere")
	flags.String("metrics-address", ":8080", "where /metrics is served; 0: nowhere")
}

func (c Config) check() error {
	if err := c.Temporal.Check(); err != nil {
		return err
	}
	if err := settings.Required(map[string]string{"chaos-namespace": c.ChaosNamespace, "image": c.Image}); err != nil {
		return err
	}
	if c.SweepInterval != 0 && c.SweepInterval < time.Minute {
		return fmt.Errorf("setting sweep-interval %s: want 0 (never) or at least 1m", c.SweepInterval)
	}
	if c.Parallel < 1 {
		return fmt.Errorf("setting parallel %d: want at least 1", c.Parallel)
	}
	switch c.ImagePullPolicy {
	case "", "Always", "IfNotPresent", "Never":
	default:
		return fmt.Errorf("setting image-pull-policy %q: want Always, IfNotPresent or Never", c.ImagePullPolicy)
	}
	_, err := settings.Logger(c.LogLevel)
	return err
}
