//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/dump"
)

// nodeNetwork adds what is on the links of this pod's network namespace, which is
// the node's. Links of pods are left out: they come and go.
func nodeNetwork(found map[string]string) error {
	return links(found, "node ", func(name string) bool { return !strings.HasPrefix(name, "veth") })
}

// networkOf adds what is in the network namespace of a process. The thread
// stays there: the program ends soon.
func networkOf(found map[string]string, pid int) error {
	namespace, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
	if err != nil {
		return fmt.Errorf("open the network namespace of process %d: %w", pid, err)
	}
	defer namespace.Close()
	runtime.LockOSThread()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the network namespace of process %d: %w", pid, err)
	}
	if err := links(found, "", func(string) bool { return true }); err != nil {
		return err
	}
	if err := tables(found); err != nil {
		return err
	}
	if err := listening(found); err != nil {
		return err
	}
	return routes(found)
}

// tables are those of nftables. A kernel without it has none.
func tables(found map[string]string) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	all, err := conn.ListTables()
	if err != nil {
		return nil
	}
	var lines []string
	for _, table := range all {
		lines = append(lines, fmt.Sprintf("%d %s", table.Family, table.Name))
	}
	found["nftables"] = sorted(lines)
	return nil
}

// listening are the sockets that wait for connections, or for datagrams from any
// address.
func listening(found map[string]string) error {
	var lines []string
	for _, protocol := range []string{"tcp", "tcp6", "udp", "udp6"} {
		table, err := os.ReadFile("/proc/thread-self/net/" + protocol)
		if err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("list sockets: %w", err)
		}
		for line := range strings.Lines(string(table)) {
			fields := strings.Fields(line)
			if len(fields) > 3 && (fields[3] == "0A" || fields[3] == "07") { // its state
				lines = append(lines, protocol+" "+fields[1])
			}
		}
	}
	found["listening"] = sorted(lines)
	return nil
}

func links(found map[string]string, prefix string, wanted func(string) bool) error {
	all, err := dump.Whole(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, l := range all {
		name := l.Attrs().Name
		if !wanted(name) {
			continue
		}
		key := prefix + "link " + name
		found[key] = fmt.Sprintf("%s mtu %d %s", l.Type(), l.Attrs().MTU, l.Attrs().Flags)
		if found[key+" qdiscs"], err = qdiscs(l); err != nil {
			return err
		}
		if found[key+" filters"], err = filters(l); err != nil {
			return err
		}
		found[key+" programs"] = programs(l)
	}
	return nil
}

func qdiscs(l netlink.Link) (string, error) {
	all, err := dump.Whole(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(l) })
	if err != nil {
		return "", fmt.Errorf("list the qdiscs of %s: %w", l.Attrs().Name, err)
	}
	var lines []string
	for _, q := range all {
		lines = append(lines, fmt.Sprintf("%s %s parent %s", q.Type(), netlink.HandleStr(q.Attrs().Handle), netlink.HandleStr(q.Attrs().Parent)))
	}
	return sorted(lines), nil
}

func filters(l netlink.Link) (string, error) {
	var lines []string
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS, netlink.HANDLE_ROOT} {
		all, err := dump.Whole(func() ([]netlink.Filter, error) { return netlink.FilterList(l, parent) })
		if errors.Is(err, netlink.ErrDumpInterrupted) {
			return "", fmt.Errorf("list the filters of %s: %w", l.Attrs().Name, err)
		}
		if err != nil {
			continue // no qdisc of that name: no filters
		}
		for _, f := range all {
			lines = append(lines, fmt.Sprintf("%s %s priority %d", netlink.HandleStr(parent), f.Type(), f.Attrs().Priority))
		}
	}
	return sorted(lines), nil
}

// programs are the BPF programs attached to a link by tcx and XDP. A kernel
// without tcx has none.
func programs(l netlink.Link) string {
	lines := []string{}
	if xdp := l.Attrs().Xdp; xdp != nil && xdp.Attached {
		lines = append(lines, "xdp")
	}
	for name, attach := range map[string]ebpf.AttachType{"ingress": ebpf.AttachTCXIngress, "egress": ebpf.AttachTCXEgress} {
		result, err := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: attach})
		if err != nil {
			continue
		}
		for range result.Programs {
			lines = append(lines, "tcx "+name)
		}
	}
	return sorted(lines)
}

func routes(found map[string]string) error {
	all, err := dump.Whole(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	var lines []string
	for _, r := range all {
		lines = append(lines, fmt.Sprintf("%s via %s", r.Dst, r.Gw))
	}
	found["routes"] = sorted(lines)
	return nil
}

func sorted(lines []string) string {
	sort.Strings(lines)
	return strings.Join(lines, "; ")
}
