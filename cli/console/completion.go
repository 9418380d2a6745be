package console

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/cluster"
)

// DisruptionNames completes a word with the names of disruptions.
func (f *ClusterFlags) DisruptionNames(s Streams) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return f.Complete(cmd, s, func(ctx context.Context, client *cluster.Client) (names []string, err error) {
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

// Complete returns the completions that list finds in the cluster; none if it does not
// answer.
func (f *ClusterFlags) Complete(cmd *cobra.Command, s Streams, list func(context.Context, *cluster.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	client, err := f.Connect(s)
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

// ObjectNames completes a word with the names of disruptions, or with those of another
// kind after KIND/.
func (f *ClusterFlags) ObjectNames(s Streams) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		prefix, _, chosen := strings.Cut(typed, "/")
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if !chosen {
			names, directive := f.DisruptionNames(s)(cmd, args, typed)
			for _, kind := range Kinds()[1:] {
				if strings.HasPrefix(kind.Singular, typed) && typed != "" {
					names, directive = append(names, kind.Singular+"/"), directive|cobra.ShellCompDirectiveNoSpace
				}
			}
			return names, directive
		}
		kind, err := KindOf(prefix)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.Complete(cmd, s, func(ctx context.Context, client *cluster.Client) (names []string, err error) {
			found, err := client.List(ctx, kind.Resource, f.Namespace(client))
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
