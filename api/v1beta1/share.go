package v1beta1

import (
	"bytes"
	"crypto/sha256"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Share takes a share, in percent, of the addresses of a host or service,
// rounded up: those with the smallest hashes of address, host and disruption. So
// all chaos pods of a disruption disturb the same ones, each disruption others,
// and an address that comes or goes changes the choice by one at most.
func Share(addresses []netip.Addr, percentage int, host string, disruption types.UID) []netip.Addr {
	hash := func(address netip.Addr) []byte {
		sum := sha256.Sum256([]byte(address.String() + " " + host + " " + string(disruption)))
		return sum[:]
	}
	chosen := slices.Clone(addresses)
	slices.SortFunc(chosen, func(a, b netip.Addr) int { return bytes.Compare(hash(a), hash(b)) })
	chosen = chosen[:(len(chosen)*percentage+99)/100]
	slices.SortFunc(chosen, netip.Addr.Compare)
	return chosen
}
