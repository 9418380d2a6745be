//go:build linux

package target

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Renewed returns the target with the containers that its pod has now: a container that has
// ended is replaced by the one of the same name that was started after it. It returns
// ErrGone, wrapped, while there is none.
//
// Containers of t.Away that came back are included; the others stay away.
//
// Renewed reads only the node: a restarted container has its cgroup beside that of its
// predecessor, in the pod's. The kubelet has mounted a file into it whose path contains its
// name.
func (t *Target) Renewed() (*Target, error) { return t.renewed(false) }

// RenewedPartly is Renewed, but a container without a replacement becomes away: it may have
// finished for good. It returns ErrGone, wrapped, if all are away.
func (t *Target) RenewedPartly() (*Target, error) { return t.renewed(true) }

func (t *Target) renewed(partly bool) (*Target, error) {
	if len(t.Injection.OnInit) > 0 {
		return t.renewedOnInit()
	}
	now := &Target{Injection: t.Injection, Proc: t.Proc}
	now.Injection.Target.Containers = nil
	var gone error
	for i, container := range slices.Concat(t.Containers, t.Away) {
		err := container.Check()
		next := container
		if errors.Is(err, ErrGone) {
			next, err = container.successor(t.ProcDir())
		}
		if errors.Is(err, ErrGone) && (partly || i >= len(t.Containers)) {
			now.Away, gone = append(now.Away, container), err
			continue
		}
		if err != nil {
			return nil, err
		}
		container = next
		now.Containers = append(now.Containers, container)
		now.Injection.Target.Containers = append(now.Injection.Target.Containers,
			v1beta1.InjectionContainer{Name: container.Name, ID: container.ID})
	}
	if len(now.Containers) == 0 && gone != nil {
		return nil, gone
	}
	return now, nil
}

// SameNetns is true if every renewed container is in a network namespace that t was in: a
// pod keeps it when its containers restart.
func (t *Target) SameNetns(renewed *Target) bool {
	return !slices.ContainsFunc(renewed.Containers, func(now Container) bool {
		return !slices.ContainsFunc(t.Containers, func(was Container) bool { return was.Netns.NetnsID == now.Netns.NetnsID })
	})
}

// CameBack is true if a container replaces a missing one.
func (t *Target) CameBack() bool {
	return slices.ContainsFunc(t.Away, func(c Container) bool {
		_, err := c.successor(t.ProcDir())
		return err == nil
	})
}

// successor finds the container that replaces one that has ended. A container that was
// created and is not started yet does not count.
func (c Container) successor(proc string) (Container, error) {
	if c.pod == "" {
		return Container{}, fmt.Errorf("container %s (%s) has ended, and the cgroup of its pod is not known", c.Name, c.ID)
	}
	pids, err := listPIDs(proc)
	if err != nil {
		return Container{}, err
	}
	for _, pid := range pids {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		// A process that cannot be read has ended, or is protected.
		memberships, _ := ReadProc(filepath.Join(dir, "cgroup"))
		id := memberOf(string(memberships), c.pod)
		if id == "" || id == c.ID {
			continue
		}
		if mounts, _ := ReadProc(filepath.Join(dir, "mountinfo")); nameInMounts(string(mounts)) != c.Name {
			continue
		}
		next, err := loadContainer(proc, v1beta1.InjectionContainer{Name: c.Name, ID: id})
		if err == nil {
			// Until the runtime starts a container, it may still see the node's files.
			var started bool
			if started, err = next.Started(); started {
				return next, nil
			}
		}
		if err != nil && !errors.Is(err, ErrGone) {
			return Container{}, err
		}
	}
	return Container{}, fmt.Errorf("container %s (%s) has ended, and none came in its place: %w", c.Name, c.ID, ErrGone)
}

// startedAgain returns the container that replaces one that had ended before the injector
// first searched for it. With ErrGone, wrapped, it returns what is known of the ended one.
func startedAgain(proc string, ended v1beta1.InjectionContainer, pod types.UID) (Container, error) {
	before := Container{Name: ended.Name, ID: ended.ID, proc: proc}
	pids, err := listPIDs(proc)
	if err != nil {
		return Container{}, err
	}
	for _, pid := range pids {
		memberships, _ := ReadProc(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
		if before.pod = cgroupOfPod(string(memberships), pod); before.pod != "" {
			break
		}
	}
	if before.pod == "" {
		return before, ErrGone
	}
	next, err := before.successor(proc)
	if errors.Is(err, ErrGone) {
		return before, err
	}
	return next, err
}

// cgroupOfPod returns the name of the pod's cgroup, if a /proc/<pid>/cgroup file belongs to
// a process in it.
func cgroupOfPod(cgroupFile string, pod types.UID) string {
	for segment := range strings.SplitSeq(strings.ReplaceAll(cgroupFile, "\n", "/"), "/") {
		if found := podCgroup.FindStringSubmatch(segment); found != nil && strings.ReplaceAll(found[1], "_", "-") == string(pod) {
			return segment
		}
	}
	return ""
}

// PodCgroups lists the names of the cgroups in those of the target's pods, sorted. A new
// one appears when a container of the pod starts, and maybe at other times. Cgroups that
// cannot be read are missing.
func (t *Target) PodCgroups() []string {
	var names []string
	for _, container := range t.Containers {
		entries, _ := os.ReadDir(container.Cgroups.podDir(container.ID))
		for _, entry := range entries {
			if entry.IsDir() {
				names = append(names, entry.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// podDir returns the first visible directory of the cgroup that holds those of the pod's
// containers; empty for none.
func (c Cgroups) podDir(id string) string {
	for _, dir := range append(slices.Sorted(maps.Values(c.V1)), c.Unified) {
		// The container's own may have others below it.
		for ; mentions(dir, id); dir = filepath.Dir(dir) {
			if above := filepath.Dir(dir); !mentions(above, id) {
				return above
			}
		}
	}
	return ""
}

var alphanumeric = regexp.MustCompile(`[0-9A-Za-z]+`)

// memberOf returns the ID of the container below the pod's cgroup from a /proc/<pid>/cgroup
// file; empty for a process elsewhere. Runtimes write "<id>", "cri-containerd-<id>.scope"
// and similar names: the ID is the longest alphanumeric part.
func memberOf(cgroupFile, pod string) string {
	_, below, found := strings.Cut(cgroupFile, "/"+pod+"/")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(below, "\n")
	name, _, _ = strings.Cut(name, "/")
	longest := ""
	for _, word := range alphanumeric.FindAllString(name, -1) {
		if len(word) > len(longest) {
			longest = word
		}
	}
	return longest
}

// kubeletMount matches the file that the kubelet makes for the termination message of each
// container: <kubelet's directory>/pods/<UID>/containers/<name>/<number>.
var kubeletMount = regexp.MustCompile(`/pods/[^/]+/containers/([^/]+)/[0-9a-f]+$`)

// nameInMounts returns the name of the container from its mountinfo file; empty for a
// process outside the kubelet's containers.
func nameInMounts(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if match := kubeletMount.FindStringSubmatch(fields[3]); match != nil {
			return match[1]
		}
	}
	return ""
}
