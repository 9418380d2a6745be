//go:build linux

package attach

import (
	"net/netip"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
)

// Link is a network interface, as far as the choice of hooks depends on it.
type Link struct {
	Index int
	Name  string
	// Type is the kernel's word, such as "veth", "bond" or "vlan".
	Type     string
	Loopback bool
	// Parent is the link below a stacked one, 0 if that is in another
	// namespace or does not exist. Master is the link it is a part of.
	Parent, Master int
}

// Hook is one direction of one link, where a program is attached.
type Hook struct {
	Index     int
	Name      string
	Direction classifier.Direction
}

// Hooks chooses where programs are attached: on every link of the namespace,
// but so that a packet is judged once on its way through stacked links. The
// loopback link is left out at node level, and has only an egress at pod level,
// as each of its packets would come twice.
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

// IngressAt leaves out what enters by links that carry none of these addresses, nor
// a link above them that does: on a node these lead to other pods, whose packets
// are not those of who has the addresses. If no link carries one, as where they are
// translated on their way, nothing is left out.
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

// judgedElsewhere knows links whose packets pass another link of the namespace
// as well: all of a VLAN's pass its parent, all of a bond's part pass the bond.
// What enters or leaves through a bridge passes the bridge itself; what stays
// between its ports is not the target's own traffic.
func judgedElsewhere(link Link, types map[int]string) bool {
	if slices.Contains([]string{"bond", "team", "bridge"}, types[link.Master]) {
		return true
	}
	if link.Type == "ifb" {
		return true // its packets come from another link, and go back there
	}
	_, here := types[link.Parent]
	return here && slices.Contains([]string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}, link.Type)
}
