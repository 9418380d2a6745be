//go:build linux

package network

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

func TestOnlySomeContainersAreDisturbed(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		w.injection.Target.SomeContainers = true
		i := w.injector(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4}}}, try)
		meant := i.target.Containers[0].Cgroups.Unified
		if meant == "" {
			testneeds.Missing(t, testneeds.UnifiedCgroups)
		}
		must(t, i.Inject(context.Background()))
		below, other := filepath.Join(meant, "below"), meant+"-other"
		for name, test := range map[string]struct {
			cgroup string
			want   int
		}{
			"the container":               {meant, 50},
			"a cgroup below it":           {below, 50},
			"another container":           {other, 0},
			"the cgroup above containers": {filepath.Dir(meant), 0},
		} {
			if hasControllers(test.cgroup) {
				continue // version 2 allows no process there
			}
			if got := lostFrom(t, w, test.cgroup, 50); got != test.want {
				t.Errorf("%s: %d of 50 lost, want %d", name, got, test.want)
			}
		}
		clean(t, i)
	})
}

// When links see an arriving packet, it has no socket yet. Without a port it is judged
// where a socket receives it.
func TestOnlySomeContainersStopReceiving(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		w.injection.Target.SomeContainers = true
		i := w.injector(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4, Flow: "ingress"}}}, try)
		meant := i.target.Containers[0].Cgroups.Unified
		if meant == "" {
			testneeds.Missing(t, testneeds.UnifiedCgroups)
		}
		must(t, i.Inject(context.Background()))
		if left, err := i.Left(context.Background()); err != nil || !strings.Contains(strings.Join(left, " "), meant) {
			t.Errorf("Left() = %q, %v, want the program of the cgroup", left, err)
		}
		for cgroup, want := range map[string]string{meant: "0", filepath.Join(meant, "below"): "0", meant + "-other": "50"} {
			if got := receivedBy(t, w, cgroup, 50); got != want {
				t.Errorf("%s: %s of 50 arrived, want %s", cgroup, got, want)
			}
		}
		clean(t, i)
		if got := receivedBy(t, w, meant, 50); got != "50" {
			t.Errorf("after cleaning: %s of 50 arrived, want all", got)
		}
		if left, err := i.Left(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("after cleaning: Left() = %q, %v, want nothing", left, err)
		}
	})
}

// receivedBy sends datagrams from the host to a process in a cgroup, which counts those
// that arrive.
func receivedBy(t *testing.T, w *world, cgroup string, count int) string {
	t.Helper()
	must(t, os.MkdirAll(cgroup, 0o755))
	t.Cleanup(func() { os.Remove(cgroup) })
	dir, err := os.Open(cgroup)
	must(t, err)
	defer dir.Close()
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), "NETWORK_TEST_RECEIVE="+targetIPv4+":8000")
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	end, err := child.StdinPipe()
	must(t, err)
	output, err := child.StdoutPipe()
	must(t, err)
	must(t, target.Do(w.target, child.Start))
	defer child.Wait()
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); line != "listens\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	conn := dialUDP(t, w.in(hostIPv4, 8000, count))
	defer conn.Close()
	for range count {
		_, err := conn.Write([]byte("squall"))
		must(t, err)
	}
	must(t, end.Close())
	line, err := lines.ReadString('\n')
	must(t, err)
	return strings.TrimSpace(line)
}

// A node may show only its own part of its hierarchy, as a node does that is itself a
// container.
func TestContainersBelowAPartOfTheHierarchy(t *testing.T) {
	w := newWorld(t)
	w.injection.Target.SomeContainers = true
	i := w.injector(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4}}})
	meant := i.target.Containers[0].Cgroups.Unified
	if meant == "" {
		testneeds.Missing(t, testneeds.UnifiedCgroups)
	}
	part := t.TempDir()
	must(t, unix.Mount(filepath.Dir(meant), part, "", unix.MS_BIND, ""))
	t.Cleanup(func() { unix.Unmount(part, unix.MNT_DETACH) })
	i.target.Containers[0].Cgroups.Unified = filepath.Join(part, filepath.Base(meant))
	must(t, i.Inject(context.Background()))
	if got := lostFrom(t, w, meant, 50); got != 50 {
		t.Errorf("the container: %d of 50 lost, want all", got)
	}
	if got := lostFrom(t, w, meant+"-other", 50); got != 0 {
		t.Errorf("another container: %d of 50 lost, want 0", got)
	}
	clean(t, i)
}

