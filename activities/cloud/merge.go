package cloud

import (
	"net/netip"
	"slices"
)

// Merge returns the shortest sorted list of prefixes with the same addresses: it drops
// a prefix inside another one, and joins two halves to the whole.
func Merge(prefixes []netip.Prefix) []netip.Prefix {
	all := slices.Clone(prefixes)
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	var merged []netip.Prefix
	for _, next := range all {
		if n := len(merged); n > 0 && merged[n-1].Overlaps(next) {
			continue // sorted: an earlier or larger prefix came first
		}
		merged = append(merged, next)
		// The whole may be half of a larger prefix.
		for n := len(merged); n > 1; n = len(merged) {
			whole, halves := join(merged[n-2], merged[n-1])
			if !halves {
				break
			}
			merged = append(merged[:n-2], whole)
		}
	}
	return merged
}

// join returns the prefix of which a and b, in this order, are the halves.
func join(a, b netip.Prefix) (whole netip.Prefix, halves bool) {
	if a.Bits() != b.Bits() || a.Bits() < 2 || a.Addr().Is4() != b.Addr().Is4() {
		return netip.Prefix{}, false
	}
	whole = netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
	return whole, whole.Addr() == a.Addr() && a != b && whole.Contains(b.Addr())
}
