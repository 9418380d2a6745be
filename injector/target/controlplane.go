//go:build linux

package target

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kubeletPort is the port of a kubelet, also of one that is a part of another program with
// its own name.
const kubeletPort = 10250

// betweenLooks is longer than a kubelet's probe of a healthy pod lasts. A connection that
// exists at two reads leads to the control plane.
const betweenLooks = 300 * time.Millisecond

// looks is how many repeated reads must find no connection before ControlPlane returns an
// error. The kernel lists sockets in pieces, and may omit one while others change.
const looks = 3

// ControlPlane lists the peers of the node's kubelet: its connections carry the
// request to end a chaos pod. A connection to a proxy on the node is followed to the
// proxy's own connections. The list is empty if no kubelet is visible on the node. A
// kubelet without a connection is an error.
func (t *Target) ControlPlane(ctx context.Context) ([]netip.AddrPort, error) {
	kubelet, before, err := t.kubeletPeers()
	if err != nil || !kubelet {
		return nil, err
	}
	for range looks {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(betweenLooks):
		}
		_, now, err := t.kubeletPeers()
		if err != nil {
			return nil, err
		}
		var peers []netip.AddrPort
		for inode, peer := range before {
			if now[inode] == peer {
				peers = append(peers, peer)
			}
		}
		if len(peers) > 0 {
			slices.SortFunc(peers, netip.AddrPort.Compare)
			return slices.Compact(peers), nil
		}
		before = now
	}
	return nil, fmt.Errorf("the kubelet of node %s has no connection to the API server that can stay undisrupted;"+
		" wait until it is connected", cmp.Or(t.Injection.Target.NodeName, t.Injection.Target.Name))
}

// kubeletPeers returns the other ends of the kubelet's connections, by socket.
func (t *Target) kubeletPeers() (kubelet bool, peers map[uint64]netip.AddrPort, err error) {
	node, err := t.NodeNetns()
	if err != nil {
		return false, nil, fmt.Errorf("find the kubelet: %w", err)
	}
	sockets, err := readSockets(filepath.Join(t.ProcDir(), "1/net"))
	if err != nil {
		return false, nil, fmt.Errorf("find the kubelet's connections: %w", err)
	}
	owners, kubelets, err := t.socketsOfNode(node.NetnsID)
	if err != nil {
		return false, nil, fmt.Errorf("find the kubelet's connections: %w", err)
	}
	kubelet, peers = follow(sockets, owners, kubelets)
	return kubelet, peers, nil
}

// follow returns the peers without reading the node. It starts at the kubelets, and at
// processes that listen like one, and follows proxies on the node to peers elsewhere.
func follow(sockets []socket, owners map[int][]uint64, kubelets []int) (found bool, peers map[uint64]netip.AddrPort) {
	holders := map[uint64][]int{}
	for pid, inodes := range owners {
		for _, inode := range inodes {
			holders[inode] = append(holders[inode], pid)
		}
	}
	peers = map[uint64]netip.AddrPort{}
	queue, seen := slices.Clone(kubelets), map[int]bool{}
	listen := func(port uint16) {
		for _, s := range sockets {
			if s.state == tcpListen && s.local.Port() == port {
				queue = append(queue, holders[s.inode]...)
			}
		}
	}
	listen(kubeletPort)
	found = len(queue) > 0
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		for _, s := range sockets {
			connects := s.state == tcpEstablished || s.state == tcpSynSent
			if !connects || !slices.Contains(owners[pid], s.inode) || listens(sockets, s.local.Port()) {
				continue // the peer opened this connection
			}
			if s.remote.Addr().IsLoopback() {
				listen(s.remote.Port())
			} else {
				peers[s.inode] = s.remote
			}
		}
	}
	return found, peers
}

func listens(sockets []socket, port uint16) bool {
	return slices.ContainsFunc(sockets, func(s socket) bool { return s.state == tcpListen && s.local.Port() == port })
}

// socketsOfNode returns the sockets of each process in a network namespace, and the
// processes named like a kubelet.
func (t *Target) socketsOfNode(node NetnsID) (owners map[int][]uint64, kubelets []int, err error) {
	pids, err := listPIDs(t.ProcDir())
	if err != nil {
		return nil, nil, err
	}
	owners = map[int][]uint64{}
	for _, pid := range pids {
		netns, err := netnsOf(t.ProcDir(), pid)
		if err != nil || netns.NetnsID != node {
			continue // it ended, or belongs to a pod
		}
		if inodes := socketsOf(t.ProcDir(), pid); len(inodes) > 0 {
			owners[pid] = inodes
		}
		name, _ := os.ReadFile(filepath.Join(t.ProcDir(), strconv.Itoa(pid), "comm"))
		if strings.TrimSpace(string(name)) == "kubelet" {
			kubelets = append(kubelets, pid)
		}
	}
	slices.Sort(kubelets)
	return owners, kubelets, nil
}

func socketsOf(proc string, pid int) []uint64 {
	dir := filepath.Join(proc, strconv.Itoa(pid), "fd")
	entries, _ := os.ReadDir(dir) // a process that ended has none
	inodes := map[uint64]bool{}
	for _, entry := range entries {
		to, err := os.Readlink(filepath.Join(dir, entry.Name()))
		if number, is := strings.CutPrefix(to, "socket:["); err == nil && is {
			if inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64); err == nil {
				inodes[inode] = true
			}
		}
	}
	return slices.Collect(maps.Keys(inodes))
}

// socket is a line of /proc/net/tcp.
type socket struct {
	local, remote netip.AddrPort
	state         uint64
	inode         uint64
}

// States of sockets, as the kernel numbers them.
const (
	tcpEstablished = 1
	tcpSynSent     = 2
	tcpListen      = 10
)

// readSockets reads the TCP sockets of both families from a directory net of /proc.
func readSockets(dir string) ([]socket, error) {
	var sockets []socket
	for _, name := range []string{"tcp", "tcp6"} {
		file, err := os.Open(filepath.Join(dir, name))
		if os.IsNotExist(err) && name == "tcp6" {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		lines.Scan() // the header
		for lines.Scan() {
			s, err := parseSocket(lines.Text())
			if err != nil {
				file.Close()
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			sockets = append(sockets, s)
		}
		file.Close()
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return sockets, nil
}

// parseSocket reads "0: 0100007F:1F90 00000000:0000 0A … inode …".
func parseSocket(line string) (socket, error) {
	fields := strings.Fields(line)
	if len(fields) < 10 {
		return socket{}, fmt.Errorf("unexpected line %q", line)
	}
	var s socket
	var errs [4]error
	s.local, errs[0] = parseEnd(fields[1])
	s.remote, errs[1] = parseEnd(fields[2])
	s.state, errs[2] = strconv.ParseUint(fields[3], 16, 8)
	s.inode, errs[3] = strconv.ParseUint(fields[9], 10, 64)
	for _, err := range errs {
		if err != nil {
			return socket{}, fmt.Errorf("unexpected line %q: %w", line, err)
		}
	}
	return s, nil
}

// parseEnd reads an address and a port. The kernel prints an address as numbers of 32 bits,
// each in the machine's order of bytes.
func parseEnd(text string) (netip.AddrPort, error) {
	address, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	bytes, err := hex.DecodeString(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for at := 0; at+4 <= len(bytes); at += 4 {
		binary.NativeEndian.PutUint32(bytes[at:], binary.BigEndian.Uint32(bytes[at:]))
	}
	parsed, ok := netip.AddrFromSlice(bytes)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("address %s has %d bytes", address, len(bytes))
	}
	return netip.AddrPortFrom(parsed.Unmap(), uint16(number)), nil
}
