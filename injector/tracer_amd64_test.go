//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// verdict decides about the next step of a traced program.
type verdict int

const (
	permit verdict = iota
	refuse         // the kernel answers EINVAL, as one that does not know the call
	kill           // the program is killed with SIGKILL, and the step not made
)

// trace runs a program and calls before ahead of each step that could change anything on
// this machine. A step is a system call with its object, in a text without process and
// descriptor numbers. Threads are traced. Children of the program are not: they stay alive
// when it is killed. trace returns how the program ended.
//
// The kernel ties a traced process to one thread, so one thread does all of the tracing.
func trace(command *exec.Cmd, started func(pid int), before func(step string) verdict) (status unix.WaitStatus, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A locked thread would end with the goroutine, and with it the containers that it
		// started.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		status, err = traceOnThisThread(command, started, before)
	}()
	<-done
	return status, err
}

func traceOnThisThread(command *exec.Cmd, started func(pid int), before func(step string) verdict) (unix.WaitStatus, error) {
	// The process group keeps the wait to the program's own threads.
	command.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := command.Start(); err != nil {
		return 0, err
	}
	t := &tracer{pid: command.Process.Pid, seen: map[int]bool{}, before: before}
	defer command.Process.Release()
	var status unix.WaitStatus
	if _, err := unix.Wait4(t.pid, &status, unix.WALL, nil); err != nil {
		return 0, err
	}
	t.seen[t.pid] = true
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_EXITKILL
	if err := errors.Join(unix.PtraceSetOptions(t.pid, options), unix.PtraceSyscall(t.pid, 0)); err != nil {
		return 0, err
	}
	started(t.pid)
	return t.follow()
}

type tracer struct {
	pid    int
	seen   map[int]bool // threads that have stopped once
	before func(step string) verdict
}

// follow handles stop after stop until the program has ended.
func (t *tracer) follow() (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-t.pid, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, err
		case !status.Stopped() && tid == t.pid:
			return status, nil // the first thread ends last
		case !status.Stopped():
			continue
		}
		deliver := 0
		switch signal := status.StopSignal(); {
		case signal == unix.SIGTRAP|0x80:
			t.atSyscall(tid)
		case signal == unix.SIGTRAP || signal == unix.SIGSTOP && !t.seen[tid]:
			// a thread was made, or is new
		default:
			deliver = int(signal)
		}
		t.seen[tid] = true
		_ = unix.PtraceSyscall(tid, deliver) // or it was killed just now
	}
}

// atSyscall decides about a call before it is made, and does nothing after one was made.
func (t *tracer) atSyscall(tid int) {
	var info struct {
		op     uint8
		_      [7]uint8
		_, _   uint64 // instruction and stack pointers
		number uint64
		args   [6]uint64
		_      uint32
		_      [32]byte // newer kernels report more
	}
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 || info.op != unix.PTRACE_SYSCALL_INFO_ENTRY {
		return
	}
	step := t.step(int(info.number), info.args)
	if step == "" {
		return
	}
	switch t.before(step) {
	case kill:
		_ = unix.Kill(t.pid, unix.SIGKILL)
	case refuse:
		var registers unix.PtraceRegs
		if unix.PtraceGetRegs(tid, &registers) == nil {
			registers.Orig_rax, registers.Rax = ^uint64(0), ^uint64(unix.EINVAL)+1
			_ = unix.PtraceSetRegs(tid, &registers)
		}
	}
}

// step describes a system call. The text is empty if the call changes nothing that outlives
// the thread or matters to others.
func (t *tracer) step(number int, args [6]uint64) string {
	switch number {
	case unix.SYS_OPENAT:
		if args[2]&(unix.O_CREAT|unix.O_TRUNC) != 0 {
			return "create " + t.text(args[1])
		}
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV:
		if name := t.file(args[0]); args[0] > 2 && name != "anon_inode:[eventfd]" {
			return "write " + name
		}
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		return "sync " + t.file(args[0])
	case unix.SYS_FLOCK:
		return "lock " + t.file(args[0])
	case unix.SYS_CLOSE:
		if name := t.file(args[0]); strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "anon_inode:bpf_link") {
			return "close " + name
		}
	case unix.SYS_RENAME, unix.SYS_UNLINK, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UMOUNT2:
		return named[number] + " " + t.text(args[0])
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_MOUNT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT:
		return named[number] + " " + t.text(args[1])
	case unix.SYS_MOVE_MOUNT:
		return "mount over " + t.text(args[3])
	case unix.SYS_FTRUNCATE, unix.SYS_FCHMOD, unix.SYS_FCHOWN:
		return named[number] + " " + t.file(args[0])
	case unix.SYS_SENDTO, unix.SYS_SENDMSG:
		return t.message(number, args)
	case unix.SYS_BPF: // a program that is loaded does nothing yet, and ends with its descriptor
		return map[uint64]string{unix.BPF_OBJ_PIN: "bpf pin", unix.BPF_PROG_ATTACH: "bpf attach",
			unix.BPF_PROG_DETACH: "bpf detach", unix.BPF_LINK_CREATE: linkCreate, unix.BPF_LINK_UPDATE: "bpf link update",
			unix.BPF_LINK_DETACH: "bpf link detach"}[args[0]]
	case unix.SYS_PIDFD_SEND_SIGNAL:
		return fmt.Sprintf("pidfd signal %d", args[1])
	case unix.SYS_KILL, unix.SYS_TGKILL:
		if int(args[0]) != t.pid {
			return "kill"
		}
	case unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_CLONE, unix.SYS_CLONE3:
		flags := args[0]
		if number == unix.SYS_CLONE3 {
			flags = binary.NativeEndian.Uint64(append(t.bytes(args[0], 8), make([]byte, 8)...))
		}
		if forks := number == unix.SYS_FORK || number == unix.SYS_VFORK; forks || flags&unix.CLONE_THREAD == 0 {
			return "fork"
		}
	case unix.SYS_BIND:
		if address := t.bytes(args[1], min(args[2], 64)); len(address) > 2 && binary.NativeEndian.Uint16(address) == unix.AF_UNIX {
			return "bind " + strings.Trim(string(address[2:]), "\x00")
		}
	case unix.SYS_EXIT_GROUP:
		return "exit"
	}
	return ""
}

