package vm

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// WriteInitramfs writes an archive of what a guest starts with: the files named,
// each in the root directory, and empty directories to mount something at.
func WriteInitramfs(path string, dirs, files []string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	compressed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(compressed)
	archive := &newc{to: buffered}
	for _, name := range dirs {
		archive.add(name, modeDir|0o755, nil)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		archive.add(filepath.Base(file), modeFile|0o755, content)
	}
	archive.add("TRAILER!!!", 0, nil)
	return errors.Join(archive.err, buffered.Flush(), compressed.Close(), file.Close())
}

// Types of files in a cpio archive.
const modeDir, modeFile = 0o040000, 0o100000

// newc writes the format of cpio that the kernel unpacks:
// https://docs.kernel.org/driver-api/early-userspace/buffer-format.html
type newc struct {
	to    io.Writer
	inode int
	err   error // the first that occurred
}

// add writes an entry. Names and contents end at multiples of four bytes.
func (n *newc) add(name string, mode int, content []byte) {
	n.inode++
	const header = 110
	fields := []int{n.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0}
	n.print("070701")
	for _, field := range fields {
		n.print("%08X", field)
	}
	n.print("%s\x00", name)
	n.fill(header + len(name) + 1)
	if n.err == nil {
		_, n.err = n.to.Write(content)
	}
	n.fill(len(content))
}

func (n *newc) print(format string, args ...any) {
	if n.err == nil {
		_, n.err = fmt.Fprintf(n.to, format, args...)
	}
}

func (n *newc) fill(length int) { n.print("%s", "\x00\x00\x00"[:(4-length%4)%4]) }
