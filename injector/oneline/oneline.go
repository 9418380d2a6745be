// Package oneline joins errors into one with a single line, for statuses and events. It
// promises that errors.Is still finds each of them.
package oneline

import (
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/text"
)

// joined is several errors in one line.
type joined []error

// Join separates the errors by semicolons. It is nil if all of them are.
func Join(errs ...error) error {
	kept := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(kept) == 0 {
		return nil
	}
	return joined(kept)
}

// Error separates the errors by semicolons.
func (j joined) Error() string {
	var texts []string
	for _, err := range j {
		texts = append(texts, text.Line(err.Error()))
	}
	return strings.Join(texts, "; ")
}

// Unwrap lets errors.Is look into each.
func (j joined) Unwrap() []error { return j }
