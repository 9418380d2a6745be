package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/cli/cluster"
)

// chaosNamespaceFlag adds --chaos-namespace, which the programs of Squall have too.
func chaosNamespaceFlag(to *cobra.Command, into *string) {
	to.Flags().StringVar(into, "chaos-namespace", cmp.Or(os.Getenv("SQUALL_CHAOS_NAMESPACE"), "squall-chaos"), "namespace of the chaos pods")
}

// clusterFlags are the flags by which kubectl finds a cluster, under the same names.
type clusterFlags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
	everywhere bool
}

// shown are the flags of clusterFlags that help lists; the others work as well.
var shown = []string{"kubeconfig", "context", "namespace", "as"}

func (f *clusterFlags) add(to *cobra.Command) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; default: the file that kubectl uses")
	clientcmd.BindOverrideFlags(&f.overrides, flags, clientcmd.RecommendedConfigOverrideFlags(""))
	flags.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = !slices.Contains(shown, flag.Name)
		to.Flags().AddFlag(flag)
	})
}

// addEverywhere adds --all-namespaces.
func (f *clusterFlags) addEverywhere(to *cobra.Command) {
	to.Flags().BoolVarP(&f.everywhere, "all-namespaces", "A", false, "of all namespaces")
}

var errNoCluster = errors.New("no cluster is configured: set KUBECONFIG, or name a file by --kubeconfig")

// connectIfAny is connect for a command that can do without a cluster, if optional is
// true: the client then only has a namespace.
func (f *clusterFlags) connectIfAny(c *command, optional bool) (*cluster.Client, error) {
	client, err := f.connect(c)
	if optional && errors.Is(err, errNoCluster) {
		return &cluster.Client{Namespace: cmp.Or(f.overrides.Context.Namespace, metav1.NamespaceDefault)}, nil
	}
	return client, err
}

// connect makes a client without a call. Warnings of the API server go to c.err.
func (f *clusterFlags) connect(c *command) (*cluster.Client, error) {
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
	config.WarningHandler = rest.NewWarningWriter(c.err, rest.WarningWriterOptions{Deduplicate: true, Color: c.color})
	return cluster.New(config, namespace)
}

// namespace is the one to list; empty for all.
func (f *clusterFlags) namespace(client *cluster.Client) string {
	if f.everywhere {
		return ""
	}
	return client.Namespace
}

// where describes the scope of namespace in a message.
func (f *clusterFlags) where(client *cluster.Client) string {
	if f.everywhere {
		return "in the cluster"
	}
	return "in namespace " + client.Namespace
}

// disruptionNames completes a word with the names of disruptions.
func (c *command) disruptionNames(f *clusterFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return c.complete(cmd, f, func(ctx context.Context, client *cluster.Client) (names []string, err error) {
			list, err := client.Disruptions(ctx, client.Namespace)
			if err != nil {
				return nil, err
			}
			for _, d := range list.Items {
				if !slices.Contains(args, d.Name) {
					names = append(names, d.Name+"\t"+string(d.Status.Phase))
				}
			}
			return names, nil
		})
	}
}

// complete returns the completions that list finds in the cluster; none if it does not
// answer.
func (c *command) complete(cmd *cobra.Command, f *clusterFlags, list func(context.Context, *cluster.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	client, err := f.connect(c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	names, err := list(ctx, client)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// objectNames completes a word with the names of disruptions, or with those of another
// kind after KIND/.
func (c *command) objectNames(f *clusterFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		prefix, _, chosen := strings.Cut(typed, "/")
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if !chosen {
			names, directive := c.disruptionNames(f)(cmd, args, typed)
			for _, kind := range listedKinds()[1:] {
				if strings.HasPrefix(kind.singular, typed) && typed != "" {
					names, directive = append(names, kind.singular+"/"), directive|cobra.ShellCompDirectiveNoSpace
				}
			}
			return names, directive
		}
		kind, err := kindOf(prefix)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.complete(cmd, f, func(ctx context.Context, client *cluster.Client) (names []string, err error) {
			found, err := client.List(ctx, kind.Resource, f.namespace(client))
			if err != nil {
				return nil, err
			}
			for _, object := range found.Items {
				names = append(names, prefix+"/"+object.GetName())
			}
			return names, nil
		})
	}
}
