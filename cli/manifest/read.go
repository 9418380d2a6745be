// Package manifest reads files of manifests and reports every problem without a cluster:
// what the API server would refuse, and what the workflow would reject.
package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Document is one manifest of a file.
type Document struct {
	// File is its name, and Line the line of the file on which it begins.
	File string
	Line int
	metav1.TypeMeta
	Namespace string
	Name      string
	// Disruption, or the field of its kind, is the decoded object; none for a document with
	// problems, or of another API group.
	Disruption         *v1beta1.Disruption
	DisruptionCron     *v1beta1.DisruptionCron
	DisruptionRollout  *v1beta1.DisruptionRollout
	DisruptionScenario *v1beta1.DisruptionScenario
	EmergencyStop      *v1beta1.EmergencyStop
	Policy             *v1beta1.DisruptionPolicy
	// Foreign is true for a document of another API group, which squall does not judge.
	Foreign bool
	// Problems are what is wrong with it, each a sentence for a person.
	Problems []string
}

// String names the document for a person.
func (d Document) String() string {
	name := d.Name
	if d.Namespace != "" {
		name = d.Namespace + "/" + name
	}
	return strings.TrimSpace(d.Kind + " " + name)
}

// Read splits a file into its documents and decodes each as strictly as the API
// server at its strictest. Documents without content are left out; a List
// stands for its items.
func Read(file string, content []byte) []Document {
	var documents []Document
	for _, part := range split(content) {
		documents = append(documents, read(file, part.line, part.text)...)
	}
	return documents
}

// kinds are the kinds that Read decodes, with their decoders.
var kinds = map[string]func(*Document, []byte) error{
	"Disruption": func(d *Document, text []byte) (err error) {
		d.Disruption, err = v1beta1.Decode(text)
		return err
	},
	"DisruptionCron": func(d *Document, text []byte) error {
		d.DisruptionCron = &v1beta1.DisruptionCron{}
		return strictly(text, d.DisruptionCron)
	},
	"DisruptionRollout": func(d *Document, text []byte) error {
		d.DisruptionRollout = &v1beta1.DisruptionRollout{}
		return strictly(text, d.DisruptionRollout)
	},
	v1beta1.KindDisruptionScenario: func(d *Document, text []byte) error {
		d.DisruptionScenario = &v1beta1.DisruptionScenario{}
		return strictly(text, d.DisruptionScenario)
	},
	"EmergencyStop": func(d *Document, text []byte) error {
		d.EmergencyStop = &v1beta1.EmergencyStop{}
		return strictly(text, d.EmergencyStop)
	},
	"DisruptionPolicy": func(d *Document, text []byte) error {
		d.Policy = &v1beta1.DisruptionPolicy{}
		return strictly(text, d.Policy)
	},
}

func read(file string, line int, text []byte) []Document {
	d := Document{File: file, Line: line}
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	var content any
	if err := yaml.Unmarshal(text, &content); err != nil {
		d.Problems = []string{invalidYAML(err, line)}
		return []Document{d}
	}
	if content == nil {
		return nil
	}
	_ = yaml.Unmarshal(text, &head) // the decoder below reports fields of another type
	d.TypeMeta, d.Namespace, d.Name = head.TypeMeta, head.Metadata.Namespace, head.Metadata.Name
	if d.Name == "" && head.Metadata.GenerateName != "" {
		d.Name = head.Metadata.GenerateName + "*"
	}
	if d.Kind == "List" && d.APIVersion == "v1" {
		if _, err := yaml.YAMLToJSONStrict(text); err != nil {
			d.Problems = problemsOf(err, d.Kind)
			return []Document{d}
		}
		var items []Document
		for _, item := range head.Items {
			items = append(items, read(file, line, item)...)
		}
		return items
	}
	if d.Problems = d.unknown(); len(d.Problems) > 0 || d.Foreign {
		return []Document{d}
	}
	if err := kinds[d.Kind](&d, text); err != nil {
		d.Disruption, d.DisruptionCron, d.DisruptionRollout, d.DisruptionScenario, d.EmergencyStop, d.Policy = nil, nil, nil, nil, nil, nil
		d.Problems = problemsOf(err, d.Kind)
		if typeMismatch.MatchString(err.Error()) {
			d.Problems = append(d.Problems[:0], judgeSchema(d.Kind, text)...)
		}
	} else if d.Policy != nil {
		d.Problems = judgeSchema(d.Kind, text)
	}
	return []Document{d}
}

// typeMismatch matches the error of a decoder about a value of another type.
var typeMismatch = regexp.MustCompile(`json: cannot unmarshal `)

// yamlLine matches the line of an error of the YAML parser, counted from the document.
var yamlLine = regexp.MustCompile(`yaml: line (\d+): `)

// invalidYAML is the message for an error of the YAML parser, with the line of the file.
// first is the line on which the document begins.
func invalidYAML(err error, first int) string {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	if found := yamlLine.FindStringSubmatchIndex(text); found != nil {
		if line, bad := strconv.Atoi(text[found[2]:found[3]]); bad == nil {
			text = fmt.Sprintf("line %d: %s", first+line-1, text[found[1]:])
		}
	}
	if strings.Contains(text, "tab character") || strings.Contains(text, "cannot start any token") {
		text += "; indent with spaces"
	}
	return "invalid YAML: " + text
}

// unknown returns the problems of kind and apiVersion, and marks documents of other groups.
func (d *Document) unknown() []string {
	group, _, _ := strings.Cut(d.APIVersion, "/")
	names := slices.Sorted(maps.Keys(kinds))
	switch {
	case d.Kind == "" && d.APIVersion == "":
		return []string{fmt.Sprintf("it has neither kind nor apiVersion: a disruption begins with apiVersion: %s and kind: Disruption", v1beta1.GroupVersion)}
	case d.APIVersion == v1beta1.GroupVersion.String() && kinds[d.Kind] != nil:
		return nil
	case group == v1beta1.GroupVersion.Group && kinds[d.Kind] == nil:
		return []string{fmt.Sprintf("kind %q is not known%s", d.Kind, cmp.Or(didYouMean(d.Kind, names), "; known are "+strings.Join(names, ", ")))}
	case kinds[d.Kind] != nil || Nearest(group, []string{v1beta1.GroupVersion.Group}) != "":
		return []string{fmt.Sprintf("apiVersion is %q: write %s", d.APIVersion, v1beta1.GroupVersion)}
	}
	d.Foreign = true
	return nil
}

func strictly(text []byte, into any) error {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	return errors.Join(append(strict, err)...)
}

type part struct {
	line int
	text []byte
}

// split cuts a stream at its document markers.
func split(content []byte) []part {
	parts := []part{{line: 1}}
	for number, line := range bytes.SplitAfter(content, []byte("\n")) {
		last := &parts[len(parts)-1]
		if rest, marker := bytes.CutPrefix(line, []byte("---")); marker && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			parts = append(parts, part{line: number + 2})
			continue
		}
		last.text = append(last.text, line...)
	}
	return parts
}
