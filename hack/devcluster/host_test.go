package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/toolchain"
)

// TestUpAndDownLeaveNothing starts and ends a cluster of its own, kills its
// supervisor in between, and compares the host before and after.
func TestUpAndDownLeaveNothing(t *testing.T) {
	h := newHarness(t)
	before := h.host()
	for round := range 2 {
		h.run("up", "--nodes", "1", "--api-port", h.ports[0], "--temporal-port", h.ports[1], "--ui-port", h.ports[2])
		if h.host() == before {
			t.Fatal("the comparison does not even see a running cluster")
		}
		h.run("up") // again, while it runs
		h.run("status")
		if round == 0 {
			h.killSupervisor()
			h.run("up")
			h.run("up", "--nodes", "2") // waits until a second node is ready beside the first
		}
		h.run("down")
		h.run("down")
		h.same(before)
	}
	h.run("down", "--wipe")
	left, err := os.ReadDir(h.dir)
	if err != nil || len(left) != 1 {
		t.Errorf("down --wipe left %v, %v, want only the lock", left, err)
	}
}

func TestPortTaken(t *testing.T) {
	h := newHarness(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	out, err := h.command("up", "--api-port", port, "--temporal-port", h.ports[1], "--ui-port", h.ports[2]).CombinedOutput()
	if code := exitCode(err); code != 1 || !strings.Contains(string(out), port+" is taken") || !strings.Contains(string(out), "--api-port") {
		t.Errorf("up with a taken port = exit code %d and %q, want 1 and the way out", code, out)
	}
}

// harness is a cluster in a directory of the test.
type harness struct {
	t            *testing.T
	program, dir string
	ports        []string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	switch {
	case os.Geteuid() != 0:
		t.Skip("needs root for namespaces and cgroups")
	case testing.Short():
		t.Skip("takes half a minute; left out by -short")
	case !built(t):
		t.Skip("the programs are not built; run devcluster build first")
	}
	h := &harness{t: t, dir: t.TempDir(), program: t.TempDir() + "/devcluster"}
	if out, err := exec.Command("go", "build", "-o", h.program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	for range 3 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		h.ports = append(h.ports, strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	}
	t.Cleanup(func() { _ = h.command("down").Run() })
	return h
}

func built(t *testing.T) bool {
	t.Helper()
	cache, err := toolchain.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range toolchain.Tools() {
		key, _, err := toolchain.Key(os.DirFS(".."), tool)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(cache, key)); err != nil {
			return false
		}
	}
	return true
}

func (h *harness) command(args ...string) *exec.Cmd {
	return exec.Command(h.program, append(args, "--dir", h.dir)...)
}

// run runs a command that must succeed within what a warm start may take.
func (h *harness) run(args ...string) {
	h.t.Helper()
	began := time.Now()
	out, err := h.command(args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("devcluster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	h.t.Logf("devcluster %s took %.1f s", args[0], time.Since(began).Seconds())
}

// killSupervisor kills the supervisor with SIGKILL and waits until the kernel has
// ended all that it started.
func (h *harness) killSupervisor() {
	h.t.Helper()
	c, err := cluster.Load(h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := syscall.Kill(c.Supervisor(), syscall.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
	began := time.Now()
	h.until("the supervisor's processes are gone", func() string { return strings.Join(h.processes(), "\n") }, "")
	h.t.Logf("after kill -9 all processes were gone in %.1f s", time.Since(began).Seconds())
}

// same polls until the host is as before: the kernel removes dead namespaces a
// moment later.
func (h *harness) same(before string) {
	h.t.Helper()
	h.until("the host is as before", h.host, before)
}

func (h *harness) until(what string, ask func() string, want string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	for {
		got := ask()
		if got == want {
			return
		}
		select {
		case <-ctx.Done():
			h.t.Fatalf("not so after 30 s: %s. Got\n%s\nwant\n%s", what, got, want)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// host describes every part of the host in which a cluster could leave something,
// without the parts of other clusters of this program.
func (h *harness) host() string {
	var out bytes.Buffer
	for _, command := range []string{
		"ip -o -4 addr", "ip -o link", "ip route show table all", "ip netns list", "ip rule",
		"iptables-save", "ip6tables-save", "nft list ruleset", "sysctl net.ipv4.ip_forward vm.overcommit_memory kernel.panic",
	} {
		fields := strings.Fields(command)
		answer, _ := exec.Command(fields[0], fields[1:]...).Output() // a missing program gives the same answer twice
		fmt.Fprintf(&out, "== %s\n%s", command, h.own(string(answer)))
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		h.t.Fatal(err)
	}
	fmt.Fprintf(&out, "== mounts\n%s", h.own(string(mounts)))
	groups, err := filepath.Glob("/sys/fs/cgroup/*/" + h.plan().Name() + "*")
	if err != nil {
		h.t.Fatal(err)
	}
	fmt.Fprintf(&out, "== cgroups %v\n== processes %v\n", groups, h.processes())
	return out.String()
}

// plan is only for the names in it, which the directory decides.
func (h *harness) plan() *cluster.Cluster {
	c, err := cluster.New(h.dir, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// counters change by themselves: comments with the time, packet counts, and
// numbers of network devices.
var counters = regexp.MustCompile(`(?m)^#.*\n|\[\d+:\d+\]|counter packets \d+ bytes \d+|valid_lft.*|^\d+: `)

// own drops what differs by itself and what belongs to other clusters.
func (h *harness) own(text string) string {
	link := h.plan().HostLink()
	text = counters.ReplaceAllString(text, "")
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "sq-") || strings.Contains(line, link) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// processes lists those that have the test's directory in their command line or
// are in one of its cgroups.
func (h *harness) processes() []string {
	found := []string{}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, entry := range entries {
		command, _ := os.ReadFile(entry + "/cmdline") // gone meanwhile
		groups, _ := os.ReadFile(entry + "/cgroup")
		ours := bytes.Contains(command, []byte(h.dir)) && !bytes.Contains(command, []byte("--dir"))
		if ours || bytes.Contains(groups, []byte(h.plan().Name())) {
			found = append(found, filepath.Base(entry)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	slices.Sort(found)
	return found
}

func exitCode(err error) int {
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}
