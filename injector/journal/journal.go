//go:build linux

// Package journal keeps, on the node's disk, the changes that an injector is about to make.
// It promises that a value in the journal can be restored later, by another process and
// after any crash. A value that another program changed meanwhile is left alone and
// reported.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// DefaultDir is the directory of the node that holds the journals.
const DefaultDir = "/var/lib/squall/journal"

// ErrBusy means that a running process has the journal open.
var ErrBusy = errors.New("journal is in use by a running injector")

// Change is one value that a kind overwrites.
type Change struct {
	// Object names the value, normally by a file's path.
	Object string `json:"object"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Record is the content of a journal file.
type Record struct {
	// BootID is the kernel's name of the boot in which the record was made.
	BootID    string            `json:"bootID"`
	Injection v1beta1.Injection `json:"injection"`
	// Containers are the target's containers, with their identifying properties.
	Containers []target.Container `json:"containers,omitempty"`
	Changes    []Change           `json:"changes,omitempty"`
	// InjectedFor is the ID of the container that waits for this injection, once it is in
	// force. It is empty before that, and for a pod that does not wait.
	InjectedFor string `json:"injectedFor,omitempty"`
}

// Journal is the open record of one disruption, target and kind. It is locked:
// no other process opens it at the same time.
type Journal struct {
	path   string
	lock   *os.File
	record Record
	found  bool
}

// Open opens the record of the target's injection in dir, and makes and syncs both when
// missing. A record of an earlier process keeps its changes. One of an earlier boot is
// replaced, as its part of the kernel is gone. It returns ErrBusy, wrapped, if another
// process has it open.
func Open(dir string, t *target.Target) (*Journal, error) {
	name, err := fileName(t.Injection)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make journal directory: %w", err)
	}
	j, err := open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	boot, err := BootID()
	if err == nil {
		if j.record.BootID != boot {
			j.record, j.found = Record{}, false
		}
		j.record.BootID = boot
		j.record.Injection = t.Injection
		j.addContainers(t.Containers)
		err = j.save()
	}
	if err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// Reopen opens the record of an earlier process for cleaning. It returns fs.ErrNotExist,
// wrapped, without a record, and then removes the files of a process that died before its
// first record. It returns ErrBusy, wrapped, if another process has it open.
func Reopen(dir string, injection v1beta1.Injection) (*Journal, error) {
	name, err := fileName(injection)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	if !slices.ContainsFunc(filesOf(path), exists) {
		return nil, fmt.Errorf("journal %s: %w", path, fs.ErrNotExist)
	}
	j, err := open(path)
	if err != nil {
		return nil, err
	}
	if !j.found { // or its owner removed it between our look-up and our lock
		return nil, errors.Join(fmt.Errorf("journal %s: %w", name, fs.ErrNotExist), j.Remove())
	}
	return j, nil
}

// Path is the file that holds the record.
func (j *Journal) Path() string { return j.path }

// Record returns the content of the journal.
func (j *Journal) Record() Record { return j.record }

// Write records a change. It returns once the record is on the disk; only then may the
// change be made.
func (j *Journal) Write(change Change) error {
	j.record.Changes = append(j.record.Changes, change)
	return j.save()
}

// NoteInjectedFor records that the injection is in force for the container with this ID,
// which waits for it.
func (j *Journal) NoteInjectedFor(id string) error {
	j.record.InjectedFor = id
	return j.save()
}

// Changes lists the changes, in the order of writing. A value that was changed twice is in
// it twice, so restore the last first.
func (j *Journal) Changes() []Change { return slices.Clone(j.record.Changes) }

// Remove deletes the record and closes the journal. Call it once nothing of the injection
// is left. It is safe to call twice.
func (j *Journal) Remove() error {
	defer j.Close()
	// The lock's file is removed last: until then no other process can open the record. It is
	// removed at once, so that no audit reports it.
	return errors.Join(removeFile(j.path), removeFile(j.path+temporary), removeFile(j.path+locked), syncDir(filepath.Dir(j.path)))
}

// Close frees the lock and keeps the record. It is safe to call twice.
func (j *Journal) Close() {
	if j.lock != nil {
		j.lock.Close()
		j.lock = nil
	}
}

// BootID returns the kernel's name of this boot.
func BootID() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot ID: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// addContainers keeps the containers of an earlier process: a restart leaves traces of the
// old container, and both must be cleaned.
func (j *Journal) addContainers(containers []target.Container) {
	for _, container := range containers {
		known := slices.ContainsFunc(j.record.Containers, func(c target.Container) bool {
			return c.ID == container.ID && c.PID == container.PID && c.StartTime == container.StartTime
		})
		if !known {
			j.record.Containers = append(j.record.Containers, container)
		}
	}
}

func open(path string) (*Journal, error) {
	lock, err := lockFile(path + locked)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", filepath.Base(path), err)
	}
	j := &Journal{path: path, lock: lock}
	j.record, err = read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.Close()
		return nil, err
	}
	j.found = err == nil
	return j, nil
}

func read(path string) (Record, error) {
	data, err := readOwn(path)
	if err != nil {
		return Record{}, fmt.Errorf("read journal: %w", err)
	}
	var record Record
	if err := json.Unmarshal(data, &record); err != nil {
		return Record{}, fmt.Errorf("read journal %s: %w", path, err)
	}
	return record, nil
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)

// fileName refuses names that could leave the directory or match another injection's.
func fileName(injection v1beta1.Injection) (string, error) {
	parts := []string{string(injection.Disruption.UID), string(injection.Target.UID), string(injection.Kind)}
	for _, part := range parts {
		if !plainWord.MatchString(part) {
			return "", fmt.Errorf("journal of disruption UID %q, target UID %q, kind %q: each must be a word of letters, digits, dots and dashes",
				parts[0], parts[1], parts[2])
		}
	}
	return strings.Join(parts, "_") + ".json", nil
}
