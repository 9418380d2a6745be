package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// Modules that the guest needs before it sees this machine's files.
var earlyModules = []string{"virtio_pci", "9pnet_virtio", "9p", "overlay"}

// startQEMU is a computer of its own with Debian's kernel as it is. It sees this
// machine's files by 9p, read only.
func startQEMU(f guestFiles) (command, env []string, err error) {
	files, err := kernelModules(filepath.Join(f.kernel, "lib/modules"))
	if err != nil {
		return nil, nil, err
	}
	early, err := inOrder(earlyModules, files, moduleNeeds)
	if err != nil {
		return nil, nil, err
	}
	if f.job.Modules, err = inOrder(f.needed, files, moduleNeeds); err != nil {
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
	if err := writeInitramfs(archive, f.dir, early); err != nil {
		return nil, nil, fmt.Errorf("write %s: %w", archive, err)
	}
	kernels, err := filepath.Glob(filepath.Join(f.kernel, "boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return nil, nil, fmt.Errorf("%s has the kernels %v, want one", f.kernel, kernels)
	}
	return []string{"qemu-system-x86_64", "-accel", accelerator(), "-cpu", "max", "-smp", "1", "-m", "1536",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		// The first serial line is for the kernel, the second for the tests.
		"-serial", "stdio", "-serial", "file:/proc/self/fd/3",
		"-virtfs", "local,path=/,mount_tag=" + shareTag + ",security_model=none,readonly=on,multidevs=remap",
		"-kernel", kernels[0], "-initrd", archive,
		"-append", "console=ttyS0 panic=-1 loglevel=4 lsm=landlock,lockdown,yama,bpf rdinit=/" + guestProgram + " " + guestDir + "=/",
	}, nil, nil
}

// accelerator is KVM where the processor does it. That /dev/kvm opens does not
// say so: what emulates it takes minutes for what the translator does in seconds.
func accelerator() string {
	for _, module := range []string{"kvm_intel", "kvm_amd"} {
		if _, err := os.Stat("/sys/module/" + module); err != nil {
			continue
		}
		if device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
			device.Close()
			return "kvm"
		}
	}
	return "tcg"
}
