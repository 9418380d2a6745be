// Package create is squall create: it makes a manifest from answers. The questions are the
// fields of the fault's sample, in its order and with its values proposed. The schema has
// their meaning, so a new fault has its questions without more code. The drafts ask nothing;
// the command does.
package create

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/manifest"
	"github.com/squall-chaos/squall/deploy"
)

// Nothing is the answer that leaves a field out.
const Nothing = "-"

// Question is about one field.
type Question struct {
	// Field is its path, such as metadata.name or spec.network.drop.
	Field string
	// About is a sentence on the meaning of the field.
	About string
	// Proposed is the value in the sample.
	Proposed string
}

// Kind is a fault that a manifest can have.
type Kind struct {
	v1beta1.Kind
	// About is a sentence on what it does.
	About string
	// Field is its place in the spec.
	Field string
}

// Kinds are the faults that a user can choose, in the order of the API.
func Kinds() ([]Kind, error) {
	spec, err := specSchema()
	if err != nil {
		return nil, err
	}
	var kinds []Kind
	for _, row := range v1beta1.KindTable() {
		kinds = append(kinds, Kind{row.Kind, sentence(spec.Properties[row.Field].Description), row.Field})
	}
	return kinds, nil
}

// Draft is a manifest that is being written. It keeps the comments of the sample.
type Draft struct {
	document *yaml.Node
	spec     schema
	kind     string // its field in the spec
	rules    manifest.Rules
}

// New begins with the sample of a kind. Triggers are judged as of now.
func New(kind v1beta1.Kind, now time.Time, chaosNamespace string) (*Draft, error) {
	sample, err := deploy.Sample(kind)
	if err != nil {
		return nil, err
	}
	spec, err := specSchema()
	if err != nil {
		return nil, err
	}
	document := &yaml.Node{}
	if err := yaml.Unmarshal(sample, document); err != nil {
		return nil, fmt.Errorf("read the sample of %s: %w", kind, err)
	}
	keepFirst(document)
	// they are about the unchanged sample
	document.HeadComment, document.Content[0].HeadComment = "", ""
	if content := document.Content[0].Content; len(content) > 0 {
		content[0].HeadComment = ""
	}
	d := &Draft{document: document, spec: spec, rules: manifest.Rules{Now: now, ChaosNamespace: chaosNamespace}}
	for _, row := range v1beta1.KindTable() {
		if row.Kind == kind {
			d.kind = row.Field
		}
	}
	return d, nil
}

// Questions are about the name, the namespace and each field of the sample.
func (d *Draft) Questions() []Question {
	questions := []Question{
		{Field: "metadata.name", About: "Name is that of the Disruption.", Proposed: child(child(d.root(), "metadata"), "name").Value},
		{Field: "metadata.namespace", About: "Namespace is that of the targets; nothing means the one of the kubeconfig.", Proposed: Nothing},
	}
	return append(questions, d.questions("", child(d.root(), "spec"))...)
}

// questions are about the fields below a path of the spec.
func (d *Draft) questions(path string, node *yaml.Node) []Question {
	var questions []Question
	for i := 0; i < len(node.Content); i += 2 {
		field, value := strings.TrimPrefix(path+"."+node.Content[i].Value, "."), node.Content[i+1]
		s, _ := at(d.spec, field)
		switch {
		case leaf(s):
			questions = append(questions, Question{Field: "spec." + field, About: sentence(s.Description), Proposed: shown(value)})
		case value.Kind == yaml.SequenceNode:
			questions = append(questions, d.questions(field+"[0]", value.Content[0])...)
		default:
			questions = append(questions, d.questions(field, value)...)
		}
	}
	return questions
}

// Others are the fields without a value: those of the kind, and those of the spec that are
// no kind.
func (d *Draft) Others() []string {
	spec := child(d.root(), "spec")
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(d.spec.Properties[d.kind].Properties)) {
		if kind := child(spec, d.kind); kind == nil || child(kind, name) == nil {
			fields = append(fields, "spec."+d.kind+"."+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.spec.Properties)) {
		kind := slices.ContainsFunc(v1beta1.KindTable(), func(row v1beta1.KindRow) bool { return row.Field == name })
		if !kind && child(spec, name) == nil {
			fields = append(fields, "spec."+name)
		}
	}
	return fields
}

// Ask returns the question about any field. For an unknown field the error names the
// nearest known one. The field may omit the kind before it.
func (d *Draft) Ask(field string) (Question, error) {
	field = strings.TrimPrefix(field, "spec.")
	for _, path := range []string{field, d.kind + "." + field} {
		if s, found := at(d.spec, path); found {
			return Question{Field: "spec." + path, About: sentence(s.Description), Proposed: Nothing}, nil
		}
	}
	err := fmt.Errorf("there is no field %q", field)
	known := d.Others()
	for _, name := range known {
		known = append(known, name[strings.LastIndex(name, ".")+1:])
	}
	if near := manifest.Nearest(field, known); near != "" {
		err = fmt.Errorf("%w: did you mean %q?", err, near)
	}
	return Question{}, err
}

