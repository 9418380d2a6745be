package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// editorSchemas writes the JSON Schema of each CRD in crds into the directory schemas, as
// KIND.json in lower case. Editors complete and check manifests with it.
func editorSchemas(crds, schemas string) error {
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs in %s: %w", crds, err)
	}
	for _, file := range files {
		read, err := readCRD(file)
		if err != nil {
			return err
		}
		text, err := read.editorSchema()
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(schemas, strings.ToLower(read.kind)+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// editorSchema returns the JSON Schema of a CRD. It has no status, which users do not write.
func (c crd) editorSchema() ([]byte, error) {
	of := strict(c.object)
	properties := of["properties"].(map[string]any)
	delete(properties, "status")
	properties["apiVersion"] = map[string]any{"const": c.group + "/" + c.version}
	properties["kind"] = map[string]any{"const": c.kind}
	required, _ := of["required"].([]any)
	of["required"] = append([]any{"apiVersion", "kind", "metadata"}, required...)
	of["$schema"], of["title"] = "http://json-schema.org/draft-07/schema#", c.kind
	text, err := json.MarshalIndent(of, "", " ")
	return append(text, '\n'), err
}

// strict returns a schema without the extensions of Kubernetes that refuses unknown fields,
// as the API server does.
func strict(s map[string]any) map[string]any {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(key string, _ any) bool { return strings.HasPrefix(key, "x-kubernetes-") })
	if inner, found := s["properties"].(map[string]any); found {
		properties := map[string]any{}
		for name, property := range inner {
			properties[name] = strict(property.(map[string]any))
		}
		out["properties"] = properties
		if s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] != true {
			out["additionalProperties"] = false
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, found := s[key].(map[string]any); found {
			out[key] = strict(inner)
		}
	}
	return out
}
