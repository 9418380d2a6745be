//go:build linux

package classifier

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/squall-chaos/squall/test/testneeds"
)

// The rules that drop are those that select: only the verdicts differ.
func TestSelection(t *testing.T) {
	testneeds.BeRoot(t)
	rules := ToQueue([]Rule{
		{Match{Direction: Egress, Remote: prefix("192.0.2.77/32"), Port: 22}, Effect{Drop: 100}},
		{Match{Direction: Egress, Remote: prefix("192.0.2.0/24")}, Effect{Queue: true}},
		{Match{Direction: Egress, Remote: prefix("2001:db8::/32"), Protocol: UDP}, Effect{Queue: true}},
		{Match{Direction: Ingress, Port: 80}, Effect{Drop: 20, Queue: true}},
	})
	out := packet{source: localIPv4, destination: remoteIPv4, protocol: 17, sourcePort: 4000, port: 53}
	in := packet{source: remoteIPv4, destination: localIPv4, protocol: 6, sourcePort: 4000, port: 80}
	out6 := packet{source: localIPv6, destination: remoteIPv6, protocol: 17, sourcePort: 4000, port: 53}
	for name, test := range map[string]struct {
		direction Direction
		packet    packet
		want      bool
	}{
		"what a rule queues":                {Egress, out, true},
		"IPv6":                              {Egress, out6, true},
		"IPv6 of another protocol":          {Egress, out6.with(func(p *packet) { p.protocol = 6 }), false},
		"what an earlier rule only drops":   {Egress, out.with(func(p *packet) { p.port = 22 }), false},
		"what no rule is about":             {Egress, out.with(func(p *packet) { p.destination = "198.51.100.1" }), false},
		"neighbour discovery":               {Egress, out6.with(icmp(135)), false},
		"ARP":                               {Egress, packet{etherType: 0x0806}, false},
		"what comes in":                     {Ingress, in, true},
		"what comes in for another port":    {Ingress, in.with(func(p *packet) { p.port = 81 }), false},
		"a rule of the other direction":     {Ingress, out, false},
		"cut off before its ports, by port": {Ingress, in.with(func(p *packet) { p.cut = 6 }), false},
	} {
		want := uint32(0)
		if test.want {
			want = ^uint32(0)
		}
		for kind, instructions := range map[ebpf.ProgramType]asm.Instructions{
			ebpf.SchedCLS: Program(Spec{Direction: test.direction, Rules: rules, Selects: SelectOnLinks}), ebpf.SocketFilter: Program(Spec{Direction: test.direction, Rules: rules, Selects: SelectOnce}),
		} {
			program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: kind, Instructions: instructions, License: "MIT"})
			if err != nil {
				t.Fatalf("load: %+v", err)
			}
			got, _, err := program.Test(test.packet.bytes())
			program.Close()
			if err != nil || got != want {
				t.Errorf("%s, %s: %d, %v, want %d", name, kind, int32(got), err, int32(want))
			}
		}
	}
}

func TestRulesAreSplitByWhoCarriesThemOut(t *testing.T) {
	rules := []Rule{{Match{Port: 1}, Effect{Drop: 1, Queue: true}}, {Match{Port: 2}, Effect{}}, {Match{Port: 3}, Effect{Duplicate: 5}}}
	want := []Rule{{Match{Port: 1}, Effect{Queue: true}}, {Match{Port: 2}, Effect{}}, {Match{Port: 3}, Effect{}}}
	if got := ToQueue(rules); !slices.Equal(got, want) {
		t.Errorf("ToQueue() = %v, want %v", got, want)
	}
	want = []Rule{{Match{Port: 1}, Effect{Drop: 1}}, {Match{Port: 2}, Effect{}}, {Match{Port: 3}, Effect{Duplicate: 5}}}
	if got := Unqueued(rules); !slices.Equal(got, want) {
		t.Errorf("Unqueued() = %v, want %v", got, want)
	}
}
