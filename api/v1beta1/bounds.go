package v1beta1

import (
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The checks below repeat the schema's own (minimum, maxLength, enum and so on) for
// Validate. Each error names the value and the limit.

func within(path *field.Path, value, least, most int) field.ErrorList {
	if value >= least && value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("want %d to %d", least, most))}
}

func atLeast(path *field.Path, value, least int64) field.ErrorList {
	if value >= least {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("want at least %d", least))}
}

func between(path *field.Path, value, least, most int64) field.ErrorList {
	if value >= least && value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("want %d to %d", least, most))}
}

// length counts characters, as the schema does, not bytes.
func length(path *field.Path, value string, least, most int) field.ErrorList {
	n := utf8.RuneCountInString(value)
	if n >= least && n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("has %d characters, want %d to %d", n, least, most))}
}

func items(path *field.Path, n, least, most int) field.ErrorList {
	if n >= least && n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("has %d items, want %d to %d", n, least, most))}
}

func oneOf(path *field.Path, value string, allowed ...string) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func pattern(path *field.Path, value string, allowed *regexp.Regexp, want string) field.ErrorList {
	if allowed.MatchString(value) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, want)}
}

func unique(path *field.Path, values []string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, value := range values {
		if seen[value] {
			errs = append(errs, field.Duplicate(path.Index(i), value))
		}
		seen[value] = true
	}
	return errs
}
