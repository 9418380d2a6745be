//go:build linux

package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// ConflictError means that a value is neither the one before the change nor the one after
// it, so that restoring it could undo another program's work. Test for it with errors.As.
type ConflictError struct {
	Change
	Current string
}

// Error names the object and the three values.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is %q: another program changed it after the injection set %q (before: %q); it stays unchanged",
		e.Object, e.Current, e.After, e.Before)
}

// Reader returns a value in the form of the journal, Writer sets it.
type (
	Reader func(object string) (string, error)
	Writer func(object, value string) error
)

// Restore restores every value of the journal, the one changed last first, and continues
// after an error. It replaces the result of a change by the value before it. It leaves a
// value that already is the previous one. It leaves any other value too, and returns it as
// a *ConflictError. A value that was changed more than once gets its value before the first
// change. A missing object needs nothing. Restore is idempotent.
func (j *Journal) Restore(read Reader, write Writer) error {
	var errs []error
	seen := map[string]bool{}
	for _, change := range slices.Backward(j.record.Changes) {
		if seen[change.Object] {
			continue
		}
		seen[change.Object] = true
		same := slices.DeleteFunc(j.Changes(), func(c Change) bool { return c.Object != change.Object })
		errs = append(errs, restore(same, read, write))
	}
	return errors.Join(errs...)
}

// Unrestored describes the values of the journal that differ from those before the first
// change. A missing object needs nothing.
func (j *Journal) Unrestored(read Reader) ([]string, error) {
	var unrestored []string
	var errs []error
	seen := map[string]bool{}
	for _, change := range j.record.Changes {
		if seen[change.Object] {
			continue
		}
		seen[change.Object] = true
		current, err := read(change.Object)
		switch {
		case isGone(err):
		case err != nil:
			errs = append(errs, fmt.Errorf("look at %s: %w", change.Object, err))
		case current != change.Before:
			unrestored = append(unrestored, fmt.Sprintf("%s is %q and was %q before", change.Object, current, change.Before))
		}
	}
	return unrestored, errors.Join(errs...)
}

// restore undoes the changes of one object, given in the order of their making. A crash may
// have come after any of them, so each intermediate value is ours.
func restore(changes []Change, read Reader, write Writer) error {
	first, last := changes[0], changes[len(changes)-1]
	current, err := read(first.Object)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", first.Object, err)
	}
	if current == first.Before {
		return nil
	}
	if !slices.ContainsFunc(changes, func(c Change) bool { return c.After == current }) {
		return &ConflictError{Change: Change{first.Object, first.Before, last.After}, Current: current}
	}
	if err := write(first.Object, first.Before); err != nil && !isGone(err) {
		return fmt.Errorf("restore %s to %q: %w", first.Object, first.Before, err)
	}
	return nil
}

// isGone is true for both errors of a removed cgroup: a missing file, or "no such device"
// from a file that was open meanwhile.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
