package v1beta1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	kjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// Decode reads one Disruption from YAML or JSON and is as strict as the API
// server at its strictest: unknown fields, repeated keys, wrong types, another
// API version and a second document are errors. It neither sets defaults nor
// validates; call Default and Validate.
func Decode(manifest []byte) (*Disruption, error) {
	document, err := onlyDocument(manifest)
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	data, err := sigsyaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	d := &Disruption{}
	strict, err := kjson.UnmarshalStrict(data, d)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, fmt.Errorf("read the disruption: %w", err)
	}
	if want := GroupVersion.String(); d.APIVersion != want || d.Kind != "Disruption" {
		return nil, fmt.Errorf("read the disruption: it is a %q of %q, want a \"Disruption\" of %q: change kind or apiVersion",
			d.Kind, d.APIVersion, want)
	}
	return d, nil
}

// onlyDocument refuses a second document: it would be ignored in silence.
func onlyDocument(manifest []byte) ([]byte, error) {
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	var only []byte
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return only, nil
		}
		if err != nil {
			return nil, err
		}
		var content any
		if err := sigsyaml.Unmarshal(document, &content); err != nil {
			return nil, err
		}
		if content == nil {
			continue // nothing but comments
		}
		if only != nil {
			return nil, errors.New("it holds more than one document: split it")
		}
		only = document
	}
}
