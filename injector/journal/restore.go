package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// ConflictError says that a value is neither what it was before the change nor
// what the change made of it, so that putting it back could harm somebody
// else's work. Test for it with errors.As.
type ConflictError struct {
	Change
	Current string
}

// Error names the object and the three values.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is %q: somebody changed it after the injection made %q of %q; it is left as it is",
		e.Object, e.Current, e.After, e.Before)
}

// Restore puts one value back: what the change made is replaced by what was
// there before, what was there before is left, and anything else is left too
// and returned as a *ConflictError. An object that is gone needs nothing. Read
// must return the value in the form in which it was noted. It is idempotent.
func Restore(change Change, read func(object string) (string, error), write func(object, value string) error) error {
	current, err := read(change.Object)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", change.Object, err)
	}
	if current == change.Before {
		return nil
	}
	if current != change.After {
		return &ConflictError{Change: change, Current: current}
	}
	if err := write(change.Object, change.Before); err != nil && !isGone(err) {
		return fmt.Errorf("restore %s to %q: %w", change.Object, change.Before, err)
	}
	return nil
}

// Restore puts back all changes, the last first, and goes on after an error.
func (j *Journal) Restore(read func(object string) (string, error), write func(object, value string) error) error {
	var errs []error
	for _, change := range slices.Backward(j.record.Changes) {
		errs = append(errs, Restore(change, read, write))
	}
	return errors.Join(errs...)
}

// isGone knows both ways in which a removed cgroup shows itself: its files are
// missing, or one that was open meanwhile answers "no such device".
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) }
