package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrLocked means that another process holds a lock.
var ErrLocked = errors.New("locked by another process")

// Lock creates a file and locks it. With wait it waits for the lock; without, it
// returns ErrLocked if another process holds it. The lock lasts until every
// process that has the file closes it. Collecting the file as garbage closes it
// too: keep a reference.
func Lock(path string, wait bool) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if err != syscall.EINTR {
			break
		}
	}
	if err == nil {
		return f, nil
	}
	f.Close()
	if err == syscall.EWOULDBLOCK {
		err = ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// SupervisorLock is the file that the supervisor holds locked while it lives,
// with its process number inside.
func (c *Cluster) SupervisorLock() string { return c.Path("supervisor.lock") }

// Supervisor returns the process number of the living supervisor, 0 if there is
// none, or -1 if there is one that has not written its number yet.
func (c *Cluster) Supervisor() int {
	f, err := Lock(c.SupervisorLock(), false)
	if err == nil {
		f.Close()
		return 0
	}
	content, _ := os.ReadFile(c.SupervisorLock())
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return -1
	}
	return pid
}
