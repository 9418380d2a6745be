package cloud

import (
	"net/netip"
	"testing"
)

// For any text of a provider or an operator, no range is everything, and merging ranges
// changes no addresses.
func fuzz(f *testing.F, provider string) {
	for _, other := range []string{AWS, GCP, Datadog} {
		f.Add(read(f, other))
	}
	f.Add([]byte(`{"prefixes":[{"ip_prefix":"10.0.0.0/9","ipv4Prefix":"10.0.0.0/9","service":"a"},{"ip_prefix":"10.128.0.0/9","ipv6Prefix":"::1/128","service":"a"}]}`))
	f.Add([]byte(`{"a":{"prefixes_ipv4":["0.0.0.0/0","1.2.3.4/33","::ffff:1.2.3.4/128"]},"b":null}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		ranges, err := Parse(provider, document)
		if err != nil {
			return
		}
		for service, all := range ranges {
			if service == "" || len(all) == 0 {
				t.Errorf("service %q has the ranges %v", service, all)
			}
			merged := Merge(all)
			for _, prefix := range all {
				if !prefix.IsValid() || prefix.Bits() == 0 || !covered(prefix, merged) {
					t.Errorf("%s is not in %v, or everything", prefix, merged)
				}
			}
			for i, prefix := range merged {
				if i > 0 && merged[i-1].Overlaps(prefix) {
					t.Errorf("%s overlaps with %s", merged[i-1], prefix)
				}
			}
		}
	})
}

func covered(prefix netip.Prefix, by []netip.Prefix) bool {
	for _, other := range by {
		if other.Bits() <= prefix.Bits() && other.Contains(prefix.Addr()) {
			return true
		}
	}
	return false
}

func FuzzAWS(f *testing.F) { fuzz(f, AWS) }

func FuzzGCP(f *testing.F) { fuzz(f, GCP) }

func FuzzDatadog(f *testing.F) { fuzz(f, Datadog) }
