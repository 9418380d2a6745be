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

// Sandbox is what the pod's sandbox is called among a target's containers: the
// process that container runtimes keep in a pod's namespaces from before its first
// container starts until after its last has ended. No container has such a name.
const Sandbox = "(sandbox)"

// Waiting is the container that holds the pod back. It returns ErrGone, wrapped,
// when the pod does not wait any more.
func (t *Target) Waiting() (Container, error) {
	for _, container := range t.Containers {
		if container.Name == v1beta1.OnInitContainer {
			return container, container.Check()
		}
	}
	return Container{}, fmt.Errorf("container %s: %w", v1beta1.OnInitContainer, ErrGone)
}

// loadSandbox adds the sandbox to a pod that waits: it stays when the container
// ends that holds the pod back, which is all that runs yet. Some runtimes have
// none and keep the namespace by a mount.
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

// sandboxBeside finds the sandbox of the pod that a container is in: it is in the
// pod's cgroup and network namespace, and the kubelet mounts nothing into it. It
// returns ErrGone, wrapped, if there is none.
func sandboxBeside(proc string, c Container) (Container, error) {
	pids, err := listPIDs(proc)
	if err != nil {
		return Container{}, err
	}
	for _, pid := range pids {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		// What cannot be read has ended, or nobody may look at it.
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

// podCgroup is the name of a pod's cgroup, "pod<UID>" or "kubepods-pod<UID>.slice"
// with _ in place of -. A static pod has a hash in place of the UID.
var podCgroup = regexp.MustCompile(`(?:^|-)pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$`)

// checkPod refuses a container that the node keeps in the cgroup of another pod. A
// cgroup whose name is no pod's tells nothing.
func (c Container) checkPod(pod types.UID) error {
	found := podCgroup.FindStringSubmatch(c.pod)
	if found == nil || strings.ReplaceAll(found[1], "_", "-") == string(pod) {
		return nil
	}
	return fmt.Errorf("its cgroup is %s, and the pod's UID is %s: the pod's status is wrong, or this is a static pod; disrupt its node", c.pod, pod)
}

// podIn is the name of the cgroup above that of a container, in a
// /proc/<pid>/cgroup file; empty if the file does not tell.
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

// renewedOnInit is Renewed for a pod that waits, or waited. What is disturbed is
// the pod's network namespace: it stays when containers end and start. A pod whose
// sandbox was made anew waits anew.
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
	waiting, err := t.waitsAnew()
	if err != nil {
		return nil, err
	}
	injection := t.Injection
	injection.Target.Containers = []v1beta1.InjectionContainer{{Name: waiting.Name, ID: waiting.ID}}
	return Load(context.Background(), injection, t.Proc)
}

// waitsAnew finds the container that holds the pod back once more.
func (t *Target) waitsAnew() (Container, error) {
	for _, container := range t.Containers {
		if container.Name == v1beta1.OnInitContainer {
			return container.successor(t.ProcDir())
		}
	}
	return Container{}, fmt.Errorf("container %s: %w", v1beta1.OnInitContainer, ErrGone)
}
