//go:build linux

package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Entry is the state of one injection in a directory of journals.
type Entry struct {
	// Injection has only UIDs and kind, from the file's name, if the record cannot be read.
	Injection v1beta1.Injection
	// Name is the record's file. The file is missing when a process died before it wrote the
	// first record, or after it removed the last one.
	Name    string
	Missing bool
	// BootID is the kernel's name of the boot in which the record was made.
	BootID  string
	Changes []Change
	// InjectedFor is the record's InjectedFor.
	InjectedFor string
	// Err is why the record cannot be read.
	Err error
}

// List returns all journals in dir, in the order of their names. A missing dir holds none.
// It ignores other files in it.
func List(dir string) ([]Entry, error) {
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list journals: %w", err)
	}
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimSuffix(file.Name(), locked), temporary)
		if _, err := parseName(name); err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var entries []Entry
	for _, name := range slices.Compact(names) {
		if entry, found := readEntry(dir, name); found {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// readEntry reads one record. found is false if it was removed meanwhile.
func readEntry(dir, name string) (entry Entry, found bool) {
	entry.Name = name
	entry.Injection, _ = parseName(name) // List has checked the name
	path := filepath.Join(dir, name)
	record, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		entry.Missing = true
		return entry, slices.ContainsFunc(filesOf(path), exists)
	case err != nil:
		entry.Err = err
	default:
		entry.Injection, entry.BootID = record.Injection, record.BootID
		entry.Changes, entry.InjectedFor = record.Changes, record.InjectedFor
	}
	return entry, true
}

// parseName reads what fileName writes.
func parseName(name string) (v1beta1.Injection, error) {
	parts := strings.Split(strings.TrimSuffix(name, ".json"), "_")
	if !strings.HasSuffix(name, ".json") || len(parts) != 3 {
		return v1beta1.Injection{}, fmt.Errorf("%s is not the name of a journal", name)
	}
	injection := v1beta1.Injection{
		Disruption: v1beta1.DisruptionRef{UID: types.UID(parts[0])},
		Target:     v1beta1.InjectionTarget{UID: types.UID(parts[1])},
		Kind:       v1beta1.Kind(parts[2]),
	}
	_, err := fileName(injection)
	return injection, err
}
