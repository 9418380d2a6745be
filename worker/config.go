package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cloud"
	"github.com/squall-chaos/squall/activities/notify"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/settings"
)

// Config has the settings of the worker.
type Config struct {
	Temporal settings.Temporal `mapstructure:",squash"`
	// TaskQueues selects the work: all, disruptions (all but probes) or probes.
	TaskQueues string `mapstructure:"task-queues"`
	// ChaosNamespace is where chaos pods and records live.
	ChaosNamespace string `mapstructure:"chaos-namespace"`
	// SystemNamespace is where the worker and the controller run.
	SystemNamespace string `mapstructure:"system-namespace"`
	// Image of the injector, and when to pull it.
	Image           string `mapstructure:"injector-image"`
	ImagePullPolicy string `mapstructure:"image-pull-policy"`
	// PriorityClass of chaos pods, cleaners and the sweep's pods; empty for none.
	PriorityClass string `mapstructure:"chaos-pod-priority-class"`
	// ImagePullSecrets of the same pods, in ChaosNamespace.
	ImagePullSecrets []string `mapstructure:"chaos-pod-image-pull-secrets"`
	// NodeShare is the highest percentage of a node's pods that may be chaos pods.
	NodeShare int `mapstructure:"chaos-pods-per-node"`
	// CPU is the request of each of the same pods, in processors.
	CPU string `mapstructure:"chaos-pod-cpu"`
	// SELinuxType of the same pods; empty for the container runtime's default.
	SELinuxType string `mapstructure:"chaos-pod-selinux-type"`
	// NodeTimeout is the time limit of a cleaner, or of a search of a node, from the
	// creation of its pod.
	NodeTimeout time.Duration `mapstructure:"node-timeout"`
	// AllowedHosts are never disrupted by a network disruption.
	AllowedHosts []v1beta1.NetworkHost `mapstructure:"allowed-hosts"`
	// NamespaceOptIn is off, warn or enforce: the handling of disruptions in namespaces
	// without the opt-in label. With warn the API server warns; the worker acts only with
	// enforce.
	NamespaceOptIn string `mapstructure:"namespace-opt-in"`
	// ControlPlaneNodes lets nodes of the control plane be targets.
	ControlPlaneNodes bool `mapstructure:"control-plane-nodes"`
	// SafeMode is off, warn or enforce: the handling of disruptions of more targets than
	// their author may have meant. The thresholds are the highest allowed shares, in
	// percent.
	SafeMode                   string `mapstructure:"safe-mode"`
	SafeModeNamespaceThreshold int    `mapstructure:"safe-mode-namespace-threshold"`
	SafeModeClusterThreshold   int    `mapstructure:"safe-mode-cluster-threshold"`
	// CloudRanges is the ConfigMap, as namespace/name, with the documents in which cloud
	// providers publish their addresses. Empty for none.
	CloudRanges string `mapstructure:"cloud-ranges"`
	// CloudRangesFetch lets the worker download the document of a provider that is not in
	// it.
	CloudRangesFetch bool `mapstructure:"cloud-ranges-fetch"`
	// ClientQPS is the highest number of API calls per second. Below 0 there is no limit,
	// and API priority and fairness decides.
	ClientQPS float32 `mapstructure:"client-qps"`
	// Parallel is the highest number of API calls that one activity has under way at once.
	Parallel int `mapstructure:"parallel"`
	// CordonsAtOnce is the highest number of the cluster's nodes that all disruptions with
	// podReplacement together keep cordoned at once.
	CordonsAtOnce int `mapstructure:"cordons-at-once"`
	// ProbeHosts are the names, addresses and ranges that probes may use, besides those of
	// the disruption's namespace.
	ProbeHosts []string `mapstructure:"probe-hosts"`
	// ProbeRequests is the highest number of probe requests of this worker per second.
	ProbeRequests int `mapstructure:"probe-requests-per-second"`
	// ProbeExec lets probes run commands in targets.
	ProbeExec bool `mapstructure:"probe-exec"`
	// PrometheusAddress is the URL of the server that probes query; empty for none.
	// PrometheusTokenFile has a bearer token for it.
	PrometheusAddress   string `mapstructure:"prometheus-address"`
	PrometheusTokenFile string `mapstructure:"prometheus-token-file"`
	// PrometheusNamespaceLabel is the label of series that has their namespace. A query
	// reads only series of its probe's namespace; if the label is empty, it reads all.
	PrometheusNamespaceLabel string `mapstructure:"prometheus-namespace-label"`
	// Notify has the receivers of notifications.
	Notify notify.Settings `mapstructure:",squash"`
	// SweepInterval is the time between two searches for leftovers of disruptions that no
	// longer exist; 0 means never.
	SweepInterval time.Duration    `mapstructure:"sweep-interval"`
	HealthAddress string           `mapstructure:"health-address"`
	Metrics       settings.Metrics `mapstructure:",squash"`
	// Traces of the worker's activities, which it sends only to a configured address.
	Traces   settings.Traces `mapstructure:",squash"`
	LogLevel string          `mapstructure:"log-level"`
}

