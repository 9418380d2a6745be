package v1beta1

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MostDocument is the longest document of a kind's parameters, in bytes. An
// injector gets it in an environment variable, which Linux limits to 128 KiB;
// the difference is for what Squall adds.
const MostDocument = 100 << 10

// validateSize refuses parameters that do not fit into a chaos pod.
func (s DisruptionSpec) validateSize(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, row := range kindTable {
		params := row.params(s.Faults)
		if params == nil {
			continue
		}
		var tree any
		if err := json.Unmarshal(canonical(params), &tree); err != nil {
			return append(errs, field.InternalError(path.Child(row.Field), err))
		}
		if size := sizeOf(tree); size > MostDocument {
			errs = append(errs, field.Invalid(path.Child(row.Field), field.OmitValueType{}, TooLarge(fmt.Sprint(size))))
		}
	}
	return errs
}

// TooLarge is the error about parameters that are too large.
func TooLarge(size string) string {
	return fmt.Sprintf("it is about %s bytes long as JSON, and a chaos pod takes %d: shorten its lists, or make several disruptions of it",
		size, MostDocument)
}

// sizeOf is about the length of value as JSON. It counts as the rule in the CRD
// does, which cannot write JSON: characters instead of bytes, and a comma after
// the last of several things as well.
func sizeOf(value any) int {
	switch v := value.(type) {
	case map[string]any:
		size := 2
		for name, field := range v {
			size += len(name) + len(`"":,`) + sizeOf(field)
		}
		return size
	case []any:
		size := 2
		for _, item := range v {
			size += sizeOf(item) + 1
		}
		return size
	case string:
		return utf8.RuneCountInString(v) + 2
	case bool:
		return 5
	}
	return len(fmt.Sprint(value))
}
