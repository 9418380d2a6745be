//go:build linux

package diskfailure

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/mounts"
)

// kernelFilesystems have no disk, and a listener's read of their files could have effects:
// the kernel repeats each open for the listener.
var kernelFilesystems = strings.Fields(`proc sysfs cgroup cgroup2 devpts devtmpfs mqueue debugfs tracefs securityfs
	bpf pstore configfs fusectl binfmt_misc efivarfs nsfs`)

// canFail is true if opens on a mount can fail. Containers have their devices in a tmpfs.
func canFail(m mounts.Mount) bool {
	return !slices.Contains(kernelFilesystems, m.Kind) && m.Point != "/dev"
}

// order finds the prefixes as the kernel names them, and the mounts that may have files of
// such names, as the process pid sees both. It opens nothing and changes nothing.
func (i *Injector) order(p plan, name string, pid int) (order, error) {
	dir := filepath.Join(i.target.ProcDir(), strconv.Itoa(pid))
	o := order{Root: dir + "/root", Namespace: namespaceOf(i.target.ProcDir(), pid), Errno: errnos[p.errno], Percent: p.percent}
	if o.Namespace == "" {
		return order{}, fmt.Errorf("find the mount namespace of process %d: it cannot be looked at", pid)
	}
	root, err := openRoot(o.Root)
	if err != nil {
		return order{}, err
	}
	defer unix.Close(root)
	table, err := mounts.Of(dir)
	if err != nil {
		return order{}, err
	}
	for _, file := range p.paths {
		found, err := resolve(root, file)
		if err == nil {
			err = i.add(&o, file, found, table)
		}
		if err != nil {
			return order{}, fmt.Errorf("path %s: %w", file, err)
		}
		if !found.exists {
			i.note(fmt.Sprintf("%s has no %s now; opens of what is made there fail too", name, file))
		}
	}
	return o, nil
}

// add adds the places of one path to an order.
func (i *Injector) add(o *order, file string, found places, table []mounts.Mount) error {
	if i.target.Injection.Level == v1beta1.LevelNode && slices.Contains(found.prefixes, "/") && strings.Trim(file, "/.") != "" {
		return errors.New("it leads to the node's root, which breaks the whole node: name a path below it")
	}
	wanted := map[string]bool{}
	for _, m := range table {
		if slices.Contains(found.mountIDs, m.ID) {
			if !canFail(m) {
				return fmt.Errorf("it lies on %s, a filesystem of type %s without a disk, on which opens cannot be made to fail", m.Point, m.Kind)
			}
			wanted[m.ID] = true
		}
	}
	if len(wanted) == 0 {
		return errors.New("it lies on no mount that the target sees")
	}
	for _, m := range table {
		switch {
		case !wanted[m.ID] && !below(found.prefixes, m.Point):
		case !canFail(m):
			i.note("opens on " + m.Point + " do not fail: it is a filesystem of the kernel")
		case !slices.Contains(o.Mounts, m.Point):
			o.Mounts, o.Devices = append(o.Mounts, m.Point), append(o.Devices, deviceOf(m))
			o.found = append(o.found, fmt.Sprintf("mount %s at %s, device %s", m.ID, m.Point, m.Device))
		}
	}
	o.Prefixes = append(o.Prefixes, found.prefixes...)
	return nil
}

// deviceOf returns the kernel's number of a mount's device.
func deviceOf(m mounts.Mount) uint32 {
	major, minor, _ := strings.Cut(m.Device, ":")
	number := func(digits string) uint32 { n, _ := strconv.ParseUint(digits, 10, 32); return uint32(n) }
	return deviceNumber(number(major), number(minor))
}

// places are the locations of the files whose paths begin with a prefix.
type places struct {
	prefixes []string // as the kernel names them, links resolved
	mountIDs []string // of the mounts that hold the existing part of the prefix
	exists   bool     // a file has just this path
}

// resolve resolves a prefix below a root. Its last name may be partial, so the directory
// counts. If the whole is a link, its destination counts as well.
func resolve(root int, prefix string) (places, error) {
	dir, rest := path.Split(prefix)
	var found places
	for {
		name, mountID, err := lookUp(root, dir)
		if isAbsent(err) {
			dir = path.Clean(dir)
			rest = path.Base(dir) + "/" + rest
			dir = path.Dir(dir)
			continue
		}
		if err != nil {
			return places{}, err
		}
		found.prefixes = []string{strings.TrimSuffix(name, "/") + "/" + rest}
		found.mountIDs = []string{mountID}
		break
	}
	name, mountID, err := lookUp(root, prefix)
	if isAbsent(err) {
		return found, nil
	}
	if err != nil {
		return places{}, err
	}
	found.exists = true
	if strings.HasSuffix(prefix, "/") {
		name = strings.TrimSuffix(name, "/") + "/"
	}
	if name != found.prefixes[0] {
		found.prefixes = append(found.prefixes, name)
	}
	found.mountIDs = append(found.mountIDs, mountID)
	return found, nil
}

func isAbsent(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) }

// lookUp returns the path of a file without links, and the number of its mount.
func lookUp(root int, file string) (name, mountID string, err error) {
	base, err := nameOf(root)
	if err != nil {
		return "", "", err
	}
	fd, err := openPath(root, file)
	if err != nil {
		return "", "", fmt.Errorf("look up %s in the target: %w", file, err)
	}
	defer unix.Close(fd)
	if name, err = nameOf(fd); err != nil {
		return "", "", err
	}
	if name = within(base, name); name == "" {
		return "", "", errors.New("it leads out of the target's root")
	}
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return "", "", fmt.Errorf("find the mount of %s: %w", file, err)
	}
	return name, mounts.ID(string(info)), nil
}
