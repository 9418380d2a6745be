package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/supervise"
)

// superviseCommand is how up starts the supervisor: with the cluster's
// directory as argument, its lock as file 3 and a pipe to report on as file 4.
const superviseCommand = "supervise"

// startSupervisor starts the cluster's own process and waits until it reports that
// machines and ports exist. The lock passes to that process.
func startSupervisor(c *cluster.Cluster, lock *os.File) error {
	program, err := installSelf(c)
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	defer r.Close()
	if err := os.MkdirAll(c.Path("log"), 0o755); err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	log, err := os.OpenFile(c.Path("log", "supervisor.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(program, superviseCommand, c.Dir)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock, w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	report, err := io.ReadAll(r)
	if err == nil && strings.TrimSpace(string(report)) == "ok" {
		return cmd.Process.Release()
	}
	_ = cmd.Wait() // the process has reported its error, or died silently
	if len(report) == 0 {
		return fmt.Errorf("the supervisor ended at once; see %s", c.Path("log", "supervisor.log"))
	}
	return errors.New(strings.TrimSpace(string(report)))
}

// installSelf copies this program beside the cluster's others, because that of
// "go run" is gone when the supervisor needs it again.
func installSelf(c *cluster.Cluster) (string, error) {
	content, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("copy this program: %w", err)
	}
	path := c.Path("bin", "devcluster")
	return path, cluster.WriteFile(path, content, 0o755)
}

// superviseMain is the supervisor's life.
func superviseMain(args []string) error {
	lock, ready := os.NewFile(3, "lock"), os.NewFile(4, "ready")
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	defer runtime.KeepAlive(lock) // collected, it would be closed and the lock gone
	if len(args) != 1 {
		return errors.New("supervise is started by up, not by hand")
	}
	c, err := cluster.Load(args[0])
	if err != nil {
		return err
	}
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("write my process number: %w", err)
	}
	if _, err := lock.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0); err != nil {
		return fmt.Errorf("write my process number: %w", err)
	}
	if err := supervise.Run(c, ready); err != nil {
		fmt.Fprintln(ready, err) // after "ok" the pipe has no reader; the log has the error too
		return err
	}
	return nil
}
