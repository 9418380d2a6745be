package v1beta1

import (
	"net/netip"
	"slices"
	"testing"
)

func addressesOf(count int) []netip.Addr {
	var addresses []netip.Addr
	for i := range count {
		addresses = append(addresses, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
	}
	return addresses
}

func TestShareRoundsUp(t *testing.T) {
	for _, c := range []struct{ addresses, percentage, want int }{
		{1, 1, 1}, {3, 1, 1}, {4, 25, 1}, {5, 25, 2}, {3, 34, 2}, {10, 99, 10}, {10, 100, 10}, {200, 50, 100},
	} {
		if got := Share(addressesOf(c.addresses), c.percentage, "db", "uid"); len(got) != c.want {
			t.Errorf("Share(%d addresses, %d) = %d of them, want %d", c.addresses, c.percentage, len(got), c.want)
		}
	}
}

// Chaos pods learn the addresses in any order, and not at the same moment.
func TestShareIsTheSameForAllOfADisruption(t *testing.T) {
	addresses := addressesOf(100)
	first := Share(addresses, 50, "db", "uid")
	backwards := slices.Clone(addresses)
	slices.Reverse(backwards)
	if other := Share(backwards, 50, "db", "uid"); !slices.Equal(first, other) {
		t.Errorf("Share() of the same addresses in another order = %v, want %v", other, first)
	}
	for _, other := range [][]netip.Addr{Share(addresses, 50, "db", "another"), Share(addresses, 50, "cache", "uid")} {
		if slices.Equal(first, other) {
			t.Error("another disruption and another host have the same choice")
		}
	}
	more := Share(append(addressesOf(100), netip.MustParseAddr("10.2.0.1")), 50, "db", "uid")
	kept := 0
	for _, address := range more {
		if slices.Contains(first, address) {
			kept++
		}
	}
	if kept < 49 {
		t.Errorf("one address more: %d of 50 are the same, want 49 or all", kept)
	}
}
