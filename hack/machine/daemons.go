package machine

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// restartPause is how long a daemon that ended stays away, as with a service
// manager. It is also what keeps a broken one from taking the processor.
const restartPause = time.Second

// keeper is the machine's process manager. Orphans of the machine become its
// children, so it waits for any child and passes the status to the code that
// started that child.
type keeper struct {
	mu      sync.Mutex
	started map[int]chan syscall.WaitStatus
	done    map[string]chan struct{} // daemons with Once: closed when they succeeded
}

// runDaemons starts the daemons, each as soon as it may, and never returns
// without an error.
func runDaemons(daemons []Daemon, inbox string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP) // the supervisor alone ends a machine
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	k := &keeper{started: map[int]chan syscall.WaitStatus{}, done: map[string]chan struct{}{}}
	logs := map[string]*os.File{}
	for _, d := range daemons {
		k.done[d.Name] = make(chan struct{})
		log, err := openLog(d.Name)
		if err != nil {
			return err
		}
		logs[d.Name] = log
	}
	for _, d := range daemons {
		go k.keep(d, logs[d.Name])
	}
	if inbox != "" {
		log, err := openLog("inbox")
		if err != nil {
			return err
		}
		go k.attend(inbox, log)
	}
	for range children {
		k.reap()
	}
	return fmt.Errorf("signals ended")
}

// keep waits for what the daemon needs, starts it and starts it again.
func (k *keeper) keep(d Daemon, log *os.File) {
	for _, need := range d.WaitFor {
		k.await(need)
	}
	for {
		began := time.Now()
		ended, err := k.start(d, log)
		if err != nil {
			fmt.Fprintf(log, "devcluster: start %s: %v\n", d.Name, err)
		} else if status := <-ended; d.Once && status == 0 {
			close(k.done[d.Name])
			return
		} else {
			fmt.Fprintf(log, "devcluster: %s ended after %s, wait status %#x\n", d.Name, time.Since(began), int(status))
		}
		time.Sleep(restartPause)
	}
}

// start forks under the lock, so that the process is known before it can be
// reaped. It must not be os.StartProcess, which waits for children of its own.
func (k *keeper) start(d Daemon, log *os.File) (<-chan syscall.WaitStatus, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(d.Args[0], d.Args, &syscall.ProcAttr{
		Dir:   "/",
		Env:   environment(),
		Files: []uintptr{null.Fd(), log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, err
	}
	ended := make(chan syscall.WaitStatus, 1)
	k.started[pid] = ended
	return ended, nil
}

// environment is the same for all daemons and takes nothing from the host's.
func environment() []string {
	path := ""
	for _, tool := range []string{"kubernetes", "containerd", "runc", "cni"} {
		path += program(tool, "") + ":"
	}
	return []string{"PATH=" + path + "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin", "HOME=/root", "LANG=C.UTF-8"}
}

// reap takes the status of every child that has ended.
func (k *keeper) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		k.mu.Lock()
		if ended, ok := k.started[pid]; ok {
			delete(k.started, pid)
			ended <- status
		}
		k.mu.Unlock()
	}
}

// openLog keeps the log of the machine's last life beside the new one.
func openLog(name string) (*os.File, error) {
	path := filepath.Join(logDir, name+".log")
	_ = os.Rename(path, path+".old") // there is none on the first start
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}
	return log, nil
}