var named = map[int]string{
	unix.SYS_RENAME: "rename", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename",
	unix.SYS_UNLINK: "remove", unix.SYS_UNLINKAT: "remove", unix.SYS_RMDIR: "remove directory",
	unix.SYS_MKDIR: "make directory", unix.SYS_MKDIRAT: "make directory",
	unix.SYS_MOUNT: "mount", unix.SYS_UMOUNT2: "unmount", unix.SYS_LINKAT: "link", unix.SYS_SYMLINKAT: "link",
	unix.SYS_FTRUNCATE: "truncate", unix.SYS_FCHMOD: "change mode of", unix.SYS_FCHOWN: "change owner of",
}

// message describes requests of netlink that change something. rtnetlink numbers its
// requests in fours, and the third of each four only reads. netfilter numbers them by
// subsystem, and changes packet filters in batches.
func (t *tracer) message(number int, args [6]uint64) string {
	family, data := t.sent(number, args)
	if family != unix.AF_NETLINK {
		return "" // an answer to a question
	}
	if len(data) < unix.SizeofNlMsghdr {
		return ""
	}
	kind := binary.NativeEndian.Uint16(data[4:])
	switch {
	case kind == unix.NFNL_MSG_BATCH_BEGIN && number == unix.SYS_SENDMSG:
		return "nftables batch"
	case kind == unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_DELETE:
		return "forget connection"
	case kind < unix.RTM_BASE || kind > 0xff || kind%4 == unix.RTM_GETLINK%4:
		return ""
	}
	if name, known := map[uint16]string{unix.RTM_NEWQDISC: "new qdisc", unix.RTM_DELQDISC: "del qdisc",
		unix.RTM_NEWTFILTER: "new filter", unix.RTM_DELTFILTER: "del filter"}[kind]; known {
		return "netlink " + name
	}
	return fmt.Sprintf("netlink %d", kind)
}

// sent returns the destination of a message, by the family of the address, and its first
// bytes.
func (t *tracer) sent(number int, args [6]uint64) (family uint16, data []byte) {
	word := binary.NativeEndian.Uint64
	address, at, length := args[4], args[1], args[2]
	if number == unix.SYS_SENDMSG {
		header := t.bytes(args[1], 24) // address, its length, parts
		if len(header) < 24 {
			return 0, nil
		}
		part := t.bytes(word(header[16:]), 16)
		if len(part) < 16 {
			return 0, nil
		}
		address, at, length = word(header), word(part), word(part[8:])
	}
	if name := t.bytes(address, 2); len(name) == 2 {
		family = binary.NativeEndian.Uint16(name)
	}
	return family, t.bytes(at, min(length, unix.SizeofNlMsghdr))
}

var digits = regexp.MustCompile(`\[?\d+\]?`)

// file returns the path behind a descriptor.
func (t *tracer) file(fd uint64) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, int32(fd)))
	if err != nil {
		return "nothing"
	}
	if !filepath.IsAbs(name) {
		name = digits.ReplaceAllString(name, "")
	}
	return name
}

// text reads a string of the program.
func (t *tracer) text(address uint64) string {
	text, _, _ := strings.Cut(string(t.bytes(address, 512)), "\x00")
	return text
}

// bytes reads memory of the program, as far as it can be read.
func (t *tracer) bytes(address, length uint64) []byte {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", t.pid))
	if err != nil {
		return nil
	}
	defer memory.Close()
	data := make([]byte, length)
	n, _ := memory.ReadAt(data, int64(address))
	return data[:n]
}
