//go:build linux

package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// turnEvery is how often AwaitTurn tries the lock: the kernel's own wait for it cannot be
// interrupted.
const turnEvery = 20 * time.Millisecond

// AwaitTurn waits until no other injector of this node has a turn, or ctx ends. The caller
// ends its turn by closing the file. The kernel ends the turn of a process that dies. The
// lock is on the directory of the journals, so it needs no file of its own.
func (j *Journal) AwaitTurn(ctx context.Context) (*os.File, error) {
	dir, err := os.Open(filepath.Dir(j.path))
	if err != nil {
		return nil, fmt.Errorf("open the journal directory: %w", err)
	}
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			dir.Close()
			return nil, fmt.Errorf("lock the journal directory: %w", err)
		}
		select {
		case <-ctx.Done():
			dir.Close()
			return nil, fmt.Errorf("wait for another injector on this node, which counts or attaches: %w", context.Cause(ctx))
		case <-time.After(turnEvery):
		}
	}
}
