//go:build linux

package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Sandbox is the name of the pod's sandbox among a target's containers. Container runtimes
// keep this process in a pod's namespaces from before its first container starts until
// after its last has ended. No container has such a name.
const Sandbox = "(sandbox)"

// Waiting returns the container that holds the pod back. It returns ErrGone, wrapped, when
// the pod does not wait any more.
func (t *Target) Waiting() (Container, error) {
	for _, container := range t.Containers {
		if container.Name == v1beta1.OnInitContainer {
			return container, container.Check()
		}
	}
	return Container{}, fmt.Errorf("container %s: %w", v1beta1.OnInitContainer, ErrGone)
}

// loadSandbox adds the sandbox to a pod that waits. So far only the waiting container runs,
// and the sandbox stays when that one ends. Some runtimes have none and keep the namespace
// by a mount.
func (t *Target) loadSandbox() error {
	if len(t.Injection.OnInit) == 0 {
		return nil
	}
	waiting, err := t.Waiting()
	if err != nil {
		return err
	}
	sandbox, err := sandboxBeside(t.ProcDir(), waiting)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err == nil {
		t.Containers = append(t.Containers, sandbox)
	}
	return err
}

// sandboxBeside finds the sandbox of a container's pod. It is in the pod's cgroup and
// network namespace, and the kubelet mounts nothing into it. It returns ErrGone, wrapped,
// if there is none.
func sandboxBeside(proc string, c Container) (Container, error) {
	pids, err := listPIDs(proc)
	if err != nil {
		return Container{}, err
	}
	for _, pid := range pids {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		// A process that cannot be read has ended, or is protected.
		memberships, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		id := memberOf(string(memberships), c.pod)
		if id == "" || id == c.ID {
			continue
		}
		if netns, err := netnsOf(proc, pid); err != nil || netns.NetnsID != c.Netns.NetnsID {
			continue
		}
		if mounts, _ := os.ReadFile(filepath.Join(dir, "mountinfo")); nameInMounts(string(mounts)) != "" {
			continue
		}
		sandbox, err := loadContainer(proc, v1beta1.InjectionContainer{Name: Sandbox, ID: id})
		if !errors.Is(err, ErrGone) {
			return sandbox, err
		}
	}
	return Container{}, fmt.Errorf("sandbox of the pod of container %s (%s): %w", c.Name, c.ID, ErrGone)
}

// podCgroup matches the name of a pod's cgroup, "pod<UID>" or "kubepods-pod<UID>.slice"
// with _ in place of -. A static pod has a hash in place of the UID.
var podCgroup = regexp.MustCompile(`(?:^|-)pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)

// checkPod refuses a container that the node keeps in the cgroup of another pod. A cgroup
// with another form of name is no reason to refuse.
func (c Container) checkPod(pod types.UID) error {
	found := podCgroup.FindStringSubmatch(c.pod)
	if found == nil || strings.ReplaceAll(found[1], "_", "-") == string(pod) {
		return nil
	}
	return fmt.Errorf("its cgroup is %s, and the pod's UID is %s: the pod's status is wrong, or this is a static pod; disrupt its node", c.pod, pod)
}

// podIn returns the name of the cgroup above that of a container, from a /proc/<pid>/cgroup
// file; empty if the file does not have it.
func podIn(cgroupFile, id string) string {
	for line := range strings.Lines(cgroupFile) {
		segments := strings.Split(strings.TrimSpace(line), "/")
		for i, segment := range segments {
			if i > 1 && mentions(segment, id) {
				return segments[i-1]
			}
		}
	}
	return ""
}

// renewedOnInit is Renewed for a pod that waits, or waited. The injection acts on the pod's
// network namespace, which stays when containers end and start. A pod with a new sandbox
// waits again.
func (t *Target) renewedOnInit() (*Target, error) {
	held := false
	for _, container := range t.Containers {
		if container.Name != Sandbox {
			continue
		}
		held = true
		if err := container.Check(); !errors.Is(err, ErrGone) {
			return t, err
		}
	}
	if !held {
		if _, err := t.Netnses(); !errors.Is(err, ErrGone) {
			return t, err
		}
	}
	waiting, err := t.waitsAgain()
	if err != nil {
		return nil, err
	}
	injection := t.Injection
	injection.Target.Containers = []v1beta1.InjectionContainer{{Name: waiting.Name, ID: waiting.ID}}
	return Load(context.Background(), injection, t.Proc)
}

// waitsAgain finds the new container that holds the pod back.
func (t *Target) waitsAgain() (Container, error) {
	for _, container := range t.Containers {
		if container.Name == v1beta1.OnInitContainer {
			return container.successor(t.ProcDir())
		}
	}
	return Container{}, fmt.Errorf("container %s: %w", v1beta1.OnInitContainer, ErrGone)
}
