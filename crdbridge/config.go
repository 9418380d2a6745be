package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/squall-chaos/squall/api/schedule"
	"github.com/squall-chaos/squall/crdbridge/oninit"
	"github.com/squall-chaos/squall/crdbridge/podops"
	"github.com/squall-chaos/squall/crdbridge/requester"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/workflows/connect"
)

// Config has all settings of the bridge.
type Config struct {
	Temporal       settings.Temporal `mapstructure:",squash"`
	ChaosNamespace string            `mapstructure:"chaos-namespace"`
	// WatchNamespaces are the namespaces whose Disruptions the bridge handles, for an
	// installation of one team. Empty means all.
	WatchNamespaces         []string         `mapstructure:"watch-namespaces"`
	HealthAddress           string           `mapstructure:"health-address"`
	Metrics                 settings.Metrics `mapstructure:",squash"`
	LeaderElection          bool             `mapstructure:"leader-election"`
	LeaderElectionNamespace string           `mapstructure:"leader-election-namespace"`
	// LeaderElectionLease is how long a bridge that was killed keeps others from acting: in
	// whole seconds, at least 2.
	LeaderElectionLease time.Duration `mapstructure:"leader-election-lease"`
	// OnInit configures the admission webhook that holds starting pods back.
	OnInit oninit.Settings `mapstructure:",squash"`
	// PodOps configures the driver of pods that opted in to PodOpsLifecycle.
	PodOps podops.Settings `mapstructure:",squash"`
	// Requesters configures the webhook that records who requests a Disruption.
	Requesters requester.Settings `mapstructure:",squash"`
	// WebhookClientCA is a file with the authorities that sign certificates of API
	// servers. With it no webhook answers any other client. Without it graceful-delete
	// writes nothing.
	WebhookClientCA string `mapstructure:"webhook-client-ca"`
	// PollInterval is how often the bridge asks Temporal for facts that no watch of the
	// cluster shows, see temporal.PollInterval.
	PollInterval time.Duration `mapstructure:"poll-interval"`
	// MinimumCronFrequency is the shortest time between the end of a cron's run and the
	// next one.
	MinimumCronFrequency time.Duration `mapstructure:"minimum-cron-frequency"`
	// TTLAfterFinished is how long after its end a Disruption is deleted; 0 means never.
	TTLAfterFinished time.Duration `mapstructure:"ttl-after-finished"`
	// Traces configures the traces of what the bridge starts; by default it sends none.
	Traces   settings.Traces `mapstructure:",squash"`
	LogLevel string          `mapstructure:"log-level"`
}

var program = settings.Program{
	Name:        "crdbridge",
	About:       "The controller (crdbridge) starts one Temporal workflow for each Disruption and signals it.",
	Flags:       addFlags,
	WithoutFlag: []string{settings.SettingTracesHeaders},
}

// readConfig returns pflag.ErrHelp after it has written the help asked for to out.
func readConfig(args []string, out io.Writer) (Config, error) {
	var config Config
	if err := program.Read(args, out, &config); err != nil {
		return Config{}, err
	}
	return config, config.check()
}