// Answer gives a field its value, as YAML or in the short forms a, b for a list and a=b,
// c=d for labels; Nothing leaves it out. An answer that the rules refuse changes nothing.
// Problems reports what is wrong with other fields.
func (d *Draft) Answer(field, answer string) error {
	value, err := d.parse(field, strings.TrimSpace(answer))
	if err != nil {
		return err
	}
	before := clone(d.document)
	if err := put(d.root(), strings.Split(field, "."), value); err != nil {
		return err
	}
	if own := about(field, d.Problems()); len(own) > 0 {
		d.document = before
		return errors.New(strings.Join(own, "; "))
	}
	return nil
}

// Problems are the problems of the whole manifest, as squall validate reports them.
func (d *Draft) Problems() []string { return d.checked().Problems }

// checked is the manifest as squall validate reads it.
func (d *Draft) checked() manifest.Document {
	documents := manifest.Read("", d.YAML())
	manifest.Check(documents, d.rules)
	return documents[0]
}

// about are the problems of a field, and those that name no field of the spec because the
// document cannot be decoded.
func about(field string, problems []string) []string {
	var own []string
	for _, problem := range problems {
		where, text, named := strings.Cut(problem, ": ")
		switch {
		case named && (strings.HasPrefix(where, "spec") || strings.HasPrefix(where, "metadata")):
			if where == field || strings.HasPrefix(where, field+".") || strings.HasPrefix(where, field+"[") {
				own = append(own, text)
			}
		default:
			own = append(own, problem)
		}
	}
	return own
}

// YAML is the manifest.
func (d *Draft) YAML() []byte {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	_ = encoder.Encode(d.document) // into memory, of what was read or parsed
	return text.Bytes()
}

// Disruption is the object of the manifest; nil while it has problems.
func (d *Draft) Disruption() *v1beta1.Disruption {
	if checked := d.checked(); len(checked.Problems) == 0 {
		return checked.Disruption
	}
	return nil
}

func (d *Draft) root() *yaml.Node { return d.document.Content[0] }

// parse makes a value of an answer; nil for Nothing.
func (d *Draft) parse(field, answer string) (*yaml.Node, error) {
	if answer == Nothing || answer == "" {
		return nil, nil
	}
	s, found := at(d.spec, strings.TrimPrefix(field, "spec."))
	switch {
	case !found || s.Type == "string" && !s.XIntOrString:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: answer}, nil
	case s.Type == "array" && !strings.HasPrefix(answer, "["):
		answer = "[" + answer + "]"
	case s.Type == "object" && !strings.HasPrefix(answer, "{"):
		answer = "{" + strings.ReplaceAll(answer, "=", ": ") + "}"
	}
	var value yaml.Node
	if err := yaml.Unmarshal([]byte(answer), &value); err != nil {
		return nil, fmt.Errorf("%q cannot be understood: %w", answer, err)
	}
	return value.Content[0], nil
}

// put sets the value at a path below a map, or removes it.
func put(node *yaml.Node, path []string, value *yaml.Node) error {
	name, index, item := strings.Cut(path[0], "[")
	next := child(node, name)
	if len(path) == 1 && !item {
		switch {
		case value == nil:
			remove(node, name)
		case next == nil:
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
		default:
			value.HeadComment, value.LineComment, value.FootComment = next.HeadComment, next.LineComment, next.FootComment
			*next = *value
		}
		return nil
	}
	if next == nil {
		next = &yaml.Node{Kind: yaml.MappingNode}
		if item {
			next.Kind = yaml.SequenceNode
		}
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, next)
	}
	if item {
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || i < 0 || i > len(next.Content) {
			return fmt.Errorf("%s: want the number of an item, up to %d", path[0], len(next.Content))
		}
		if i == len(next.Content) {
			next.Content = append(next.Content, &yaml.Node{Kind: yaml.MappingNode})
		}
		next = next.Content[i]
	}
	if len(path) == 1 {
		return fmt.Errorf("%s: name a field of the item, such as %s.NAME", path[0], path[0])
	}
	if err := put(next, path[1:], value); err != nil {
		return err
	}
	if len(next.Content) == 0 && value == nil {
		remove(node, name)
	}
	return nil
}

// keepFirst leaves one item of each list of objects: a person writes more by hand.
func keepFirst(node *yaml.Node) {
	if node.Kind == yaml.SequenceNode && len(node.Content) > 0 && node.Content[0].Kind == yaml.MappingNode {
		node.Content = node.Content[:1]
	}
	for _, below := range node.Content {
		keepFirst(below)
	}
}

func child(node *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i+1]
		}
	}
	return nil
}

func remove(node *yaml.Node, name string) {
	for i := 0; i < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			node.Content = slices.Delete(node.Content, i, i+2)
			return
		}
	}
}

func clone(node *yaml.Node) *yaml.Node {
	if node == nil {
		return nil
	}
	copied := *node
	copied.Content = nil
	for _, below := range node.Content {
		copied.Content = append(copied.Content, clone(below))
	}
	return &copied
}

// shown is a value as a question shows it.
func shown(value *yaml.Node) string {
	var parts []string
	switch value.Kind {
	case yaml.SequenceNode:
		for _, item := range value.Content {
			parts = append(parts, item.Value)
		}
	case yaml.MappingNode:
		for i := 0; i < len(value.Content); i += 2 {
			parts = append(parts, value.Content[i].Value+"="+value.Content[i+1].Value)
		}
	default:
		return value.Value
	}
	return strings.Join(parts, ", ")
}
