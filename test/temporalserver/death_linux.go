package temporalserver

import "syscall"

// diesWithParent has the kernel kill a program when the thread that started it ends.
// Go's threads last as long as their program, unless a goroutine ends that has locked
// its thread.
func diesWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
