//go:build linux

package resolve

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// maxFile is far more than any resolv.conf or hosts file has, in bytes.
const maxFile = 1 << 20

// readBelow reads a file of a container. Links in it resolve as in the container. No file
// of the container can block or fill the injector.
func readBelow(root, path string) (string, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open %s: %w", root, err)
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return "", fmt.Errorf("open /%s of the target: %w", path, err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("/%s of the target is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return "", fmt.Errorf("read /%s of the target: %w", path, err)
	}
	return string(data), nil
}
