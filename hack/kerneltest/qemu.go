package main

import (
	"fmt"
	"path/filepath"

	"github.com/squall-chaos/squall/hack/vm"
)

// Modules that the guest needs before it sees this machine's files.
var earlyModules = []string{"virtio_pci", "9pnet_virtio", "9p", "overlay"}

// startQEMU is a computer of its own with Debian's kernel as it is. It sees this
// machine's files by 9p, read only.
func startQEMU(f guestFiles) (command, env []string, err error) {
	files, err := vm.Modules(filepath.Join(f.kernel, "lib/modules"))
	if err != nil {
		return nil, nil, err
	}
	early, err := vm.InOrder(earlyModules, files)
	if err != nil {
		return nil, nil, err
	}
	if f.job.Modules, err = vm.InOrder(f.needed, files); err != nil {
		return nil, nil, err
	}
	f.job.Results, f.job.Shared = "/dev/ttyS1", true
	for _, file := range early {
		f.job.Early = append(f.job.Early, "/"+filepath.Base(file))
	}
	if err := f.job.write(f.dir); err != nil {
		return nil, nil, err
	}
	archive := filepath.Join(f.dir, "initrd.gz")
	contents := append([]string{filepath.Join(f.dir, guestProgram), filepath.Join(f.dir, jobFile)}, early...)
	if err := vm.WriteInitramfs(archive, []string{"run", "dev", "proc", "sys", sharedDir}, contents); err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", archive, err)
	}
	kernel, err := vm.Kernel(f.kernel)
	if err != nil {
		return nil, nil, err
	}
	return []string{"qemu-system-x86_64", "-accel", vm.Accelerator(), "-cpu", "max", "-smp", "1", "-m", "1536",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		// The first serial line is for the kernel, the second for the tests.
		"-serial", "stdio", "-serial", "file:/proc/self/fd/3",
		"-virtfs", "local,path=/,mount_tag=" + shareTag + ",security_model=none,readonly=on,multidevs=remap",
		"-kernel", kernel, "-initrd", archive,
		// Without no_timer_check a kernel whose processor is taken away as it starts finds
		// that its timer does not work, and stays there.
		"-append", "console=ttyS0 panic=-1 loglevel=4 no_timer_check lsm=landlock,lockdown,yama,bpf rdinit=/" + guestProgram + " " + guestDir + "=/",
	}, nil, nil
}
