// Package vm is what virtual computers with a kernel of Debian's are started from:
// the kernel, its modules, the archive that is their first file system, and QEMU's
// command line. Tests on other kernels use it, and nodes that are such computers.
package vm

import (
	"fmt"
	"os"
	"path/filepath"
)

// Kernel is the file of the one kernel in an unpacked package.
func Kernel(dir string) (string, error) {
	kernels, err := filepath.Glob(filepath.Join(dir, "boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return "", fmt.Errorf("%s has the kernels %v, want one", dir, kernels)
	}
	return kernels[0], nil
}

// Accelerator is KVM where the processor does it. An open /dev/kvm is no proof: an
// emulated one takes minutes for what the translator does in seconds.
func Accelerator() string {
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
