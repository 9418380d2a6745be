package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/squall-chaos/squall/hack/cgroup"
)

// logDir is where a machine sees its log directory.
const logDir = "/var/log/squall"

// root is the file system of a machine while it is built: a directory of the host
// that no other process sees. The first error stops all that follows.
type root struct {
	dir  string
	base string
	err  error
}

// buildRoot puts a file system together from a tmpfs, the host's programs and
// the machine's own directories, and makes it the only one there is. The mount
// namespace must be the caller's own.
func (s Spec) buildRoot() error {
	r := &root{dir: s.Root, base: s.Base}
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		return err
	}
	r.propagate("/", syscall.MS_PRIVATE)
	r.mount("tmpfs", "", "tmpfs", 0, "mode=755")
	r.system()
	r.etc(s)
	for _, b := range append(s.Binds, Bind{Source: s.Logs, Target: logDir}) {
		r.bind(b)
	}
	r.kernel()
	r.cgroups(hierarchies)
	for _, f := range s.Files {
		r.file(f.Path, f.Content)
	}
	for _, shield := range s.Shields {
		r.shield(shield)
	}
	r.pivot()
	if r.err != nil {
		return fmt.Errorf("build the file system of %s: %w", s.Name, r.err)
	}
	return nil
}

// system shows the host's programs and libraries, read-only, and the empty
// directories that programs expect.
func (r *root) system() {
	r.bind(Bind{Source: r.base + "/usr", Target: "/usr", ReadOnly: true})
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		target, err := os.Readlink(r.base + "/" + name)
		switch {
		case err == nil:
			r.do(os.Symlink(target, filepath.Join(r.dir, name)))
		case !errors.Is(err, fs.ErrNotExist):
			r.bind(Bind{Source: r.base + "/" + name, Target: "/" + name, ReadOnly: true})
		}
	}
	for _, dir := range []string{"run/lock", "root", "var/lib", "var/log", "var/cache", "opt", "mnt", "home", "srv"} {
		r.mkdir(dir, 0o755)
	}
	r.mkdir("tmp", 0o777|fs.ModeSticky)
	r.mkdir("var/tmp", 0o777|fs.ModeSticky)
	r.do(os.Symlink("/run", filepath.Join(r.dir, "var/run")))
}

// etc is the host's with the machine's changes on top.
func (r *root) etc(s Spec) {
	r.mkdir("etc", 0o755)
	r.mkdir(".etc/upper", 0o755)
	r.mkdir(".etc/work", 0o755)
	layers := fmt.Sprintf("lowerdir=%s/etc,upperdir=%s/.etc/upper,workdir=%s/.etc/work", r.base, r.dir, r.dir)
	r.mount("overlay", "etc", "overlay", 0, layers)
	id := sha256.Sum256([]byte(s.Cgroup))
	r.file("/etc/machine-id", hex.EncodeToString(id[:16])+"\n")
	r.file("/etc/hostname", s.Host+"\n")
	r.file("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 "+s.Host+"\n")
	r.file("/etc/resolv.conf", "")
}

// kernel mounts the views of the kernel that belong to the machine's
// namespaces. The devices are the host's.
func (r *root) kernel() {
	r.mkdir("proc", 0o555)
	r.mkdir("sys", 0o555)
	r.mkdir("dev", 0o755)
	r.mount("proc", "proc", "proc", plain, "")
	r.mount("sysfs", "sys", "sysfs", plain, "")
	r.mount("/dev", "dev", "", syscall.MS_BIND, "")
	r.mkdir("dev/pts", 0o755) // a virtual machine has neither yet
	r.mkdir("dev/shm", 0o755)
	r.mount("devpts", "dev/pts", "devpts", syscall.MS_NOSUID|syscall.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
	r.mount("tmpfs", "dev/shm", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777")
	for dir, kind := range map[string]string{"sys/fs/bpf": "bpf", "sys/kernel/tracing": "tracefs"} {
		// Not every kernel has these, and only eBPF asks for them.
		_ = syscall.Mount(kind, filepath.Join(r.dir, dir), kind, plain, "")
	}
}

// cgroups mounts the hierarchies afresh, so that in the machine's cgroup
// namespace only its own part shows.
func (r *root) cgroups(hierarchies []cgroup.Hierarchy) {
	if !cgroup.OnlyUnified(hierarchies) {
		r.mount("tmpfs", "sys/fs/cgroup", "tmpfs", plain, "mode=755")
	}
	for _, h := range hierarchies {
		if h.Unified {
			r.mkdir(h.Path, 0o755)
			r.mount("cgroup2", h.Path, "cgroup2", plain, "")
			continue
		}
		r.mkdir(h.Path, 0o755)
		r.mount("cgroup", h.Path, "cgroup", plain, h.Options)
		dir := filepath.Base(h.Path)
		for name := range strings.SplitSeq(dir, ",") { // "cpu,cpuacct" has a link for each
			if name != dir {
				r.do(os.Symlink(dir, filepath.Join(r.dir, filepath.Dir(h.Path), name)))
			}
		}
	}
}

// shield hides a kernel setting behind a file with the wanted value.
func (r *root) shield(s Sysctl) {
	target := filepath.Join("proc/sys", s.Name)
	if _, err := os.Stat(filepath.Join(r.dir, target)); err != nil {
		return // not in this kernel
	}
	hidden := filepath.Join("/.shields", s.Name)
	r.file(hidden, s.Value+"\n")
	r.mount(filepath.Join(r.dir, hidden), target, "", syscall.MS_BIND, "")
}

// pivot makes the directory the root and lets go of the host's file systems.
// Mounts are shared afterwards, as pods with mount propagation expect.
func (r *root) pivot() {
	r.mkdir(".host", 0o700)
	if r.err != nil {
		return
	}
	r.do(syscall.PivotRoot(r.dir, filepath.Join(r.dir, ".host")))
	r.do(os.Chdir("/"))
	r.do(syscall.Unmount("/.host", syscall.MNT_DETACH))
	r.do(os.Remove("/.host"))
	r.propagate("/", syscall.MS_SHARED)
}

func (r *root) bind(b Bind) {
	r.mkdir(b.Target, 0o755)
	r.mount(b.Source, b.Target, "", syscall.MS_BIND|syscall.MS_REC, "")
	if b.ReadOnly {
		r.mount("", b.Target, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	}
}

func (r *root) mount(source, target, kind string, flags uintptr, options string) {
	if r.err != nil {
		return
	}
	if err := syscall.Mount(source, filepath.Join(r.dir, target), kind, flags, options); err != nil {
		r.err = fmt.Errorf("mount %s at /%s: %w", source, strings.TrimPrefix(target, "/"), err)
	}
}

func (r *root) propagate(path string, kind uintptr) {
	if r.err == nil {
		r.err = syscall.Mount("", path, "", syscall.MS_REC|kind, "")
	}
}

func (r *root) mkdir(path string, mode fs.FileMode) {
	if r.err != nil {
		return
	}
	dir := filepath.Join(r.dir, path)
	r.do(os.MkdirAll(dir, mode))
	if mode&fs.ModeSticky != 0 {
		r.do(os.Chmod(dir, mode)) // the umask took bits away
	}
}

// file writes a file, in place of whatever the path was before.
func (r *root) file(path, content string) {
	r.mkdir(filepath.Dir(path), 0o755)
	if r.err != nil {
		return
	}
	full := filepath.Join(r.dir, path)
	if err := os.Remove(full); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.err = err
		return
	}
	r.do(os.WriteFile(full, []byte(content), 0o644))
}

func (r *root) do(err error) {
	if r.err == nil {
		r.err = err
	}
}
