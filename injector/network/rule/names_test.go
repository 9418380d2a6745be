//go:build linux

package rule

import (
	"fmt"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func addressesOf(count int) []netip.Addr {
	var addresses []netip.Addr
	for i := range count {
		addresses = append(addresses, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
	}
	return addresses
}

func TestPlanDisturbsAShareOfAHost(t *testing.T) {
	half, wrong := v1beta1.PercentNumber(50), v1beta1.PercentNumber(0)
	site := Site{
		Level: v1beta1.LevelPod, Disruption: types.UID("uid"),
		Resolved: map[Name][]netip.Addr{byDefault("db"): addressesOf(5), {"db", "node"}: addressesOf(2)},
	}
	for _, c := range []struct {
		host host
		want int
	}{
		{host{Host: "db", Percentage: &half}, 3}, {host{Host: "db"}, 5}, {host{Host: "db", DNSResolver: "node"}, 2},
		{host{Host: "10.0.0.0/8", Percentage: &half}, 1}, {host{Percentage: &half}, 1},
	} {
		rules, err := Plan(v1beta1.NetworkDisruption{Drop: 1, Hosts: hosts{c.host}}, site)
		if err != nil || len(rules) != c.want {
			t.Errorf("Plan(%+v) = %d rules, %v, want %d", c.host, len(rules), err, c.want)
		}
	}
	if _, err := Plan(v1beta1.NetworkDisruption{Drop: 1, Hosts: hosts{{Host: "db", Percentage: &wrong}}}, site); fmt.Sprint(err) != "hosts[0]: percentage 0: want a share in percent, 1 to 100" {
		t.Errorf("Plan() with 0 percent = %v", err)
	}
}
