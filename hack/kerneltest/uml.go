package main

import (
	"path/filepath"

	"github.com/squall-chaos/squall/hack/vm"
)

// startUML is User-Mode Linux: a kernel that is an ordinary process of this
// machine, whose root directory it sees, read only.
func startUML(f guestFiles) (command, env []string, err error) {
	files, err := vm.Modules(filepath.Join(f.kernel, "usr/lib/uml/modules"))
	if err != nil {
		return nil, nil, err
	}
	if f.job.Early, err = vm.InOrder(append(f.needed, "overlay"), files); err != nil {
		return nil, nil, err
	}
	f.job.Results = "/dev/ttyS0"
	if err := f.job.write(f.dir); err != nil {
		return nil, nil, err
	}
	return []string{filepath.Join(f.kernel, "usr/bin/linux.uml"),
		"mem=1024M", "root=none", "rootfstype=hostfs", "hostfs=/", "ro", "quiet",
		"init=" + filepath.Join(f.dir, guestProgram), guestDir + "=" + f.dir,
		// The console is for the kernel, the first serial line for the tests.
		"con=null", "con0=null,fd:1", "ssl=null", "ssl0=null,fd:3",
	}, []string{"TMPDIR=/dev/shm"}, nil // its memory is a file there
}