func addFlags(flags *pflag.FlagSet) {
	flags.String("chaos-namespace", "squall-chaos", "namespace of the chaos pods")
	flags.StringSlice("watch-namespaces", []string{}, "namespaces to watch, separated by commas, besides the chaos namespace; empty: all")
	flags.String("health-address", ":8081", "address of /healthz and /readyz; 0: none")
	settings.MetricsFlags(flags)
	flags.Bool("leader-election", true, "elect one of several controllers that acts")
	flags.String("leader-election-namespace", "squall-system", "namespace of the lease for leader election")
	flags.Duration("leader-election-lease", 15*time.Second, "duration of the lease in whole seconds, at least 2s; another controller takes over when it has expired")
	flags.Bool("on-init", false, "serve the admission webhook that lets labelled pods start disrupted")
	flags.Int("on-init-port", 9443, "port of this webhook")
	flags.String("on-init-certificates", "", "directory with tls.crt and tls.key of this webhook; empty: created and stored in the Secret "+oninit.Name)
	flags.Duration("on-init-timeout", time.Minute, "how long a pod waits for its disruption by default, at least 1s")
	flags.Duration("on-init-max-timeout", time.Hour, "longest wait that a pod may ask for")
	flags.String("injector-image", "squall.local/injector:dev", "image of the injector, for the init container of waiting pods")
	flags.String("image-pull-policy", "", "image pull policy of this init container: Always, IfNotPresent or Never; empty: the default of the cluster")
	flags.Bool("pod-ops-driver", false, "drive the operations of pods that opted in to PodOpsLifecycle, unless Kuperator is installed")
	flags.Bool("graceful-delete", false, "refuse the deletion of these pods until they are out of service, and then delete them; needs pod-ops-driver")
	flags.Int("graceful-delete-port", 9444, "port of the webhook for graceful-delete")
	flags.Bool("readiness-gate", false, "add the readiness gate to pods that opted in when they are created; needs pod-ops-driver")
	flags.Int("readiness-gate-port", 9446, "port of the webhook for readiness-gate")
	flags.Bool("requesters", false, "serve the admission webhook that records who requests a disruption")
	flags.Int("requesters-port", 9445, "port of this webhook")
	flags.String("webhook-client-ca", "", "file with the CA of the API servers' client certificates; all webhooks then refuse other clients; empty: any client is served")
	flags.Duration("minimum-cron-frequency", schedule.LeastPause, "shortest pause between two runs of a DisruptionCron, at least 1s")
	flags.Duration("ttl-after-finished", 0, "how long after its end a clean Disruption is deleted, such as 168h, at least 1m; 0: never")
	flags.Duration("poll-interval", temporal.PollInterval, "how often the controller asks Temporal for terminated or blocked workflows and for workers, at least 1s")
	settings.TracesFlags(flags)
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
	if c.LeaderElectionLease < 2*time.Second || c.LeaderElectionLease%time.Second != 0 {
		return fmt.Errorf("setting leader-election-lease is %s: want whole seconds, 2s or more, such as 15s", c.LeaderElectionLease)
	}
	if c.PollInterval < time.Second {
		return fmt.Errorf("setting poll-interval is %s: want 1s or more, such as %s", c.PollInterval, temporal.PollInterval)
	}
	if c.MinimumCronFrequency < time.Second {
		return fmt.Errorf("setting minimum-cron-frequency is %s: want 1s or more, such as %s", c.MinimumCronFrequency, schedule.LeastPause)
	}
	if c.TTLAfterFinished != 0 && c.TTLAfterFinished < time.Minute {
		return fmt.Errorf("setting ttl-after-finished is %s: want 0 (never), or 1m or more, so that clients that wait see the end", c.TTLAfterFinished)
	}
	if err := c.OnInit.Check(); err != nil {
		return err
	}
	if err := c.PodOps.Check(); err != nil {
		return err
	}
	if err := c.checkWebhooks(); err != nil {
		return err
	}
	if err := c.Traces.Check(); err != nil {
		return err
	}
	_, err := settings.Logger(c.LogLevel)
	return err
}

// checkWebhooks requires a place to store each webhook's certificate, and a port of its
// own.
func (c Config) checkWebhooks() error {
	used := map[int]string{}
	for _, w := range []struct {
		name string
		on   bool
		port int
	}{
		{"on-init", c.OnInit.Enabled, c.OnInit.Port},
		{"graceful-delete", c.PodOps.GracefulDelete, c.PodOps.GracefulDeletePort},
		{"readiness-gate", c.PodOps.ReadinessGate, c.PodOps.ReadinessGatePort},
		{"requesters", c.Requesters.Enabled, c.Requesters.Port},
	} {
		switch other := used[w.port]; {
		case !w.on:
			continue
		case c.LeaderElectionNamespace == "":
			return fmt.Errorf("setting leader-election-namespace is empty, and %s is on, whose certificate is kept there", w.name)
		case w.port < 1 || w.port > 65535:
			return fmt.Errorf("setting %s-port %d: want a port from 1 to 65535", w.name, w.port)
		case other != "":
			return fmt.Errorf("settings %s-port and %s-port are both %d: want two ports", other, w.name, w.port)
		}
		used[w.port] = w.name
	}
	return nil
}

// connection is lazy: the bridge starts while Temporal is away, and reports that in every
// Disruption.
func (c Config) connection() connect.Settings {
	s := c.Temporal.Connect()
	s.Lazy = true
	return s
}
