package network

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/injector/testcontainer"
	"github.com/squall-chaos/squall/injector/testneeds"
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
			if got := lostFrom(t, w, test.cgroup, 50); got != test.want {
				t.Errorf("%s: %d of 50 lost, want %d", name, got, test.want)
			}
		}
		clean(t, i)
	})
}

// The pod lives in its node's network: everybody else there must not notice.
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
		if back.connects(t, targetIPv4, 23) {
			t.Error("a connection to the node's port 23 came to be")
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
	r := receive(t, traffic)
	defer r.close()
	sender := exec.Command("/proc/self/exe")
	sender.Env = append(os.Environ(), "NETWORK_TEST_SEND="+hostIPv4+":7000")
	sender.Stderr = os.Stderr
	sender.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	must(t, target.Do(w.target, sender.Run))
	got := count - r.total(t)
	testcontainer.Eventually(t, "the sender has left its cgroup", func() error {
		data, err := os.ReadFile(filepath.Join(cgroup, "cgroup.procs"))
		if err == nil && strings.Contains("\n"+string(data), "\n"+strconv.Itoa(sender.Process.Pid)+"\n") {
			return errors.New("it is still there")
		}
		return nil
	})
	return got
}

func unifiedRoot(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := classifier.ReadCgroup(dir); err != nil && strings.Contains(err.Error(), "is the node's root") {
			return dir
		}
	}
	testneeds.Missing(t, testneeds.UnifiedCgroups)
	return ""
}
