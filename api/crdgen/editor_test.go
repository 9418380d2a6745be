package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The schemas for editors are those of the CRDs.
func TestEditorSchemasAreCurrent(t *testing.T) {
	want := t.TempDir()
	if err := editorSchemas("../../deploy/crds", want); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(want)
	if err != nil || len(files) != 6 {
		t.Fatalf("%d schemas, %v; want one for each of 6 types", len(files), err)
	}
	for _, file := range files {
		if diff := cmp.Diff(read(t, filepath.Join(want, file.Name())), read(t, filepath.Join("../../deploy/schemas", file.Name()))); diff != "" {
			t.Errorf("deploy/schemas/%s is out of date: make generate (-want +got):\n%s", file.Name(), diff)
		}
	}
}

// A schema refuses unknown fields, and keeps the CRD's description of a field.
func TestStrict(t *testing.T) {
	crd := `{spec: {group: g, names: {kind: Kind}, versions: [{name: v1, schema: {openAPIV3Schema: {type: object, required: [spec], properties: {
		status: {type: object},
		spec: {type: object, properties: {
			count: {anyOf: [{type: integer}, {type: string}], x-kubernetes-int-or-string: true},
			items: {type: array, items: {type: object, properties: {name: {type: string}}}},
			labels: {type: object, additionalProperties: {type: string}}}}}}}}]}}`
	parsed, err := parseCRD([]byte(strings.ReplaceAll(crd, "\t", " ")))
	if err != nil || parsed.kind != "Kind" {
		t.Fatalf("parseCRD() = %q, %v", parsed.kind, err)
	}
	text, err := parsed.editorSchema()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"$schema":"http://json-schema.org/draft-07/schema#","additionalProperties":false,"properties":{` +
		`"apiVersion":{"const":"g/v1"},"kind":{"const":"Kind"},"spec":{"additionalProperties":false,"properties":{` +
		`"count":{"anyOf":[{"type":"integer"},{"type":"string"}]},` +
		`"items":{"items":{"additionalProperties":false,"properties":{"name":{"type":"string"}},"type":"object"},"type":"array"},` +
		`"labels":{"additionalProperties":{"type":"string"},"type":"object"}},"type":"object"}},` +
		`"required":["apiVersion","kind","metadata","spec"],"title":"Kind","type":"object"}`
	if diff := cmp.Diff(decoded(t, []byte(want)), decoded(t, text)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
