package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/vm"
)

// VirtualNode describes worker machine n as a virtual machine: the same programs
// and directories, on a kernel of its own, what it writes on a disk of its own.
func VirtualNode(c *cluster.Cluster, n int) Spec {
	s := Node(c, n, "overlayfs")
	s.Root, s.Base, s.Logs = guestDir, hostDir, logsDir
	for i := range s.Binds {
		b := &s.Binds[i]
		if b.ReadOnly {
			b.Source = hostDir + b.Source
		} else {
			b.Source = filepath.Join(diskDir, filepath.Base(b.Source))
		}
	}
	// The host's files are seen from inside, for archives of images.
	s.Binds = append(s.Binds, Bind{Source: hostDir, Target: hostDir, ReadOnly: true})
	s.Shields = nil // its kernel is its own
	s.Guest = &Guest{Links: guestLinks(c, n)}
	return s
}

// guestLinks are the addresses and routes that a node makes itself. They include
// all nodes that may ever exist, since later ones are not announced.
func guestLinks(c *cluster.Cluster, n int) []string {
	links := []string{
		"link set lo up",
		fmt.Sprintf("addr add %s/24 dev eth0", c.NodeAddr(n)),
		"link set eth0 up",
		fmt.Sprintf("route add default via %s", c.HostAddr()),
	}
	for m := 1; m <= cluster.MaxNodes; m++ {
		if m != n {
			links = append(links, fmt.Sprintf("route add %s via %s", c.NodePods(m), c.NodeAddr(m)))
		}
	}
	return links
}

// Modules that the first process needs before it sees the host's files.
var earlyModules = []string{"virtio_pci", "virtio_blk", "virtio_net", "9pnet_virtio", "9p", "overlay", "crc32c_generic", "ext4"}

// nodeModules are what a node's programs would have the kernel load: kube-proxy,
// the plugins of CNI and containerd.
var nodeModules = []string{
	"bridge", "br_netfilter", "ip_tables", "ip6_tables", "xt_comment", "xt_addrtype", "xt_mark", "xt_MASQUERADE", "xt_nat", "xt_statistic",
	"xt_multiport", "xt_recent", "xt_REDIRECT", "xt_limit", "xt_set", "xt_nfacct", "xt_physdev", "ipt_REJECT", "ip6t_REJECT", "nft_fib_inet", "nft_masq", "nft_log", "xt_LOG",
	"nf_conntrack", "nf_nat", "loop",
}

// QEMU is the command line of a virtual node, whose link is the tap device of its
// role, where that is; dir is for the archive that it starts with.
func QEMU(c *cluster.Cluster, n int, dir string) ([]string, error) {
	s := VirtualNode(c, n)
	role := cluster.NodeRole(n)
	files, err := vm.Modules(filepath.Join(c.Kernel, "lib/modules"))
	if err != nil {
		return nil, err
	}
	early, err := vm.InOrder(earlyModules, files)
	if err != nil {
		return nil, err
	}
	later, err := vm.InOrder(slices.Concat(vm.FilterModules(), vm.NetworkModules(), nodeModules), files)
	if err != nil {
		return nil, err
	}
	for _, file := range early {
		s.Guest.Early = append(s.Guest.Early, "/"+filepath.Base(file))
	}
	for _, file := range later {
		s.Guest.Modules = append(s.Guest.Modules, hostDir+file)
	}
	archive, err := s.writeArchive(c, dir, early)
	if err != nil {
		return nil, err
	}
	kernel, err := vm.Kernel(c.Kernel)
	if err != nil {
		return nil, err
	}
	share := "local,path=%s,mount_tag=%s,security_model=none,multidevs=remap"
	return []string{"qemu-system-x86_64", "-accel", vm.Accelerator(), "-cpu", "max", "-smp", strconv.Itoa(Processors), "-m", "3072",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-virtfs", fmt.Sprintf(share, "/", HostTag) + ",readonly=on",
		"-virtfs", fmt.Sprintf(share, c.Path("log", role), LogsTag),
		"-drive", "file=" + filepath.Join(dir, DiskFile) + ",format=raw,if=virtio,cache=unsafe,discard=unmap",
		"-netdev", "tap,id=eth0,ifname=" + role + ",script=no,downscript=no",
		"-device", fmt.Sprintf("virtio-net-pci,netdev=eth0,mac=02:73:71:75:62:%02x", n),
		"-device", "virtio-rng-pci",
		"-kernel", kernel, "-initrd", archive,
		"-append", "console=ttyS0 panic=10 loglevel=4 no_timer_check net.ifnames=0 cgroup_no_v1=all lsm=landlock,lockdown,yama,bpf rdinit=/" + GuestProgram,
	}, nil
}

// Processors are those of a virtual machine.
const Processors = 2

// DiskFile is the disk of a virtual machine, in its directory.
const DiskFile = "disk.raw"

// writeArchive writes what a virtual machine starts with.
func (s Spec) writeArchive(c *cluster.Cluster, dir string, modules []string) (string, error) {
	spec, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, SpecFile), spec, 0o600); err != nil {
		return "", err
	}
	program := filepath.Join(dir, GuestProgram)
	_ = os.Remove(program)
	if err := os.Symlink(c.Guest(), program); err != nil {
		return "", err
	}
	archive := filepath.Join(dir, "initrd.gz")
	return archive, vm.WriteInitramfs(archive, []string{filepath.Base(NewRoot)}, slices.Concat([]string{program, filepath.Join(dir, SpecFile)}, modules))
}
