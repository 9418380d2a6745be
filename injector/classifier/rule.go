package classifier

import (
	"net/netip"
	"slices"
)

// Direction is where a packet goes, seen from the target.
type Direction string

// The directions; in the API's words they are flows.
const (
	Egress  Direction = "egress"
	Ingress Direction = "ingress"
)

// Protocol is an IP protocol number; Any matches every protocol.
type Protocol uint8

// The protocols a rule can ask for.
const (
	Any Protocol = 0
	TCP Protocol = 6
	UDP Protocol = 17
)

// Percent is the share of packets dropped, 0 to 100. 0 lets all pass.
type Percent int

// Pass is the verdict that drops nothing.
const Pass Percent = 0

// Match says which packets are meant.
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
}

// Effect is what happens to the packets of a match. The zero value lets them
// pass.
type Effect struct {
	Drop Percent
}

// Rule is a match and its effect. The first rule that matches a packet decides;
// a packet that matches none passes.
type Rule struct {
	Match
	Effect
}

// Directions lists the directions in which rules can drop anything.
func Directions(rules []Rule) []Direction {
	var directions []Direction
	for _, direction := range []Direction{Egress, Ingress} {
		if slices.ContainsFunc(rules, func(r Rule) bool { return r.Direction == direction && r.Drop > 0 }) {
			directions = append(directions, direction)
		}
	}
	return directions
}
