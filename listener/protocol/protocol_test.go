package protocol

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// An application with chaos-controller's listener reads fields by their numbers, so the
// test writes them out.
func TestMessageOnTheWire(t *testing.T) {
	text := func(number protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	within := func(number protowire.Number, parts ...[]byte) []byte {
		var inside []byte
		for _, part := range parts {
			inside = append(inside, part...)
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), inside)
	}
	percent := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 30)
	want := within(1, text(1, "/a.B/c"), within(2, text(1, "ABORTED"), percent), within(2, text(2, "{}")))

	spec := Spec{Endpoints: []Endpoint{{TargetEndpoint: "/a.B/c",
		Alterations: []Alteration{{ErrorToReturn: "ABORTED", QueryPercent: 30}, {OverrideToReturn: "{}"}}}}}
	message, err := Encode(spec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("DisruptionSpec (-want +got):\n%s", diff)
	}
	read := NewMessage()
	if err := proto.Unmarshal(want, read); err != nil {
		t.Fatal(err)
	}
	decoded, err := Decode(read)
	if diff := cmp.Diff(spec, decoded); diff != "" || err != nil {
		t.Errorf("read (-want +got), %v:\n%s", err, diff)
	}
	if Path(Disrupt) != "/disruptionlistener.DisruptionListener/Disrupt" || Path(ResetDisruptions) != "/disruptionlistener.DisruptionListener/ResetDisruptions" {
		t.Errorf("methods = %s, %s", Path(Disrupt), Path(ResetDisruptions))
	}
}
