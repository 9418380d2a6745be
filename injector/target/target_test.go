//go:build linux

package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/testcontainer"
)

func injectionOf(containers ...*testcontainer.Container) v1beta1.Injection {
	injection := v1beta1.Injection{Level: v1beta1.LevelPod}
	for i, c := range containers {
		injection.Target.Containers = append(injection.Target.Containers,
			v1beta1.InjectionContainer{Name: "c" + strconv.Itoa(i), ID: c.ID})
	}
	return injection
}

func load(t *testing.T, containers ...*testcontainer.Container) *Target {
	t.Helper()
	loaded, err := Load(t.Context(), injectionOf(containers...), "")
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	return loaded
}

// rule 53
func TestPodLevelLoadsTheContainers(t *testing.T) {
	first := testcontainer.Start(t, testcontainer.Sleeps...)
	second := testcontainer.Start(t, testcontainer.Sleeps...)
	loaded := load(t, first, second)

	if got := []int{loaded.Containers[0].PID, loaded.Containers[1].PID}; !cmp.Equal(got, []int{first.PID, second.PID}) {
		t.Errorf("PIDs = %v, want %d and %d", got, first.PID, second.PID)
	}
	for i, made := range []*testcontainer.Container{first, second} {
		got := loaded.Containers[i]
		if err := got.Check(); err != nil {
			t.Errorf("Check: %v", err)
		}
		var known []string
		for _, dir := range got.Cgroups.V1 {
			known = append(known, dir)
		}
		known = append(known, got.Cgroups.Unified)
		for _, dir := range made.Cgroups {
			if !slices.Contains(known, dir) {
				t.Errorf("cgroups = %+v, want %s among them", got.Cgroups, dir)
			}
		}
	}
	netnses, err := loaded.Netnses()
	if err != nil || len(netnses) != 2 {
		t.Errorf("Netnses() = %v, %v, want the two namespaces", netnses, err)
	}
}

// rule 53
func TestNodeLevelLoadsNoContainer(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	injection := injectionOf(made)
	injection.Level = v1beta1.LevelNode

	// Here this test's process is the node's first one.
	loaded, err := Load(t.Context(), injection, procDir(t, map[int]int{1: os.Getpid()}))
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if len(loaded.Containers) != 0 {
		t.Errorf("Containers = %v, want none", loaded.Containers)
	}
	want, err := netnsOf("/proc", os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	netnses, err := loaded.Netnses()
	if err != nil || len(netnses) != 1 || netnses[0].NetnsID != want.NetnsID {
		t.Errorf("Netnses() = %v, %v, want the node's %v", netnses, err, want)
	}
	if got := loaded.NodeCgroups(); got.Problem != "" {
		t.Errorf("NodeCgroups() = %+v, want no problem", got)
	}
}

func TestUnknownContainerIsGone(t *testing.T) {
	injection := v1beta1.Injection{Level: v1beta1.LevelPod}
	injection.Target.Containers = []v1beta1.InjectionContainer{{Name: "app", ID: "there-is-no-such-container"}}
	if _, err := Load(t.Context(), injection, ""); !errors.Is(err, ErrGone) {
		t.Errorf("Load() = %v, want ErrGone", err)
	}
}

func TestContainerThatEndedIsGone(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	loaded := load(t, made)
	made.Stop(t)

	if err := loaded.Containers[0].Check(); !errors.Is(err, ErrGone) {
		t.Errorf("Check() = %v, want ErrGone", err)
	}
	if _, err := loaded.Containers[0].Pidfd(); !errors.Is(err, ErrGone) {
		t.Errorf("Pidfd() = %v, want ErrGone", err)
	}
}

func TestProcessNumberUsedAgainIsGone(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	container := load(t, made).Containers[0]
	container.StartTime-- // as if another process had had the number before

	if err := container.Check(); !errors.Is(err, ErrGone) {
		t.Errorf("Check() = %v, want ErrGone", err)
	}
	if _, err := container.Pidfd(); !errors.Is(err, ErrGone) {
		t.Errorf("Pidfd() = %v, want ErrGone", err)
	}
}

func TestPidfdReportsTheEndOfTheProcess(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	file, err := load(t, made).Containers[0].Pidfd()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := AwaitEnd(short, file); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("AwaitEnd() of a living process = %v, want the end of the context", err)
	}
	if err := Signal(file, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := AwaitEnd(t.Context(), file); err != nil {
			t.Errorf("AwaitEnd() = %v", err)
		}
	}
	made.AwaitEnd(t)
	if err := Signal(file, unix.SIGKILL); !errors.Is(err, ErrGone) {
		t.Errorf("Signal() to an ended process = %v, want ErrGone", err)
	}
}

