//go:build linux

package attach

import (
	"net/netip"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
)

// Link is a network interface with the properties that the choice of hooks needs.
type Link struct {
	Index int
	Name  string
	// Type is the kernel's name, such as "veth", "bond" or "vlan".
	Type     string
	Loopback bool
	// Parent is the link below a stacked one, 0 if that is in another namespace or does not
	// exist. Master is the link it is a part of.
	Parent, Master int
}

// Hook is one direction of one link, where a program is attached.
type Hook struct {
	Index     int
	Name      string
	Direction classifier.Direction
}

// Hooks chooses where programs are attached: on every link of the namespace, but so that a
// packet is judged once on its way through stacked links. It omits the loopback link at
// node level. At pod level loopback has only an egress, as each of its packets would be
// judged twice.
func Hooks(links []Link, level v1beta1.Level, directions []classifier.Direction) []Hook {
	types := map[int]string{}
	for _, link := range links {
		types[link.Index] = link.Type
	}
	var hooks []Hook
	for _, link := range links {
		if judgedElsewhere(link, types) || (link.Loopback && level == v1beta1.LevelNode) {
			continue
		}
		for _, direction := range directions {
			if link.Loopback && direction == classifier.Ingress {
				continue
			}
			hooks = append(hooks, Hook{link.Index, link.Name, direction})
		}
	}
	return hooks
}

// IngressAt omits the ingress of links that carry none of these addresses, nor are below a
// link that does. On a node such links lead to other pods, with packets for other
// addresses. If no link carries one, as with address translation, it omits nothing.
func IngressAt(hooks []Hook, links []Link, carried map[int][]netip.Addr, addresses []netip.Addr) []Hook {
	byIndex, ours := map[int]Link{}, map[int]bool{}
	for _, link := range links {
		byIndex[link.Index] = link
	}
	for _, link := range links {
		if !slices.ContainsFunc(carried[link.Index], func(a netip.Addr) bool { return slices.Contains(addresses, a) }) {
			continue
		}
		for at := link; !ours[at.Index]; at = byIndex[at.Parent] {
			ours[at.Index] = true
		}
	}
	left := slices.DeleteFunc(slices.Clone(hooks), func(h Hook) bool { return h.Direction == classifier.Ingress && !ours[h.Index] })
	if !slices.ContainsFunc(left, func(h Hook) bool { return h.Direction == classifier.Ingress }) {
		return hooks
	}
	return left
}

// judgedElsewhere is true for links whose packets pass another link of the namespace as
// well: those of a VLAN pass its parent, those of a bond's part pass the bond. Packets in
// or out through a bridge pass the bridge itself; packets between its ports are not the
// target's own traffic.
func judgedElsewhere(link Link, types map[int]string) bool {
	if slices.Contains([]string{"bond", "team", "bridge"}, types[link.Master]) {
		return true
	}
	if link.Type == "ifb" {
		return true // its packets come from another link, and return there
	}
	_, here := types[link.Parent]
	return here && slices.Contains([]string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}, link.Type)
}