var program = settings.Program{
	Name:        "worker",
	About:       "The worker runs the workflows and activities of disruptions.",
	Flags:       addFlags,
	WithoutFlag: []string{"allowed-hosts", settings.SettingTracesHeaders},
}

// readConfig returns pflag.ErrHelp after it has written the help to out.
func readConfig(args []string, out io.Writer) (Config, error) {
	var config Config
	if err := program.Read(args, out, &config); err != nil {
		return Config{}, err
	}
	return config, config.check()
}

func addFlags(flags *pflag.FlagSet) {
	flags.String("task-queues", queuesAll, "all, disruptions or probes; in a cluster, squall-worker does not ask probes and squall-probes does nothing else")
	flags.String("chaos-namespace", "squall-chaos", "namespace of the chaos pods and of the records of targets")
	flags.String("system-namespace", targets.DefaultSystem, "namespace of the worker and the controller; disruptions at level node leave their nodes out")
	flags.String("injector-image", "squall.local/injector:dev", "image of the injector")
	flags.String("image-pull-policy", "", "image pull policy of chaos pods: Always, IfNotPresent or Never; empty: the default of the cluster")
	flags.String("chaos-pod-priority-class", "", "priority class of chaos pods and cleaners, such as system-node-critical; empty: the default of the cluster")
	flags.StringSlice("chaos-pod-image-pull-secrets", nil, "names of Secrets in the chaos namespace with which chaos pods pull their image")
	flags.Int("chaos-pods-per-node", 30, "largest share of a node's pod slots for chaos pods, in percent, 1 to 100; targets on a full node wait")
	flags.String("chaos-pod-cpu", chaospod.DefaultCPU.String(), "CPU request of chaos pods, 1m to 1; a node without this much free CPU refuses them")
	flags.String("chaos-pod-selinux-type", "", "SELinux type of chaos pods, such as spc_t; empty: the default of the container runtime")
	flags.Duration("node-timeout", chaospod.DefaultNodeTimeout, "time limit of a cleaner or of a search of a node, image pull included; at most "+chaospod.MostNodeTimeout.String())
	flags.String("namespace-opt-in", policy.SwitchWarn, "off, warn or enforce; with enforce, the worker refuses disruptions in namespaces without the label chaos.squall.dev/disruptions=allowed")
	flags.Bool("control-plane-nodes", false, "allow nodes with the label node-role.kubernetes.io/control-plane as targets")
	flags.String("safe-mode", policy.SwitchWarn, "off, warn or enforce; what happens to disruptions with a large blast radius")
	flags.Int("safe-mode-namespace-threshold", policy.DefaultThresholds.Namespace, "largest share of a namespace's pods that safe mode allows, in percent")
	flags.Int("safe-mode-cluster-threshold", policy.DefaultThresholds.Cluster, "largest share of the cluster's pods, or of its nodes at level node, that safe mode allows, in percent")
	flags.String(cloud.SettingConfigMap, "", "ConfigMap, as namespace/name, with the address ranges of cloud providers in the keys aws, gcp and datadog")
	flags.Bool(cloud.SettingFetch, false, "download the address ranges that this ConfigMap lacks, at most once a day")
	flags.Float64("client-qps", -1, "API calls per second at most; below 0: the API server's priority and fairness decides")
	flags.Int("parallel", 32, "concurrent API calls of one activity")
	flags.Int("cordons-at-once", 1, "nodes that all disruptions with podReplacement keep cordoned at once, 1 or more")
	flags.StringSlice("probe-hosts", nil, "names, addresses and ranges that probes may use besides pods and Services of the disruption's namespace")
	flags.Int("probe-requests-per-second", 500, "probe requests per second at most, 1 or more; namespaces take turns")
	flags.Bool("probe-exec", false, "allow probes that run commands in targets; the account squall-probes needs the right pods/exec")
	flags.String("prometheus-address", "", "URL of the Prometheus server for probes, such as http://prometheus.monitoring:9090")
	flags.String("prometheus-token-file", "", "file with a bearer token for the Prometheus server")
	flags.String("prometheus-namespace-label", "namespace", "label that holds the namespace of a series; queries read only their own namespace; empty: queries read everything")
	flags.String(notify.SettingWebhookURL, "", "URL that receives notifications of all disruptions as CloudEvents; empty: none")
	flags.String(notify.SettingWebhookSecretFile, "", "file with the secret that signs these notifications: plain, or whsec_ and base64")
	flags.String(notify.SettingSlackTokenFile, "", "file with the token of a Slack app, for notifications by spec.reporting; empty: none")
	flags.String(notify.SettingSlackChannel, "", "Slack channel that receives the notifications of all disruptions; empty: none")
	flags.String(notify.SettingSlackURL, notify.SlackURL, "URL of the Slack API")
	flags.String(notify.SettingLeastType, string(v1beta1.NotificationDefault), "least important notification for the webhook and the Slack channel: "+v1beta1.NotificationTypes())
	flags.String(notify.SettingCluster, "", "name of the cluster in notifications; empty: the UID of the namespace kube-system")
	flags.Duration("sweep-interval", time.Hour, "interval of the search for leftovers that belong to no live disruption; 0: never")
	flags.String("health-address", ":8081", "address of /healthz and /readyz; 0: none")
	settings.MetricsFlags(flags)
	settings.TracesFlags(flags)
}

