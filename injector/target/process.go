//go:build linux

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Check returns nil while the container's first process is the one that was loaded. It
// returns ErrGone, wrapped, once it has ended or another process has its number.
func (c Container) Check() error {
	if c.PID == 0 {
		return fmt.Errorf("container %s (%s): %w", c.Name, c.ID, ErrGone)
	}
	p, err := readProcess(procOrDefault(c.proc), c.PID)
	if err != nil {
		return fmt.Errorf("container %s (%s): %w", c.Name, c.ID, err)
	}
	if p.startTime != c.StartTime || p.ended {
		return fmt.Errorf("container %s (%s), process %d: %w", c.Name, c.ID, c.PID, ErrGone)
	}
	return nil
}

// Status returns one field of the first process's status file, such as "SigCgt", without
// its name and blanks around it.
func (c Container) Status(field string) (string, error) {
	data, err := ReadProc(filepath.Join(procOrDefault(c.proc), strconv.Itoa(c.PID), "status"))
	if err != nil {
		return "", goneIfMissing(err)
	}
	value, found := statusField(string(data), field)
	if !found {
		return "", fmt.Errorf("process %d: no %s in its status", c.PID, field)
	}
	return value, nil
}

// Started is true once the first process is the application. Between creation and start of
// a container it is a part of the runtime, which the application replaces. The kernel marks
// a process that was forked and has executed nothing with PF_FORKNOEXEC
// (include/linux/sched.h).
func (c Container) Started() (bool, error) {
	stat, err := ReadProc(filepath.Join(procOrDefault(c.proc), strconv.Itoa(c.PID), "stat"))
	if err != nil {
		return false, goneIfMissing(err)
	}
	const flags, forkNoExec = 6, 0x40
	fields, err := statFields(string(stat))
	if err != nil {
		return false, err
	}
	set, err := strconv.ParseUint(fields[flags], 10, 64)
	return set&forkNoExec == 0, err
}

// Root is the path to the files that the first process sees.
func (c Container) Root() string {
	return filepath.Join(procOrDefault(c.proc), strconv.Itoa(c.PID), "root")
}

// process has the properties that identify a process.
type process struct {
	pid       int
	startTime uint64
	ended     bool // a zombie: it only waits for its parent
	// depth is how many process namespaces see it. first is true if it is number 1 of the
	// innermost.
	depth int
	first bool
}

func loadContainer(proc string, wanted v1beta1.InjectionContainer) (Container, error) {
	if wanted.ID == "" {
		return Container{}, errors.New("it has no ID")
	}
	p, err := findFirst(proc, wanted.ID)
	if err != nil {
		return Container{}, err
	}
	netns, err := netnsOf(proc, p.pid)
	if err != nil {
		return Container{}, err
	}
	netns.Cookie = cookieOf(netns.Path)
	memberships, err := ReadProc(filepath.Join(proc, strconv.Itoa(p.pid), "cgroup"))
	if err != nil {
		return Container{}, goneIfMissing(err)
	}
	container := Container{
		Name: wanted.Name, ID: wanted.ID, PID: p.pid, StartTime: p.startTime,
		Netns: netns, Cgroups: cgroupsOf(proc, p.pid), proc: proc, pod: podIn(string(memberships), wanted.ID),
	}
	// Everything above was read by process number: it is valid if the number is still ours.
	return container, container.Check()
}

// findFirst finds the first process of the container with this ID. It searches the cgroup
// paths of all processes for the ID.
func findFirst(proc, id string) (process, error) {
	pids, err := listPIDs(proc)
	if err != nil {
		return process{}, err
	}
	var best process
	for _, pid := range pids {
		data, err := ReadProc(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
		if err != nil || !mentions(string(data), id) {
			continue // it ended meanwhile, or is in another container
		}
		p, err := readProcess(proc, pid)
		if err != nil || p.ended {
			continue
		}
		if best.pid == 0 || p.before(best) {
			best = p
		}
	}
	if best.pid == 0 {
		return process{}, ErrGone
	}
	return best, nil
}

// containerDepth is how many process namespaces see a container's processes: the node's and
// its pod's.
const containerDepth = 2

// before is true if p rather than q is the container's first process. Number 1 of the
// container's namespace wins. In a shared process namespace the container has no number 1,
// and the oldest process wins. Processes that joined the cgroup later, such as pressure
// processes, are younger. So is number 1 of a namespace that a process of the container
// made.
func (p process) before(q process) bool {
	pFirst, qFirst := p.first && p.depth == containerDepth, q.first && q.depth == containerDepth
	switch {
	case pFirst != qFirst:
		return pFirst
	case p.startTime != q.startTime:
		return p.startTime < q.startTime
	}
	return p.pid < q.pid
}

// mentions is true if a cgroup path in a /proc/<pid>/cgroup file has id as a whole word:
// runtimes write "<id>", "docker-<id>.scope" and similar names. The cgroup of a process
// that only watches over a container, "crio-conmon-<id>.scope", does not match.
func mentions(cgroupFile, id string) bool {
	if id == "" {
		return false
	}
	for rest := cgroupFile; ; {
		at := strings.Index(rest, id)
		if at < 0 {
			return false
		}
		end := at + len(id)
		if !strings.HasSuffix(rest[:at], "conmon-") && (at == 0 || !isWord(rest[at-1])) && (end == len(rest) || !isWord(rest[end])) {
			return true
		}
		rest = rest[end:]
	}
}

func isWord(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func readProcess(proc string, pid int) (process, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	stat, err := ReadProc(filepath.Join(dir, "stat"))
	if err != nil {
		return process{}, goneIfMissing(err)
	}
	status, err := ReadProc(filepath.Join(dir, "status"))
	if err != nil {
		return process{}, goneIfMissing(err)
	}
	p := process{pid: pid}
	if p.startTime, p.ended, err = parseStat(string(stat)); err != nil {
		return process{}, fmt.Errorf("process %d: %w", pid, err)
	}
	numbers, _ := statusField(string(status), "NSpid")
	inner := strings.Fields(numbers)
	p.depth = len(inner)
	p.first = p.depth > 0 && inner[p.depth-1] == "1"
	return p, nil
}

// statFields returns the fields of a /proc/<pid>/stat line from the third on. The command's
// name comes second, in parentheses, and may contain blanks and parentheses itself.
func statFields(line string) ([]string, error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 20 {
		return nil, fmt.Errorf("unexpected stat line %q", line)
	}
	return fields, nil
}

func parseStat(line string) (startTime uint64, ended bool, err error) {
	fields, err := statFields(line)
	if err != nil {
		return 0, false, err
	}
	startTime, err = strconv.ParseUint(fields[19], 10, 64)
	return startTime, fields[0] == "Z" || fields[0] == "X", err
}

func statusField(status, name string) (string, bool) {
	for line := range strings.Lines(status) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == name {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

func listPIDs(proc string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// goneIfMissing turns the errors of /proc for a missing process into ErrGone.
func goneIfMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	return err
}
