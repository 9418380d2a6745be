//go:build linux

package testcontainer

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/testneeds"
)

// Group is the cgroups of a container that has no namespaces, which costs less than a
// Container. The test puts processes into them.
type Group struct {
	ID string
	// Dirs are its directories by controller; the version 2 directory has the key "".
	Dirs map[string]string
}

// NewGroup makes a group with these controllers, at the top of their hierarchies. The test
// fails if a process is still in a cgroup at its end.
func NewGroup(t *testing.T, controllers ...string) *Group {
	t.Helper()
	testneeds.BeRoot(t)
	g := &Group{ID: "squalltest" + rand.Text(), Dirs: map[string]string{}}
	for _, controller := range controllers {
		hierarchy := filepath.Join("/sys/fs/cgroup", controller)
		if _, err := os.Stat(hierarchy); err != nil {
			testneeds.Missing(t, testneeds.Cgroups, controller, ", ", err)
		}
		dir := filepath.Join(hierarchy, g.ID)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		g.Dirs[controller] = dir
		t.Cleanup(func() { RemoveCgroup(t, dir) })
	}
	return g
}

// Add moves a process into the cgroups.
func (g *Group) Add(t *testing.T, pid int) {
	t.Helper()
	for _, dir := range g.Dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// RemoveCgroup removes a cgroup like a runtime: it retries for a while.
func RemoveCgroup(t *testing.T, dir string) {
	t.Helper()
	Eventually(t, "cgroup "+dir+" removed", func() error {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Injection is the document of a chaos pod that disrupts the container with this ID.
func Injection(kind v1beta1.Kind, id string) v1beta1.Injection {
	return v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{Namespace: "shop", Name: "calm", UID: types.UID("disruption-" + id)},
		Kind:       kind,
		Level:      v1beta1.LevelPod,
		Target: v1beta1.InjectionTarget{
			Namespace: "shop", Name: "cart-0", UID: types.UID("pod-" + id), NodeName: "node",
			Containers: []v1beta1.InjectionContainer{{Name: "cart", ID: id}},
		},
	}
}

// Injected starts an injector that prints the line "injected" once it has, and waits for
// that. The injector ends with the test at the latest. It is moved into the cgroups of
// chaosPod, unless that is nil, and then gets a line to read.
func Injected(t *testing.T, injector *exec.Cmd, chaosPod *Group) *exec.Cmd {
	t.Helper()
	injector.Stderr = os.Stderr
	injector.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := injector.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	input, err := injector.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := injector.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = injector.Process.Kill(); _ = injector.Wait() })
	if chaosPod != nil {
		chaosPod.Add(t, injector.Process.Pid)
		if _, err := input.Write([]byte("in\n")); err != nil {
			t.Fatal(err)
		}
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "injected\n" {
		t.Fatalf("the injector printed %q, %v", line, err)
	}
	return injector
}
