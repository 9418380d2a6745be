package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"

	"github.com/squall-chaos/squall/hack/cgroup"
)

// CloneFlags are the namespaces that the starter gives a machine's first
// process. The cgroup namespace follows in Enter, when the process is where its
// root shall be.
const CloneFlags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
	syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

const cloneNewCgroup = 0x02000000 // missing in package syscall of some architectures

const specVariable = "SQUALL_MACHINE"

// Enter is the first half of a machine's first process, just cloned: it waits
// for the Spec on r, which comes when the network links are made, moves into
// the control groups and executes itself again as command, which shall call
// Run. It returns only with an error.
func Enter(r io.Reader, command string) error {
	runtime.LockOSThread() // namespaces belong to threads, and exec keeps this one
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("read what machine to be: %w", err)
	}
	if len(data) == 0 {
		return errors.New("the supervisor went away")
	}
	var s Spec
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("read what machine to be: %w", err)
	}
	if err := cgroup.Join(s.Cgroup); err != nil {
		return err
	}
	if err := syscall.Unshare(cloneNewCgroup); err != nil {
		return fmt.Errorf("make a cgroup namespace: %w", err)
	}
	if err := cgroup.Delegate(s.Cgroup); err != nil {
		return err
	}
	err = syscall.Exec("/proc/self/exe", []string{"squall-" + s.Name, command}, []string{specVariable + "=" + string(data)})
	return fmt.Errorf("execute myself again: %w", err)
}

// Run is the second half: it builds the machine's file system, starts the
// daemons and keeps them running. It returns only with an error.
func Run() error {
	var s Spec
	if err := json.Unmarshal([]byte(os.Getenv(specVariable)), &s); err != nil {
		return fmt.Errorf("read what machine to be: %w", err)
	}
	// Executed through a link, the process is called "exe".
	_ = os.WriteFile("/proc/self/comm", []byte("squall-"+s.Name), 0)
	return s.run()
}

// run makes this process the first one of the machine.
func (s Spec) run() error {
	if err := s.buildRoot(); err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(s.Host)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	for _, setting := range s.Sysctls {
		err := os.WriteFile("/proc/sys/"+setting.Name, []byte(setting.Value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set %s: %w", setting.Name, err)
		}
	}
	if s.Guest == nil {
		return runDaemons(s.Daemons, "")
	}
	if err := s.Guest.connect(); err != nil {
		return err
	}
	return runDaemons(s.Daemons, logDir)
}