func (c Config) check() error {
	if err := errors.Join(c.Temporal.Check(), c.checkTaskQueues()); err != nil {
		return err
	}
	if err := settings.Required(map[string]string{"chaos-namespace": c.ChaosNamespace, "system-namespace": c.SystemNamespace, "injector-image": c.Image}); err != nil {
		return err
	}
	if c.SweepInterval != 0 && c.SweepInterval < time.Minute {
		return fmt.Errorf("setting sweep-interval %s: want 0 (never) or at least 1m", c.SweepInterval)
	}
	if c.NodeTimeout < chaospod.DefaultNodeTimeout || c.NodeTimeout > chaospod.MostNodeTimeout {
		return fmt.Errorf("setting node-timeout %s: want %s to %s", c.NodeTimeout, chaospod.DefaultNodeTimeout, chaospod.MostNodeTimeout)
	}
	if cpu, err := resource.ParseQuantity(c.CPU); err != nil || cpu.MilliValue() < 1 || cpu.MilliValue() > 1000 {
		return fmt.Errorf("setting chaos-pod-cpu %q: want processors, 1m to 1, such as %s", c.CPU, &chaospod.DefaultCPU)
	}
	if c.NodeShare < 1 || c.NodeShare > 100 {
		return fmt.Errorf("setting chaos-pods-per-node %d: want 1 to 100, in percent of the pods that a node takes", c.NodeShare)
	}
	if c.Parallel < 1 {
		return fmt.Errorf("setting parallel %d: want at least 1", c.Parallel)
	}
	if c.CordonsAtOnce < 1 {
		return fmt.Errorf("setting cordons-at-once %d: want at least 1", c.CordonsAtOnce)
	}
	if _, err := c.cloudRanges(); err != nil {
		return err
	}
	if err := errors.Join(c.checkProbes(), c.Notify.Check(), c.Traces.Check()); err != nil {
		return err
	}
	switch c.ImagePullPolicy {
	case "", "Always", "IfNotPresent", "Never":
	default:
		return fmt.Errorf("setting image-pull-policy %q: want Always, IfNotPresent or Never", c.ImagePullPolicy)
	}
	if err := c.checkSwitches(); err != nil {
		return err
	}
	_, err := settings.Logger(c.LogLevel)
	return err
}

// checkSwitches checks the settings with the values off, warn and enforce, and their
// thresholds.
func (c Config) checkSwitches() error {
	for _, s := range []struct{ name, value string }{{"namespace-opt-in", c.NamespaceOptIn}, {"safe-mode", c.SafeMode}} {
		if err := policy.CheckSwitch(s.value); err != nil {
			return fmt.Errorf("setting %s %q: %w", s.name, s.value, err)
		}
	}
	for _, s := range []struct {
		name    string
		percent int
	}{{"safe-mode-namespace-threshold", c.SafeModeNamespaceThreshold}, {"safe-mode-cluster-threshold", c.SafeModeClusterThreshold}} {
		if s.percent < 1 || s.percent > 100 {
			return fmt.Errorf("setting %s %d: want 1 to 100, in percent", s.name, s.percent)
		}
	}
	return nil
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// checkProbes checks the settings of probes.
func (c Config) checkProbes() error {
	if c.ProbeRequests < 1 {
		return fmt.Errorf("setting probe-requests-per-second %d: want at least 1", c.ProbeRequests)
	}
	if c.PrometheusTokenFile != "" && c.PrometheusAddress == "" {
		return fmt.Errorf("setting prometheus-token-file %q: there is no prometheus-address that the token is for", c.PrometheusTokenFile)
	}
	if c.PrometheusAddress != "" {
		if u, err := url.Parse(c.PrometheusAddress); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("setting prometheus-address %q: want a URL such as http://prometheus.monitoring:9090", c.PrometheusAddress)
		}
	}
	if c.PrometheusNamespaceLabel != "" && !labelName.MatchString(c.PrometheusNamespaceLabel) {
		return fmt.Errorf("setting prometheus-namespace-label %q: want the name of a label, such as namespace, or nothing", c.PrometheusNamespaceLabel)
	}
	for _, host := range c.ProbeHosts {
		if strings.Contains(host, "://") || host == "" {
			return fmt.Errorf("setting probe-hosts %q: want a name, an address or a range such as 10.1.0.0/16", host)
		}
	}
	return nil
}

// cloudRanges is the ConfigMap of the setting cloud-ranges; its name is empty if there is
// none.
func (c Config) cloudRanges() (types.NamespacedName, error) {
	if c.CloudRanges == "" {
		return types.NamespacedName{}, nil
	}
	namespace, name, both := strings.Cut(c.CloudRanges, "/")
	if !both || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("setting %s %q: want namespace/name of a ConfigMap", cloud.SettingConfigMap, c.CloudRanges)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
