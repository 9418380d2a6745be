//go:build linux

package classifier

import (
	"net/netip"
	"slices"
)

// Direction is the direction of a packet, as the target sees it.
type Direction string

// The directions, which the API calls flows.
const (
	Egress  Direction = "egress"
	Ingress Direction = "ingress"
)

// Protocol is an IP protocol number; Any matches every protocol.
type Protocol uint8

// The protocols that a rule can select.
const (
	Any Protocol = 0
	TCP Protocol = 6
	UDP Protocol = 17
)

// State is the state of a packet's connection.
type State uint8

// The states. Of TCP, a SYN without ACK is New and everything else is Established. A packet
// of another protocol is Established if its other side has sent between the same addresses
// and ports since the program was attached, else New.
const (
	AnyState    State = 0
	New         State = 1
	Established State = 2
)

// Percent is a share of packets, 0 to 100.
type Percent int

// Match selects packets.
type Match struct {
	Direction Direction
	// Remote is matched against the address of the other end: the destination
	// on egress, the source on ingress. The zero prefix matches every address
	// of both families.
	Remote netip.Prefix
	// Port is the destination port, SourcePort the source port; 0 means any.
	// A match with a port matches TCP and UDP only, and no later fragment.
	Port, SourcePort uint16
	Protocol         Protocol
	State            State
}

// Effect is what happens to the packets of a match. The zero value passes them. Each share
// is drawn separately for each packet, in the order of the fields. A dropped packet is
// neither corrupted nor duplicated. The copy of a corrupted packet is corrupted in the same
// way.
type Effect struct {
	Drop Percent
	// Corrupt flips one bit behind the transport header and leaves a wrong
	// checksum. Linux 5.8.
	Corrupt Percent
	// Duplicate sends or receives the packet twice. A copy is not judged again.
	Duplicate Percent
	// Queue sends packets that are not dropped through the queues of the injection. Only a
	// program that selects packets for a queue uses it.
	Queue bool
}

// Rule is a match and its effect. The first rule that matches a packet decides;
// a packet that matches none passes.
type Rule struct {
	Match
	Effect
}

// Tracks is true if rules depend on the state of connections. The program must then see
// packets of both directions and keep flows.
func Tracks(rules []Rule) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.State != AnyState })
}

// Directions lists the directions in which rules need a program: to disrupt packets, or to
// see answers.
func Directions(rules []Rule) []Direction {
	tracks := Tracks(rules)
	var directions []Direction
	for _, direction := range []Direction{Egress, Ingress} {
		if slices.ContainsFunc(rules, func(r Rule) bool {
			return r.Effect != Effect{} && (r.Direction == direction || tracks)
		}) {
			directions = append(directions, direction)
		}
	}
	return directions
}
