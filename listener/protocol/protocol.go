// Package protocol has the messages and methods for applications that can be disrupted.
// They are those of chaos-controller's listener, with its names and numbers, so that an
// application with that listener needs no change.
package protocol

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// The service and its methods. Both return an empty message; Disrupt returns the code
// ALREADY_EXISTS while any endpoint is altered.
const (
	Service          = "disruptionlistener.DisruptionListener"
	Disrupt          = "Disrupt"
	ResetDisruptions = "ResetDisruptions"
)

// Path is a method's name in a call.
func Path(method string) string { return "/" + Service + "/" + method }

// Spec is the argument of Disrupt: each endpoint once.
type Spec struct {
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is a method, as /package.Service/Method, with its alterations.
type Endpoint struct {
	TargetEndpoint string       `json:"targetEndpoint,omitempty"`
	Alterations    []Alteration `json:"alterations,omitempty"`
}

// Alteration replaces the answer, with the name of a code or "{}", for this many of 100
// calls. 0 means an equal share of the rest.
type Alteration struct {
	ErrorToReturn    string `json:"errorToReturn,omitempty"`
	OverrideToReturn string `json:"overrideToReturn,omitempty"`
	QueryPercent     int32  `json:"queryPercent,omitempty"`
}

// NewMessage returns an empty DisruptionSpec to decode into.
func NewMessage() proto.Message { return dynamicpb.NewMessage(specDescriptor) }

// Encode makes a DisruptionSpec.
func Encode(spec Spec) (proto.Message, error) {
	document, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	message := NewMessage()
	if err := protojson.Unmarshal(document, message); err != nil {
		return nil, fmt.Errorf("encode a DisruptionSpec: %w", err)
	}
	return message, nil
}

// Decode reads a message of NewMessage.
func Decode(message proto.Message) (Spec, error) {
	var spec Spec
	document, err := protojson.Marshal(message)
	if err == nil {
		err = json.Unmarshal(document, &spec)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("decode a DisruptionSpec: %w", err)
	}
	return spec, nil
}

// specDescriptor describes DisruptionSpec. It is in no registry, so that it conflicts with
// no other copy of these messages.
var specDescriptor = describe()

func describe() protoreflect.MessageDescriptor {
	const (
		text   = descriptorpb.FieldDescriptorProto_TYPE_STRING
		number = descriptorpb.FieldDescriptorProto_TYPE_INT32
	)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("disruptionlistener.proto"), Package: proto.String("disruptionlistener"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("DisruptionSpec", repeated("endpoints", 1, "EndpointSpec")),
			message("EndpointSpec", single("targetEndpoint", 1, text), repeated("alterations", 2, "AlterationSpec")),
			message("AlterationSpec", single("errorToReturn", 1, text), single("overrideToReturn", 2, text), single("queryPercent", 3, number)),
		},
	}, nil)
	if err != nil {
		panic(err) // it is constant: every test would see it
	}
	return file.Messages().ByName("DisruptionSpec")
}

func message(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
	return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
}

func single(name string, number int32, of descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: of.Enum(),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
}

func repeated(name string, number int32, of string) *descriptorpb.FieldDescriptorProto {
	field := single(name, number, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	field.Label, field.TypeName = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(), proto.String(".disruptionlistener."+of)
	return field
}