// The pod uses its node's network. Other programs there must not notice the disruption.
func TestPodInTheNodesNetworkIsDisturbedAlone(t *testing.T) {
	w := newWorld(t)
	w.injection.Target.PodIPs = []string{nodeIPv4}
	i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100})
	if got := lost(t, w.out(hostIPv4, 7000, 100)); got != 0 {
		t.Errorf("another process of the node: %d of 100 lost, want 0", got)
	}
	if got := lostFrom(t, w, i.target.Containers[0].Cgroups.Unified, 50); got != 50 {
		t.Errorf("the pod: %d of 50 lost, want all", got)
	}
	clean(t, i)
}

// Packets to a pod in its node's network arrive by the node's own link. Other links carry
// the packets of the node's other pods, to any port.
func TestIngressOfAPodInTheNodesNetworkLeavesOtherPodsAlone(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		const otherPod = "10.9.7.2"
		w.injection.Target.PodIPs, w.injection.Target.NodeIPs = []string{targetIPv4}, []string{targetIPv4}
		namespace, err := os.Open(w.target)
		must(t, err)
		defer namespace.Close()
		peer, inside := openForTest(t, w.peer), openForTest(t, w.target)
		must(t, peer.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "pod", TxQLen: 1000}, PeerName: "veth0", PeerNamespace: netlink.NsFd(namespace.Fd())}))
		configure(t, peer, "pod", otherPod+"/24")
		configure(t, inside, "veth0", "10.9.7.1/24")
		defer func() {
			link, err := inside.LinkByName("veth0")
			must(t, err)
			must(t, inside.LinkDel(link))
		}()
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{Flow: "ingress", Port: 7000}}}, try)
		if got := lost(t, traffic{from: w.peer, to: w.target, source: otherPod, address: "10.9.7.1", port: 7000, count: 100}); got != 0 {
			t.Errorf("another pod, by its own link: %d of 100 lost, want 0", got)
		}
		if got := lost(t, w.in(hostIPv4, 7000, 100)); got != 100 {
			t.Errorf("what comes to the pod: %d of 100 lost, want all", got)
		}
		clean(t, i)
	})
}

func TestContainersWithoutACgroupV2AreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Injector)
		want   string
	}{
		"some containers, no cgroup v2": {
			func(i *Injector) { i.target.Containers[0].Cgroups.Unified = "" },
			"leave out spec.containers",
		},
		"some containers, cgroup is the root": {
			func(i *Injector) { i.target.Containers[0].Cgroups.Unified = unifiedRoot(t) },
			"leave out spec.containers",
		},
		"pod in the node's network, no cgroup v2": {
			func(i *Injector) {
				i.target.Injection.Target.SomeContainers = false
				i.target.Injection.Target.PodIPs = []string{nodeIPv4}
				i.target.Containers[0].Cgroups.Unified = ""
			},
			"choose level node",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before := state(t, w.target)
			w.injection.Target.SomeContainers = true
			i := w.injector(t, v1beta1.NetworkDisruption{Drop: 100})
			test.change(i)
			err := i.Inject(context.Background())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "nothing was changed") {
				t.Errorf("Inject() = %v, want the way out %q, and that nothing was changed", err, test.want)
			}
			if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
				t.Errorf("after the refusal (-before +after):\n%s", diff)
			}
		})
	}
}

func TestNodeLevelKeepsTheNodeReachable(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		w.injection.Level = v1beta1.LevelNode
		w.injection.Target.Containers = nil
		w.pretend(t, nil, nil)
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{{}, {Flow: "ingress"}}}, try)
		for name, test := range map[string]struct {
			traffic traffic
			want    int
		}{
			"host":                {w.out(hostIPv4, 7000, 100), 100},
			"default gateway":     {w.out(gatewayIPv4, 7000, 100), 100},
			"what comes in":       {w.in(hostIPv4, 7000, 100), 100},
			"itself, by loopback": {traffic{from: w.target, to: w.target, address: "127.0.0.1", port: 7000, count: 100}, 0},
		} {
			if got := lost(t, test.traffic); got != test.want {
				t.Errorf("%s: %d of 100 lost, want %d", name, got, test.want)
			}
		}
		back := *w
		back.target, back.peer = w.peer, w.target
		if !back.connects(t, targetIPv4, 22) {
			t.Error("no connection to the node's port 22")
		}
		if !back.isCut(t, targetIPv4, 23) {
			t.Error("a connection to the node's port 23 came to be")
		}
		clean(t, i)
	})
}

