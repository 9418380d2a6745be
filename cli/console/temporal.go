package console

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/workflows/connect"
)

// TemporalFlags are the address of Temporal, as for the other programs, and the namespace
// of Squall's worker, whose settings have the address otherwise.
type TemporalFlags struct{ System string }

// Add adds the flags to a command.
func (f *TemporalFlags) Add(to *cobra.Command) {
	settings.TemporalFlags(to.Flags())
	to.Flags().Lookup("temporal-address").Usage = "host:port of Temporal's frontend; nothing: the worker's, reached through the cluster if it is a Service there"
	SystemNamespaceFlag(to, &f.System)
}

// Dial returns a client of Temporal, which the caller closes, and the settings that reached
// it. With an address, it also works without a cluster.
func (f *TemporalFlags) Dial(ctx context.Context, cmd *cobra.Command, of *cluster.Client) (client.Client, settings.Temporal, error) {
	where, err := settings.ReadTemporal(cmd.Flags())
	if err != nil {
		return nil, where, err
	}
	to := where.Connect()
	if !Given(cmd, "temporal-address") {
		worker, err := of.WorkerSettings(ctx, f.System)
		if err != nil {
			return nil, where, fmt.Errorf("the address of Temporal is unknown: cannot read the settings of the worker: %w; pass --temporal-address", err)
		}
		if address := worker[settings.Variable("temporal-address")]; address != "" {
			where.Address, to.Address = address, address
			if !Given(cmd, "temporal-namespace") && worker[settings.Variable("temporal-namespace")] != "" {
				where.Namespace = worker[settings.Variable("temporal-namespace")]
				to.Namespace = where.Namespace
			}
			to.TLS = to.TLS || worker[settings.Variable("temporal-tls")] == "true"
		}
	}
	if namespace, service, port, ok := cluster.ServiceOf(to.Address); ok && of.Config != nil && !of.Inside() {
		address, err := of.Forward(cmd.Context(), namespace, service, port)
		if err != nil {
			return nil, where, err
		}
		if address != "" {
			host, _, _ := net.SplitHostPort(to.Address)
			to.ServerName, to.Address = host, address
		}
	}
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	temporal, err := connect.Dial(ctx, to, zap.NewNop(), nil)
	return temporal, where, err
}

// Given is true for a setting that the command line or the environment has.
func Given(cmd *cobra.Command, setting string) bool {
	return cmd.Flags().Changed(setting) || os.Getenv(settings.Variable(setting)) != ""
}
