package console

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/cli/cluster"
)

// ChaosNamespaceFlag adds --chaos-namespace, which the programs of Squall have too.
func ChaosNamespaceFlag(to *cobra.Command, into *string) {
	to.Flags().StringVar(into, "chaos-namespace", cmp.Or(os.Getenv("SQUALL_CHAOS_NAMESPACE"), "squall-chaos"), "namespace of the chaos pods")
}

// SystemNamespaceFlag adds --system-namespace.
func SystemNamespaceFlag(to *cobra.Command, into *string) {
	to.Flags().StringVar(into, "system-namespace", targets.DefaultSystem, "namespace of the worker and the controller")
}

// ClusterFlags are the flags by which kubectl finds a cluster, under the same names.
type ClusterFlags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	// Everywhere is true with --all-namespaces.
	Everywhere bool
}

// shown are the flags of ClusterFlags that help lists; the others work as well.
var shown = []string{"kubeconfig", "context", "namespace", "as"}

// Add adds the flags to a command.
func (f *ClusterFlags) Add(to *cobra.Command) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; default: the file that kubectl uses")
	clientcmd.BindOverrideFlags(&f.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	flags.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains(shown, flag.Name)
		to.Flags().AddFlag(flag)
	})
}

// AddEverywhere adds --all-namespaces.
func (f *ClusterFlags) AddEverywhere(to *cobra.Command) {
	to.Flags().BoolVarP(&f.Everywhere, "all-namespaces", "A", false, "of all namespaces")
}

var errNoCluster = errors.New("no cluster is configured: set KUBECONFIG, or name a file by --kubeconfig")

// ConnectIfAny is Connect for a command that can do without a cluster, if optional is
// true: the client then only has a namespace.
func (f *ClusterFlags) ConnectIfAny(s Streams, optional bool) (*cluster.Client, error) {
	client, err := f.Connect(s)
	if optional && errors.Is(err, errNoCluster) {
		return &cluster.Client{Namespace: cmp.Or(f.overrides.Context.Namespace, metav1.NamespaceDefault)}, nil
	}
	return client, err
}

// Connect makes a client without a call. Warnings of the API server go to s.Err.
func (f *ClusterFlags) Connect(s Streams) (*cluster.Client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, errNoCluster
		}
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	config.WarningHandler = rest.NewWarningWriter(s.Err, rest.WarningWriterOptions{Deduplicate: true, Color: s.Color})
	return cluster.New(config, namespace)
}

// Namespace is the one to list; empty for all.
func (f *ClusterFlags) Namespace(client *cluster.Client) string {
	if f.Everywhere {
		return ""
	}
	return client.Namespace
}

// Where describes the scope of Namespace in a message.
func (f *ClusterFlags) Where(client *cluster.Client) string {
	if f.Everywhere {
		return "in the cluster"
	}
	return "in namespace " + client.Namespace
}
