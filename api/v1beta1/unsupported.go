package v1beta1

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// unsupportedFields are the fields that cannot be used yet of kinds that can.
// Validate refuses them and the kinds of which the table of kinds says that they
// are missing, and crdgen writes the same refusals into the CRD. Nothing else
// says so: delete a line when its injector is there and run make generate.
var unsupportedFields = []UnsupportedField{
	{Path: "network.duplicate", Why: "drop is the only thing done to packets"},
	{Path: "network.corrupt", Why: "drop is the only thing done to packets"},
	{Path: "network.delay", Why: "drop is the only thing done to packets"},
	{Path: "network.bandwidthLimit", Why: "drop is the only thing done to packets"},
	{Path: "network.services", Why: "name the service's addresses in network.hosts"},
	{Path: "network.cloud", Why: "name the provider's addresses in network.hosts"},
	{Path: "network.http", Why: "requests cannot be told apart; use network.hosts with a port"},
	{Path: "network.hosts[].connState", Why: "all connections are disturbed; remove it"},
	{Path: "network.hosts[].dnsResolver", Why: "remove it"},
	{Path: "network.hosts[].percentage", Why: "all addresses of a host are disturbed; remove it"},
	{Path: "network.allowedHosts[].connState", Why: "all connections are spared; remove it"},
	{Path: "network.allowedHosts[].dnsResolver", Why: "remove it"},
	{Path: "network.allowedHosts[].percentage", Why: "all addresses of a host are spared; remove it"},
	{Path: "onInit", Why: "only pods that run can be disturbed; remove it"},
	{Path: "pulse", Why: "an injection lasts until the disruption ends; remove it"},
}

// UnsupportedField is a field of the spec that has to be left out for now.
//
// +kubebuilder:object:generate=false
type UnsupportedField struct {
	// Path of the field below spec; "hosts[]" means any item of hosts.
	Path string
	// Level is where the field cannot be used; empty means at every level.
	Level Level
	// Why says what is missing, or what to do instead.
	Why string
}

// Unsupported lists the fields of the spec that have to be left out for now.
func Unsupported() []UnsupportedField {
	var all []UnsupportedField
	for _, row := range kindTable {
		if row.Missing != "" {
			all = append(all, UnsupportedField{Path: row.Field, Why: row.Missing})
		}
	}
	return append(all, unsupportedFields...)
}

// Message is what a user of the field is told.
func (u UnsupportedField) Message() string {
	name := strings.ReplaceAll(u.Path, "[]", "")
	if u.Level != "" {
		name += " at level " + string(u.Level)
	}
	return name + " is not supported yet: " + u.Why
}

// FieldPath is the field as errors name it. Items of lists have no number
// there, because one refusal stands for all of them.
func (u UnsupportedField) FieldPath() string {
	list, _, _ := strings.Cut(u.Path, "[]")
	return list
}

func (s DisruptionSpec) validateSupported(path *field.Path, unsupported []UnsupportedField) field.ErrorList {
	var tree map[string]any
	if err := json.Unmarshal(canonical(s), &tree); err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	var errs field.ErrorList
	for _, u := range unsupported {
		elsewhere := u.Level != "" && u.Level != s.Level
		if !elsewhere && isSet(tree, strings.Split(u.Path, ".")) {
			errs = append(errs, field.Forbidden(path.Child(u.FieldPath()), u.Message()))
		}
	}
	return errs
}

// isSet is true when the field at path asks for something: an object does by
// being there, anything else by not being empty.
func isSet(value any, path []string) bool {
	if len(path) == 0 {
		_, object := value.(map[string]any)
		return object || !isEmpty(value)
	}
	parent, _ := value.(map[string]any)
	name, list := strings.CutSuffix(path[0], "[]")
	if !list {
		return isSet(parent[name], path[1:])
	}
	items, _ := parent[name].([]any)
	for _, item := range items {
		if isSet(item, path[1:]) {
			return true
		}
	}
	return false
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case bool:
		return !v
	case float64:
		return v == 0
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	}
	return value == nil
}