// A node that loses all packets still receives the request to end its disruption.
func TestNodeLevelLeavesTheKubeletItsConnection(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		w.injection.Level, w.injection.Target.Containers = v1beta1.LevelNode, nil
		w.pretend(t, nil, nil)
		const port = 6443
		var listener net.Listener
		must(t, target.Do(w.peer, func() (err error) {
			listener, err = net.Listen("tcp", net.JoinHostPort(hostIPv4, strconv.Itoa(port)))
			return err
		}))
		var watch net.Conn
		must(t, target.Do(w.target, func() (err error) {
			watch, err = net.Dial("tcp", listener.Addr().String())
			return err
		}))
		defer watch.Close()
		server, err := listener.Accept()
		must(t, err)
		must(t, listener.Close())
		defer server.Close()
		kubelet := filepath.Join(w.proc, "4242")
		must(t, os.MkdirAll(filepath.Join(kubelet, "ns"), 0o755))
		must(t, os.WriteFile(filepath.Join(kubelet, "comm"), []byte("kubelet\n"), 0o644))
		must(t, os.Symlink(w.target, filepath.Join(kubelet, "ns/net")))
		must(t, os.Symlink(fmt.Sprintf("/proc/%d/fd", os.Getpid()), filepath.Join(kubelet, "fd")))

		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, DisableDefaultAllowedHosts: true,
			Hosts: []v1beta1.NetworkHost{{}, {Flow: "ingress"}, {Host: hostIPv4, Port: port}}}, try)
		sends := func(from, to net.Conn, word string) {
			t.Helper()
			must(t, errors.Join(from.SetDeadline(time.Now().Add(30*time.Second)), to.SetDeadline(time.Now().Add(30*time.Second))))
			_, err := from.Write([]byte(word))
			must(t, err)
			received := make([]byte, len(word))
			if _, err := io.ReadFull(to, received); err != nil || string(received) != word {
				t.Errorf("received %q, %v, want %q", received, err, word)
			}
		}
		sends(watch, server, "list pods")
		sends(server, watch, "one is to end")
		if !w.connects(t, hostIPv4, port) {
			t.Error("the kubelet cannot connect anew")
		}
		if !w.isCut(t, hostIPv4, port+1) {
			t.Error("another port of the control plane's host is not cut off")
		}
		clean(t, i)
	})
}

// lostFrom sends datagrams to the host from a process in a cgroup.
func lostFrom(t *testing.T, w *world, cgroup string, count int) int {
	t.Helper()
	must(t, os.MkdirAll(cgroup, 0o755))
	t.Cleanup(func() { os.Remove(cgroup) })
	dir, err := os.Open(cgroup)
	must(t, err)
	defer dir.Close()
	traffic := w.out(hostIPv4, 7000, count)
	r := receive(t, traffic, func([]byte) {})
	defer r.close()
	sender := exec.Command("/proc/self/exe")
	sender.Env = append(os.Environ(), "NETWORK_TEST_SEND="+hostIPv4+":7000")
	sender.Stderr = os.Stderr
	sender.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	must(t, target.Do(w.target, sender.Run))
	got := count - r.total(t, count)
	testcontainer.Eventually(t, "the sender has left its cgroup", func() error {
		data, err := os.ReadFile(filepath.Join(cgroup, "cgroup.procs"))
		if err == nil && strings.Contains("\n"+string(data), "\n"+strconv.Itoa(sender.Process.Pid)+"\n") {
			return errors.New("it is still there")
		}
		return nil
	})
	return got
}

// hasControllers is true if a cgroup enables controllers for its children.
func hasControllers(cgroup string) bool {
	given, _ := os.ReadFile(filepath.Join(cgroup, "cgroup.subtree_control"))
	return strings.TrimSpace(string(given)) != ""
}

func unifiedRoot(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if err := classifier.CheckCgroup(dir); err != nil && strings.Contains(err.Error(), "is the node's root") {
			return dir
		}
	}
	testneeds.Missing(t, testneeds.UnifiedCgroups)
	return ""
}
