//go:build linux

package dnsdisruption

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/squall-chaos/squall/injector/dnsdisruption/redirect"
	"github.com/squall-chaos/squall/injector/target"
)

// Probe redirects in a network namespace of its own, which it discards, and reports whether
// the kernel accepts that. The error is that of an injection. It needs neither target nor
// journal.
func (i *Injector) Probe() (string, error) {
	err := target.InNewNetns(func(path string) error {
		netns, err := target.OpenNetns(path)
		if err != nil {
			return err
		}
		defer netns.Close()
		var sockets redirect.Sockets
		for _, network := range []string{"udp", "tcp"} {
			for _, address := range []string{"127.0.0.1:1", "[::1]:1"} {
				sockets = append(sockets, redirect.Socket{Network: network, Address: netip.MustParseAddrPort(address)})
			}
		}
		table, err := redirect.Install(netns, redirect.ProbeTable, defaultPort, sockets)
		if err != nil {
			return err
		}
		tracked := redirect.Tracked{Netns: netns, Port: defaultPort, Sockets: sockets}
		if err := tracked.Probe(); err != nil {
			return err
		}
		return errors.Join(table.Remove(), table.Close())
	})
	if err != nil {
		return "", fmt.Errorf("dns disruption: %w", i.refused(err))
	}
	return "dns disruption works by an nftables table that ends with its owner", nil
}

// refused returns the error with what the kernel lacks, and its answer.
func (i *Injector) refused(answer error) error {
	node := "this node"
	if i.target != nil && i.target.Injection.Target.NodeName != "" {
		node = "node " + i.target.Injection.Target.NodeName
	}
	return fmt.Errorf("it needs nftables with owned tables (Linux 5.12), NAT and connection tracking"+
		" (CONFIG_NF_TABLES_INET, CONFIG_NFT_NAT, CONFIG_NFT_REDIR, CONFIG_NF_CT_NETLINK), which %s (kernel %s) refuses: %w",
		node, target.KernelRelease(), answer)
}