func TestGone(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	loaded := load(t, made)
	if gone, err := loaded.Gone(); gone || err != nil {
		t.Errorf("Gone() of a running container = %t, %v", gone, err)
	}
	made.Kill(t)
	if gone, err := loaded.Gone(); gone || err != nil {
		t.Errorf("Gone() while the cgroups are there = %t, %v", gone, err)
	}
	made.Stop(t)
	if gone, err := loaded.Gone(); !gone || err != nil {
		t.Errorf("Gone() without process, namespace and cgroups = %t, %v", gone, err)
	}
	loaded.Injection.Level = v1beta1.LevelNode
	if gone, err := loaded.Gone(); gone || err != nil {
		t.Errorf("Gone() of a node = %t, %v", gone, err)
	}
}

// A pressure process in the container's cgroup is not the container.
func TestLaterProcessInTheCgroupIsNotTheFirst(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	later := exec.Command("sleep", "1000")
	if err := later.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { later.Process.Kill(); later.Wait() })
	for _, dir := range made.Cgroups {
		procs := filepath.Join(dir, "cgroup.procs")
		if err := os.WriteFile(procs, []byte(strconv.Itoa(later.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := load(t, made).Containers[0].PID; got != made.PID {
		t.Errorf("PID = %d, want %d", got, made.PID)
	}
}

func TestRecover(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	before := load(t, made)

	// A second process of the pod, which keeps the network namespace alive.
	var other *exec.Cmd
	err := Do(before.Containers[0].Netns.Path, func() error {
		other = exec.Command("sleep", "1000")
		return other.Start()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })

	again, err := Recover(before.Injection, before.Containers, "")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Containers, again.Containers, cmp.AllowUnexported(Container{})); diff != "" {
		t.Errorf("the container lives, yet recovering changed it (-before +after):\n%s", diff)
	}

	made.Stop(t)
	// The process that injected sees the way through the other one too: else it
	// would take a pod whose container was started again for gone.
	netnses, err := before.Netnses()
	if err != nil || len(netnses) != 1 || netnses[0].NetnsID != before.Containers[0].Netns.NetnsID || netnses[0].Path == before.Containers[0].Netns.Path {
		t.Errorf("Netnses() = %v, %v, want the pod's by another path than %v", netnses, err, before.Containers[0].Netns)
	}
	again, err = Recover(before.Injection, before.Containers, "")
	if err != nil {
		t.Fatal(err)
	}
	netnses, err = again.Netnses()
	if err != nil || len(netnses) != 1 || netnses[0].NetnsID != before.Containers[0].Netns.NetnsID {
		t.Errorf("Netnses() = %v, %v, want the pod's %v", netnses, err, before.Containers[0].Netns)
	}
	if want := "/proc/" + strconv.Itoa(other.Process.Pid) + "/ns/net"; err == nil && netnses[0].Path != want {
		t.Errorf("path = %s, want %s, through the process that lives", netnses[0].Path, want)
	}
	if err := again.Containers[0].Check(); !errors.Is(err, ErrGone) {
		t.Errorf("Check() = %v, want ErrGone", err)
	}

	other.Process.Kill()
	other.Wait()
	again, err = Recover(before.Injection, before.Containers, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Netnses(); !errors.Is(err, ErrGone) {
		t.Errorf("Netnses() = %v, want ErrGone: nobody is in it", err)
	}
}

// The kernel gives the number of a network namespace that is gone to the next one. A
// stranger's namespace must not be taken for that of a target which is gone.
func TestANetworkNamespaceWithAnOldNumberIsAStrangers(t *testing.T) {
	ours := testcontainer.Start(t, testcontainer.Sleeps...)
	theirs := testcontainer.Start(t, testcontainer.Sleeps...)
	before, stranger := load(t, ours), load(t, theirs).Containers[0].Netns
	if cookie := before.Containers[0].Netns.Cookie; cookie == 0 || cookie == stranger.Cookie {
		t.Fatalf("cookies %d and %d, want one of each namespace: Linux has them since 5.14", cookie, stranger.Cookie)
	}
	ours.Stop(t)
	before.Containers[0].Netns.NetnsID = stranger.NetnsID
	for name, path := range map[string]string{"by the same path": stranger.Path, "by another": "/proc/0/ns/net"} {
		before.Containers[0].Netns.Path = path
		again, err := Recover(before.Injection, before.Containers, "")
		if err != nil {
			t.Fatal(err)
		}
		if netnses, err := again.Netnses(); !errors.Is(err, ErrGone) {
			t.Errorf("%s: Netnses() = %v, %v, want ErrGone: it is another pod's", name, netnses, err)
		}
	}
	// A journal of an older release has no cookie.
	before.Containers[0].Netns.Cookie = 0
	if netnses, err := before.Netnses(); err != nil || len(netnses) != 1 || netnses[0].NetnsID != stranger.NetnsID {
		t.Errorf("without a cookie: Netnses() = %v, %v, want what has the number", netnses, err)
	}
}

func TestDoEntersAndLeaksNothing(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	netns := load(t, made).Containers[0].Netns
	own, err := statNetns("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		var inside Netns
		err := Do(netns.Path, func() (err error) {
			if unix.Gettid() == unix.Getpid() {
				t.Error("f runs on the main thread, whose namespace /proc/self shows")
			}
			inside, err = statNetns("/proc/thread-self/ns/net")
			return err
		})
		if err != nil || inside.NetnsID != netns.NetnsID {
			t.Fatalf("inside Do: namespace %v, %v, want %v", inside.NetnsID, err, netns.NetnsID)
		}
		failure := errors.New("f failed")
		if err := Do(netns.Path, func() error { return failure }); !errors.Is(err, failure) {
			t.Fatalf("Do() = %v, want the error of f", err)
		}
	}
	threads, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads: %v, %v", threads, err)
	}
	testcontainer.Eventually(t, "all threads are in the test's own namespace", func() error {
		for _, thread := range threads {
			got, err := statNetns(filepath.Join(thread, "ns/net"))
			if err == nil && got.NetnsID != own.NetnsID {
				return errors.New(thread + " is still in the container's namespace")
			}
		}
		return nil
	})
}

func TestDoOfMissingNamespaceIsGone(t *testing.T) {
	err := Do("/proc/0/ns/net", func() error { t.Error("f was called"); return nil })
	if !errors.Is(err, ErrGone) {
		t.Errorf("Do() = %v, want ErrGone", err)
	}
}

func TestEachNetnsFindsEachOnce(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	want := load(t, made).Containers[0].Netns
	count := map[NetnsID]int{}
	err := EachNetns(t.Context(), "", func(netns Netns) error {
		count[netns.NetnsID]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count[want.NetnsID] != 1 {
		t.Errorf("the container's namespace was found %d times, want once", count[want.NetnsID])
	}
}

// Processes end as they like: no look fails for it, and none is passed over.
func TestEachNetnsHoldsWhatItShows(t *testing.T) {
	ends, stays := testcontainer.Start(t, testcontainer.Sleeps...), testcontainer.Start(t, testcontainer.Sleeps...)
	proc := procDir(t, map[int]int{2: ends.PID, 3: stays.PID, 4: stays.PID})
	var looked int
	err := EachNetns(t.Context(), proc, func(netns Netns) error {
		if looked++; looked == 1 {
			ends.Kill(t)
		}
		return Do(netns.Path, func() error {
			if inside, err := statNetns("/proc/thread-self/ns/net"); err != nil || inside.NetnsID != netns.NetnsID {
				return fmt.Errorf("inside is %v, %v, want %v", inside, err, netns)
			}
			return nil
		})
	})
	if err != nil || looked != 2 {
		t.Errorf("EachNetns = %v after %d namespaces, want no error and 2", err, looked)
	}
	errBroken := errors.New("broken")
	looked = 0
	proc = procDir(t, map[int]int{2: os.Getpid(), 3: stays.PID})
	err = EachNetns(t.Context(), proc, func(Netns) error { looked++; return errBroken })
	if !errors.Is(err, errBroken) || looked != 2 {
		t.Errorf("EachNetns = %v after %d namespaces, want what went wrong, and both", err, looked)
	}
}

func TestOpenNetnsOfNoneIsGone(t *testing.T) {
	for _, path := range []string{"/proc/0/ns/net", filepath.Join(t.TempDir(), "missing"), "/proc/self/status"} {
		if _, err := OpenNetns(path); !errors.Is(err, ErrGone) {
			t.Errorf("OpenNetns(%s) = %v, want ErrGone", path, err)
		}
	}
}

// A chaos pod may have a cgroup namespace of its own: the paths of others then
// begin with "/..", and only the node's namespace knows what is in between.
func TestCgroupsSeenFromAPrivateNamespace(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	want := load(t, made).Containers[0].Cgroups

	got := fromPrivateNamespace(t, procDir(t, map[int]int{1: os.Getpid(), made.PID: made.PID}), made.PID)
	if !strings.Contains(got.Raw, ":/../") {
		t.Fatalf("the test made no private view:\n%s", got.Raw)
	}
	if diff := cmp.Diff(want, got.Cgroups); diff != "" {
		t.Errorf("cgroups (-from the node's namespace +from a private one):\n%s", diff)
	}

	got = fromPrivateNamespace(t, procDir(t, map[int]int{made.PID: made.PID}), made.PID)
	if !strings.Contains(got.Cgroups.Problem, "cgroup namespace") {
		t.Errorf("without a way into the node's namespace: %+v, want a problem that says so", got.Cgroups)
	}
}

// privateView is what a process in a cgroup namespace of its own reports.
type privateView struct {
	Raw     string
	Cgroups Cgroups
}

// fromPrivateNamespace runs this test binary twice: once to enter a cgroup, and
// from there once more in a new cgroup namespace, whose root that cgroup is.
func fromPrivateNamespace(t *testing.T, proc string, pid int) privateView {
	t.Helper()
	private := testcontainer.Start(t, testcontainer.Sleeps...)
	command := exec.Command("/proc/self/exe", proc, strconv.Itoa(pid), strings.Join(private.Cgroups, ":"))
	command.Env = append(os.Environ(), "TARGET_TEST=join")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("run from a private namespace: %v", err)
	}
	var view privateView
	if err := json.Unmarshal(output, &view); err != nil {
		t.Fatalf("%v in %q", err, output)
	}
	return view
}

func TestMain(m *testing.M) {
	switch os.Getenv("TARGET_TEST") {
	case "join":
		for _, dir := range strings.Split(os.Args[3], ":") {
			if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
				log.Fatal(err)
			}
		}
		command := exec.Command("/proc/self/exe", os.Args[1:]...)
		command.Env = append(os.Environ(), "TARGET_TEST=report")
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
		if err := command.Run(); err != nil {
			log.Fatal(err)
		}
	case "report":
		pid, _ := strconv.Atoi(os.Args[2])
		raw, _ := os.ReadFile(filepath.Join(os.Args[1], os.Args[2], "cgroup"))
		json.NewEncoder(os.Stdout).Encode(privateView{Raw: string(raw), Cgroups: cgroupsOf(os.Args[1], pid)})
	default:
		os.Exit(m.Run())
	}
}

// procDir makes a directory that shows chosen processes under chosen numbers.
func procDir(t *testing.T, processes map[int]int) string {
	t.Helper()
	dir := t.TempDir()
	for name, pid := range processes {
		if err := os.Symlink(fmt.Sprintf("/proc/%d", pid), filepath.Join(dir, strconv.Itoa(name))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
