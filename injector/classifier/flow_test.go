//go:build linux

package classifier

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/squall-chaos/squall/test/testneeds"
)

// The packets of one flow follow each other: one program judges those that leave, the other
// those that arrive.
func TestStatesOfConnections(t *testing.T) {
	testneeds.BeRoot(t)
	const syn, ack = 0x02, 0x10
	tcp := func(flags byte) packet {
		return packet{source: localIPv4, destination: remoteIPv4, protocol: 6, sourcePort: 4000, port: 443, flags: flags}
	}
	udp := packet{source: localIPv4, destination: remoteIPv4, protocol: 17, sourcePort: 4000, port: 53}
	udp6 := packet{source: localIPv6, destination: remoteIPv6, protocol: 17, sourcePort: 4000, port: 53}
	ping := packet{source: localIPv4, destination: remoteIPv4, protocol: 1}
	answer := func(p packet) packet {
		p.source, p.destination, p.sourcePort, p.port = p.destination, p.source, p.port, p.sourcePort
		return p
	}
	type step struct {
		packet packet
		want   State
	}
	for name, steps := range map[string][]step{
		"TCP: SYN alone is new": {{tcp(syn), New}, {tcp(syn), New}, {answer(tcp(syn)), New}},
		"TCP: everything else is established": {{tcp(ack), Established}, {answer(tcp(syn | ack)), Established},
			{tcp(0x18), Established}, {tcp(0x01), Established}},
		"TCP: the flags are behind options":  {{tcp(syn).with(func(p *packet) { p.options = 12 }), New}},
		"TCP: a later fragment has no flags": {{tcp(syn).with(func(p *packet) { p.fragment = 0x10 }), Established}},
		"UDP: new until it is answered":      {{udp, New}, {udp, New}, {answer(udp), Established}, {udp, Established}},
		"UDP: asked from outside":            {{answer(udp), New}, {answer(udp), New}, {udp, Established}, {answer(udp), Established}},
		"UDP: another port is another flow":  {{udp, New}, {answer(udp), Established}, {udp.with(func(p *packet) { p.sourcePort++ }), New}},
		"UDP over IPv6":                      {{udp6, New}, {answer(udp6), Established}, {udp6, Established}},
		"ICMP: new until it is answered":     {{ping, New}, {answer(ping), Established}, {ping, Established}},
	} {
		t.Run(name, func(t *testing.T) {
			// Each direction and state has a program that drops it. Both directions of a state share
			// the flows, so each sees every packet.
			programs := map[State]map[Direction]*ebpf.Program{}
			for _, state := range []State{New, Established} {
				flows, err := NewFlows()
				if err != nil {
					t.Fatal(err)
				}
				defer flows.Close()
				programs[state] = map[Direction]*ebpf.Program{}
				for _, direction := range []Direction{Egress, Ingress} {
					programs[state][direction] = loadSpec(t, Spec{Direction: direction, Flows: flows,
						Rules: []Rule{{Match{Direction: direction, State: state}, Effect{Drop: 100}}}})
				}
			}
			for at, step := range steps {
				direction := Egress
				if step.packet.source != localIPv4 && step.packet.source != localIPv6 {
					direction = Ingress
				}
				for state, of := range programs {
					got, _, err := of[direction].Test(step.packet.bytes())
					if err != nil {
						t.Fatal(err)
					}
					if want := map[bool]uint32{true: drops, false: passes}[state == step.want]; got != want {
						t.Errorf("packet %d: state %d has verdict %d, want it to be of state %d", at, state, int32(got), step.want)
					}
				}
			}
		})
	}
}

func TestDirectionsOfStates(t *testing.T) {
	rules := []Rule{{Match{Direction: Egress, State: New}, Effect{Drop: 1}}}
	if got := Directions(rules); len(got) != 2 {
		t.Errorf("Directions(%v) = %v, want both: what is answered must be seen", rules, got)
	}
}
