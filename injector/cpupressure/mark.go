package cpupressure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// markPrefix begins the second argument of every burner.
const markPrefix = "squall-cpu-pressure="

// endTimeout bounds the wait for one killed burner.
const endTimeout = 5 * time.Second

// markOf is what the burners of one injection carry on their command line. It
// names the target too, because two targets of a disruption may share a node.
func markOf(injection v1beta1.Injection) string {
	return markPrefix + string(injection.Disruption.UID) + "/" + string(injection.Target.UID)
}

// Audit lists the burners on this node, of any disruption. Proc is where
// processes are seen. An empty list means that nothing is left.
func Audit(_ context.Context, proc string, _ []v1beta1.Injection) ([]v1beta1.Mark, error) {
	pids, err := marked(proc, "")
	var marks []v1beta1.Mark
	for _, pid := range pids {
		disruption, target, _ := strings.Cut(strings.TrimPrefix(markOn(proc, pid), markPrefix), "/")
		marks = append(marks, v1beta1.Mark{
			Object: burnerName(pid), Kind: v1beta1.KindCPUPressure,
			Disruption: v1beta1.DisruptionRef{UID: types.UID(disruption)}, Target: types.UID(target),
		})
	}
	return marks, err
}

// Left lists the burners of this injection that run, whoever started them.
func (i *Injector) Left(context.Context) ([]string, error) {
	pids, err := marked(procOf(i.target), markOf(i.target.Injection))
	var left []string
	for _, pid := range pids {
		left = append(left, burnerName(pid))
	}
	return left, err
}

func burnerName(pid int) string { return fmt.Sprintf("burner process %d", pid) }

// endMarked kills all processes that carry the mark, and goes on after an error.
func endMarked(ctx context.Context, proc, mark string) error {
	pids, err := marked(proc, mark)
	errs := []error{err}
	for _, pid := range pids {
		errs = append(errs, endOne(ctx, proc, pid, mark))
	}
	return errors.Join(errs...)
}

// marked lists the processes whose mark is mark, or any mark if it is empty.
// Zombies have no command line and are not listed.
func marked(proc, mark string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if found := markOn(proc, pid); found != "" && (mark == "" || mark == found) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// markOn is the mark of a process, empty for a process that is no burner.
func markOn(proc string, pid int) string {
	// An error means that the process is gone.
	line, _ := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	args := bytes.Split(line, []byte{0})
	if len(args) < 3 || string(args[1]) != BurnCommand || !bytes.HasPrefix(args[2], []byte(markPrefix)) {
		return ""
	}
	return string(args[2])
}

// endOne kills one process and waits for its end. The mark is read again once
// the descriptor holds the process: its number may have been used again.
func endOne(ctx context.Context, proc string, pid int, mark string) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open a descriptor of burner %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if markOn(proc, pid) != mark {
		return nil
	}
	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill burner %d: %w", pid, err)
	}
	return awaitEnd(ctx, fd, pid)
}

func awaitEnd(ctx context.Context, fd, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	for ctx.Err() == nil {
		end := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		count, err := unix.Poll(end, 100)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the end of burner %d: %w", pid, err)
		}
		if count > 0 {
			return nil
		}
	}
	return fmt.Errorf("burner %d was killed but does not end: %w", pid, ctx.Err())
}
