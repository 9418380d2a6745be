package manifest

import (
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

var unknownField = regexp.MustCompile(`^unknown field "(.*)"$`)

// problemsOf are the sentences of a decoder's error, one for each problem. An unknown field
// gets the name that was probably meant.
func problemsOf(err error, kind string) []string {
	if joined, several := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); several {
		var problems []string
		for _, one := range joined.Unwrap() {
			problems = append(problems, problemsOf(one, kind)...)
		}
		return problems
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if found := unknownField.FindStringSubmatch(text); found != nil {
		return []string{text + suggest(found[1], kind)}
	}
	return []string{text}
}

// suggest returns what an unknown field was probably meant to be: a field beside it, or one
// of the same name in at most three other places.
func suggest(path, kind string) string {
	root := reflect.TypeFor[v1beta1.Disruption]()
	switch kind {
	case "DisruptionCron":
		root = reflect.TypeFor[v1beta1.DisruptionCron]()
	case "DisruptionRollout":
		root = reflect.TypeFor[v1beta1.DisruptionRollout]()
	case v1beta1.KindDisruptionScenario:
		root = reflect.TypeFor[v1beta1.DisruptionScenario]()
	case "EmergencyStop":
		root = reflect.TypeFor[v1beta1.EmergencyStop]()
	case "DisruptionPolicy":
		root = reflect.TypeFor[v1beta1.DisruptionPolicy]()
	}
	steps := strings.Split(path, ".")
	parent, wrong := root, steps[len(steps)-1]
	for _, step := range steps[:len(steps)-1] {
		name, _, _ := strings.Cut(step, "[")
		next, found := fieldsOf(parent)[name]
		if !found {
			return ""
		}
		parent = next
	}
	beside := fieldsOf(parent)
	if near := didYouMean(wrong, slices.Sorted(maps.Keys(beside))); near != "" {
		return near
	}
	if places := places(root, wrong, 3); len(places) > 0 && len(places) <= 3 {
		return ": its place is " + strings.Join(places, " or ")
	}
	if len(beside) == 0 {
		return ""
	}
	return "; known here are " + strings.Join(slices.Sorted(maps.Keys(beside)), ", ")
}

// fieldsOf are the fields of a type by their names in JSON, with the type of their values,
// or of the items of a list. A map takes every name.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	if t = held(t); t.Kind() != reflect.Struct {
		return fields
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			maps.Copy(fields, fieldsOf(field.Type))
		case name != "" && name != "-":
			fields[name] = held(field.Type)
		}
	}
	return fields
}

// held is the type that a pointer or a list holds.
func held(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// places are the paths below a type that end in a field of that name, at most so many
// levels deep.
func places(t reflect.Type, name string, levels int) []string {
	var found []string
	fields := fieldsOf(t)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if field == name {
			found = append(found, field)
		}
		if levels > 1 && field != "status" && field != "metadata" {
			for _, below := range places(fields[field], name, levels-1) {
				found = append(found, field+"."+below)
			}
		}
	}
	return found
}

// SpecFields are the fields that the spec of a Disruption may have, as far as this
// program knows, in alphabetical order.
func SpecFields() []string {
	return slices.Sorted(maps.Keys(fieldsOf(reflect.TypeFor[v1beta1.DisruptionSpec]())))
}
