//go:build linux

package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Suffixes of the files beside a record.
const (
	temporary = ".tmp"
	locked    = ".lock"
)

// filesOf returns all files that a record at path may have.
func filesOf(path string) []string { return []string{path, path + temporary, path + locked} }

// maxRecord bounds a record, in bytes; far more than any record needs.
const maxRecord = 4 << 20

// readOwn reads a file that this user wrote and no other can write: root writes values of a
// record to the node's kernel. It follows no link, and only a regular file is read, so that
// nothing blocks the reader.
func readOwn(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a link: no injector makes one; remove it once you know who did", path)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var is unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &is); err != nil {
		return nil, fmt.Errorf("look at %s: %w", path, err)
	}
	switch {
	case is.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s is no regular file: no injector makes such; remove it once you know who did", path)
	case int(is.Uid) != os.Geteuid() || is.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s is of user %d with mode %#o: want user %d, and no write access for others. Find out who wrote it, then fix its owner and mode or remove it",
			path, is.Uid, is.Mode&0o777, os.Geteuid())
	case is.Size > maxRecord:
		return nil, fmt.Errorf("%s has %d bytes: no injector writes more than %d; remove it once you know who did", path, is.Size, maxRecord)
	}
	return io.ReadAll(io.LimitReader(file, maxRecord))
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// save replaces the record as a whole: a crash leaves either the old or the new one, and at
// most an unused temporary file.
func (j *Journal) save() error {
	data, err := json.MarshalIndent(j.record, "", "  ")
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if len(data) >= maxRecord {
		return fmt.Errorf("write journal: %d bytes, want less than %d", len(data), maxRecord)
	}
	if err := writeSynced(j.path+temporary, append(data, '\n')); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := os.Rename(j.path+temporary, j.path); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return syncDir(filepath.Dir(j.path))
}

func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncDir makes a rename or removal in dir survive a power failure.
func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync journal directory: %w", err)
	}
	defer file.Close()
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync journal directory: %w", err)
	}
	return nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove journal: %w", err)
	}
	return nil
}

// lockFile takes the lock that the kernel frees when its owner dies, however it dies. An
// existing lock file works on a read-only disk, too.
func lockFile(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && stillAt(path, file) {
			return file, nil
		}
		file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrBusy
		}
		if err != nil {
			return nil, err
		}
		// The last owner removed the file between our open and our lock: retry.
	}
}

func stillAt(path string, file *os.File) bool {
	there, err := os.Stat(path)
	if err != nil {
		return false
	}
	ours, err := file.Stat()
	return err == nil && os.SameFile(there, ours)
}
