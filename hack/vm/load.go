package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

// Load puts modules into the kernel, in this order. It skips modules that are
// loaded.
func Load(files []string) error {
	for _, file := range files {
		if err := load(file); err != nil {
			return err
		}
	}
	return nil
}

func load(file string) error {
	image, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	options := []byte{0}
	_, _, errno := syscall.Syscall(syscall.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&image[0])), uintptr(len(image)), uintptr(unsafe.Pointer(&options[0])))
	if errno != 0 && errno != syscall.EEXIST {
		return fmt.Errorf("load module %s: %w", filepath.Base(file), errno)
	}
	return nil
}
